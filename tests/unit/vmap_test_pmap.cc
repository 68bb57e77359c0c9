// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "tessera/tessera.h"
#include "tests/support/meshes.h"
#include "tests/support/spec_report.h"

namespace tessera {
namespace {

using test::EightDevices;
using test::error_of;
using Ints = std::vector<std::int32_t>;

class Pmap : public ::testing::Test {
 protected:
  EightDevices e_;
  std::vector<Device> devices_{e_.client.devices().begin(), e_.client.devices().end()};
  Array x_ = reshape(arange(16), {8, 2});
  Array v8_ = arange(8);
};

TEST_F(Pmap, TakesArraysPlacedForIt) {
  TESSERA_SPEC("A39");
  Array x = device_put(x_, std::make_shared<PmapSharding>(devices_, 0));
  Array y = pmap([](Array v) { return v + 1; })(x);
  Ints want(16);
  for (std::size_t i = 0; i < 16; ++i) want[i] = static_cast<std::int32_t>(i) + 1;
  EXPECT_EQ(y.to_vector<std::int32_t>(), want);
}

TEST_F(Pmap, ResultsLieASliceADevice) {
  TESSERA_SPEC("A79");
  auto twice = pmap([](Array v) { return v * 2; });
  Array y = twice(x_);
  EXPECT_EQ(y.shape(), (Shape{8, 2}));
  EXPECT_TRUE(y.committed());
  EXPECT_EQ(*y.sharding(), PmapSharding(devices_, 0));
  const auto& shard = y.addressable_shards()[3];
  EXPECT_EQ(shard.device(), e_.d(3));
  EXPECT_EQ(shard.value().shape(), (Shape{1, 2}));
  EXPECT_EQ(shard.value().to_vector<std::int32_t>(), (Ints{12, 14}));
  Array four = twice(reshape(arange(8), {4, 2}));
  EXPECT_EQ(*four.sharding(), PmapSharding(e_.list({0, 1, 2, 3}), 0));

  Array columns = pmap([](Array v) { return v + 1; }, {.in_axes = 1, .out_axes = 1})(reshape(arange(16), {2, 8}));
  EXPECT_EQ(*columns.sharding(), PmapSharding(devices_, 1));
  EXPECT_EQ(columns.addressable_shards()[3].value().to_vector<std::int32_t>(), (Ints{4, 12}));

  auto sum = [](Array v) { return psum(v, "i"); };
  EXPECT_EQ(pmap(sum, {.axis_name = "i"})(v8_).to_vector<std::int32_t>(), Ints(8, 28));
  Array whole = pmap(sum, {.axis_name = "i", .out_axes = none})(v8_);
  EXPECT_EQ(whole.to_vector<std::int32_t>(), Ints{28});
  EXPECT_TRUE(whole.is_fully_replicated());

  std::string many = error_of<ValueError>([&] { twice(arange(9)); });
  EXPECT_NE(many.find('9'), std::string::npos) << many;
  EXPECT_NE(many.find('8'), std::string::npos) << many;
  EXPECT_NE(error_of<ValueError>([&] { twice(Array(1)); }).find("rank"), std::string::npos);
}

TEST_F(Pmap, MixesWithJit) {
  TESSERA_SPEC("A80");
  auto next = pmap([](Array v) { return v + 1; });
  Mesh mesh = e_.A();
  Array laid = device_put(x_, NamedSharding(mesh, P(axes("x", "y"))).share());
  Array y = next(laid);
  EXPECT_EQ(y.to_vector<std::int32_t>()[15], 16);
  Array z = jit([](Array v) { return v + 1; })(y);
  EXPECT_EQ(z.to_vector<std::int32_t>()[15], 17);
  EXPECT_TRUE(z.sharding()->is_equivalent_to(PmapSharding(devices_, 0), 2)) << z.sharding()->text();
  Array moved = device_put(y, NamedSharding(mesh, P("x")).share());
  EXPECT_EQ(moved.to_vector<std::int32_t>(), y.to_vector<std::int32_t>());
  for (const auto& wrong : {device_put(x_, NamedSharding(mesh, P("x", "y")).share()), device_put(x_, e_.d(3))}) {
    std::string text = error_of<ValueError>([&] { next(wrong); });
    EXPECT_NE(text.find("argument 0"), std::string::npos) << text;
  }
}

TEST_F(Pmap, TreesStaticArgumentsAndOtherDevices) {
  auto f = [](const std::pair<Array, Array>& p, Array w, const std::string& how) {
    return how == "add" ? p.first + p.second * w : p.first - w;
  };
  auto g = pmap(f, {.in_axes = {0, none, none}, .devices = e_.list({5, 2})});
  std::pair<Array, Array> p{arange(2), arange(2)};
  Array y = g(p, Array(3), std::string("add"));
  EXPECT_EQ(y.to_vector<std::int32_t>(), (Ints{0, 4}));
  EXPECT_EQ(*y.sharding(), PmapSharding(e_.list({5, 2}), 0));
  EXPECT_EQ(g(p, Array(3), std::string("sub")).to_vector<std::int32_t>(), (Ints{-3, -2}));
  std::pair<Array, Array> longer{arange(3), arange(3)};
  EXPECT_NE(error_of<ValueError>([&] { g(longer, Array(3), std::string("add")); }).find("devices"), std::string::npos);
}

TEST_F(Pmap, NestsWithOtherMapsAndDerivatives) {
  auto f = [](Array v) { return vmap([](Array e) { return psum(e * e, {"i", "j"}); }, {.axis_name = "j"})(v); };
  Array x = astype(x_, float32);
  std::vector<float> all(16, 1240.0F);
  EXPECT_EQ(pmap(f, {.axis_name = "i"})(x).to_vector<float>(), all);
  EXPECT_EQ(jit(pmap(f, {.axis_name = "i"}))(x).to_vector<float>(), all);
  auto loss = [&](Array v) { return sum(pmap([](Array e) { return e * e; })(v)); };
  EXPECT_EQ(grad(loss)(x).to_vector<float>(), (x * 2).to_vector<float>());
}

TEST_F(Pmap, DonatedArgumentsAreGone) {
  Array x = device_put(x_, std::make_shared<PmapSharding>(devices_, 0));
  Array y = pmap([](Array v) { return v + 1; }, {.donate_argnums = {0}})(x);
  EXPECT_TRUE(x.is_deleted());
  EXPECT_EQ(y.to_vector<std::int32_t>()[0], 1);
}

}  // namespace
}  // namespace tessera
