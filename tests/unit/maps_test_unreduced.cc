// SPDX-License-Identifier: Apache-2.0
// shard_map with unreduced and reduced specs, casts to them, and their derivatives.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "tessera/tessera.h"
#include "tests/support/addends.h"
#include "tests/support/meshes.h"

namespace tessera {
namespace {

using Floats = std::vector<float>;

class UnreducedMap : public ::testing::Test {
 protected:
  test::EightDevices devices_;
  Mesh mesh_ = devices_.A();
  MeshScope in_mesh_{mesh_};
  HostArray value_ = HostArray::from(Floats{3, -1, 4, 1, -5, 9, 2, 6}, {8});
  P sum_ = P().unreduced("x");
  P reduced_ = P().reduced("x");

  ShardingPtr of(const PartitionSpec& spec) const { return NamedSharding(mesh_, spec).share(); }
  Array put(const PartitionSpec& spec) const { return device_put(value_, of(spec)); }
  static Floats values(const Array& a) { return test::value_of_shards(a).to_vector<float>(); }
  static Floats shard(const Array& a, std::size_t i) {
    return a.addressable_shards()[i].value().host().to_vector<float>();
  }
  static std::string refused(const std::function<void()>& f) {
    try {
      f();
    } catch (const ValueError& e) {
      return e.what();
    }
    return "nothing is thrown";
  }
};

Array same(const Array& x) { return x; }

TEST_F(UnreducedMap, OperandsAreAddends) {
  Array a = test::from_device_buffers(value_, of(sum_), 3);
  auto f = shard_map([](const Array& x) { return psum(x, "x"); }, mesh_, sum_, P());
  EXPECT_EQ(f(a).host().to_vector<float>(), value_.to_vector<float>());
  EXPECT_EQ(jit(f).lower(a).comm_plan().steps().size(), 1U);
  auto g = shard_map([](const Array& x) { return psum_scatter(x, "x", {.tiled = true}); }, mesh_, sum_, P("x"));
  EXPECT_EQ(g(a).host().to_vector<float>(), value_.to_vector<float>());
  EXPECT_EQ(jit(g).lower(a).comm_plan().count("reduce_scatter"), 1);
  // Each device's own.
  Array all = shard_map(same, mesh_, sum_, P("x"))(a);
  EXPECT_EQ(all.shape(), (Shape{32}));
  Floats second = shard(a, 2);
  Floats got = all.host().to_vector<float>();
  EXPECT_TRUE(std::equal(second.begin(), second.end(), got.begin() + 8));
}

TEST_F(UnreducedMap, ResultsStaySums) {
  for (bool cast : {true, false}) {
    auto f = shard_map([cast](const Array& x) { return cast ? pcast(x, "x", CastTo::unreduced) : x * 1.0F; }, mesh_,
                       P("x"), sum_);
    Array u = f(put(P("x")));
    EXPECT_EQ(u.shape(), (Shape{2}));
    EXPECT_EQ(*u.sharding(), *of(sum_)) << u.sharding()->text();
    EXPECT_EQ(shard(u, 2), (Floats{4, 1}));
    EXPECT_EQ(reshard(u, P()).host().to_vector<float>(), (Floats{4, 15}));
    EXPECT_TRUE(jit(f).lower(put(P("x"))).comm_plan().empty());
  }
  // A product of split operands leaves its sum undone.
  auto dot = shard_map([](const Array& a, const Array& b) { return matmul(a, b); }, mesh_, {P("x", "y"), P("y", none)},
                       P("x", none).unreduced("y"));
  Array a = device_put(reshape(astype(arange(32), float32), {4, 8}), of(P("x", "y")));
  Array b = device_put(reshape(astype(arange(16), float32), {8, 2}), of(P("y", none)));
  Array u = dot(a, b);
  EXPECT_EQ(values(u), matmul(a, b).host().to_vector<float>());
  EXPECT_THROW(u.host(), StateError);
  auto loss = [&](const Array& p, const Array& q) { return sum(square(reshard(dot(p, q), P("x", none)))); };
  auto plain = [&](const Array& p, const Array& q) { return sum(square(matmul(p, q))); };
  auto got = jit(grad<0, 1>(loss))(a, b);
  auto want = jit(grad<0, 1>(plain))(a, b);
  EXPECT_EQ(std::get<0>(got).host().to_vector<float>(), std::get<0>(want).host().to_vector<float>());
  EXPECT_EQ(std::get<1>(got).host().to_vector<float>(), std::get<1>(want).host().to_vector<float>());
}

TEST_F(UnreducedMap, SpecsAndCastsAreChecked) {
  Array v = put(P());
  std::string what = refused([&] { shard_map(same, mesh_, P(), sum_)(v); });
  EXPECT_NE(what.find("unreduced over (x)"), std::string::npos) << what;
  what =
      refused([&] { shard_map([](const Array& x) { return pcast(x, "x", CastTo::unreduced); }, mesh_, P(), sum_)(v); });
  EXPECT_NE(what.find("pcast: to = unreduced"), std::string::npos) << what;
  what = refused(
      [&] { shard_map([](const Array& x) { return pcast(x, "x", CastTo::reduced); }, mesh_, P("x"), reduced_)(v); });
  EXPECT_NE(what.find("pcast: to = reduced"), std::string::npos) << what;
  what = refused([&] { shard_map(same, mesh_, P("x"), reduced_)(v); });
  EXPECT_NE(what.find("varying"), std::string::npos) << what;
  what = refused([&] { shard_map(same, mesh_, reduced_, P())(v); });
  EXPECT_NE(what.find("varying"), std::string::npos) << what;
  EXPECT_THROW(shard_map(same, mesh_, sum_, sum_, {.axis_names = {"x"}})(v), UnimplementedError);
  // Unchecked, what each device has is taken as its addend.
  Array four = shard_map(same, mesh_, P(), sum_, {.check_vma = false})(v);
  Floats want = value_.to_vector<float>();
  for (auto& x : want) x *= 4;
  EXPECT_EQ(values(four), want);
}

TEST_F(UnreducedMap, ReducedValuesAreEqual) {
  auto f = shard_map([](const Array& x) { return pcast(x, "x", CastTo::reduced); }, mesh_, P(), reduced_);
  Array r = f(put(P()));
  EXPECT_EQ(*r.sharding(), *of(reduced_)) << r.sharding()->text();
  EXPECT_EQ(r.host().to_vector<float>(), value_.to_vector<float>());
  auto gather = shard_map([](const Array& x) { return all_gather(x, "x", {.tiled = true, .to = GatherTo::reduced}); },
                          mesh_, P("x"), reduced_);
  EXPECT_EQ(gather(put(P("x"))).host().to_vector<float>(), value_.to_vector<float>());
  Array twice = shard_map([](const Array& x) { return x * 2.0F; }, mesh_, reduced_, reduced_)(r);
  EXPECT_EQ(twice.host().to_vector<float>()[0], 6);
  Array each = shard_map([](const Array& x) { return pcast(x, "x", CastTo::varying); }, mesh_, reduced_, P("x"))(r);
  EXPECT_EQ(each.shape(), (Shape{32}));
}

// d/dr of a reduced operand stays a sum; that of a sum is whole.
TEST_F(UnreducedMap, DerivativesSwapThem) {
  Array z = device_put(astype(arange(32), float32), of(P("x")));
  Array r = put(reduced_);
  auto loss = [&](const Array& w, const Array& data) {
    auto body = [](const Array& a, const Array& b) { return psum(sum(pcast(a, "x", CastTo::varying) * b), "x"); };
    return shard_map(body, mesh_, {reduced_, P("x")}, P())(w, data);
  };
  Array g = jit(grad(loss))(r, z);
  EXPECT_TRUE(g.sharding()->is_equivalent_to(*of(sum_), 1)) << g.sharding()->text();
  for (std::size_t d = 0; d < 8; ++d) {
    for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(shard(g, d)[i], static_cast<float>(d / 2 * 8 + i));
  }
  EXPECT_TRUE(jit(grad(loss)).lower(r, z).comm_plan().empty());

  Array u = test::from_device_buffers(value_, of(sum_), 3);
  auto weights = reshape(astype(arange(8), float32), {8});
  auto of_sum = [&](const Array& a) {
    return sum(weights * shard_map([](const Array& x) { return psum(x, "x"); }, mesh_, sum_, P())(a));
  };
  EXPECT_EQ(jit(grad(of_sum))(u).host().to_vector<float>(), (Floats{0, 1, 2, 3, 4, 5, 6, 7}));
  auto of_scatter = [&](const Array& a) {
    auto f = shard_map([](const Array& x) { return psum_scatter(x, "x", {.tiled = true}); }, mesh_, sum_, P("x"));
    return sum(weights * f(a));
  };
  EXPECT_EQ(jit(grad(of_scatter))(u).host().to_vector<float>(), (Floats{0, 1, 2, 3, 4, 5, 6, 7}));

  // Casts out of the map.
  auto cast = [&](const Array& a) {
    auto f = shard_map([](const Array& x) { return pcast(x, "x", CastTo::unreduced); }, mesh_, P("x"), sum_);
    return sum(HostArray::from(Floats{5, 7}, {2}) * reshard(f(a), P()));
  };
  EXPECT_EQ(jit(grad(cast))(put(P("x"))).host().to_vector<float>(), (Floats{5, 7, 5, 7, 5, 7, 5, 7}));
  auto to_reduced = [&](const Array& a) {
    auto f = shard_map([](const Array& x) { return pcast(x, "x", CastTo::reduced) * 3.0F; }, mesh_, P(), reduced_);
    return loss(f(a), z);
  };
  Floats want;
  for (int i = 0; i < 8; ++i) want.push_back(static_cast<float>(3 * (4 * i + 48)));
  EXPECT_EQ(jit(grad(to_reduced))(put(P())).host().to_vector<float>(), want);
  auto gathered = [&](const Array& a) {
    auto f = shard_map([](const Array& x) { return all_gather(x, "x", {.tiled = true, .to = GatherTo::reduced}); },
                       mesh_, P("x"), reduced_);
    return loss(f(a), z);
  };
  for (auto& x : want) x /= 3;
  EXPECT_EQ(jit(grad(gathered))(put(P("x"))).host().to_vector<float>(), want);
  auto passed = [&](const Array& a) {
    auto f = shard_map([](const Array& x) { return x * 2.0F; }, mesh_, reduced_, reduced_);
    return loss(f(a), z);
  };
  Array twice = jit(grad(passed))(r);
  EXPECT_TRUE(twice.sharding()->is_equivalent_to(*of(sum_), 1)) << twice.sharding()->text();
  for (auto& x : want) x *= 2;
  EXPECT_EQ(values(twice), want);
}

TEST_F(UnreducedMap, ForwardModeAndVmap) {
  Array u = test::from_device_buffers(value_, of(sum_), 3);
  Array t = test::from_device_buffers(value_, of(sum_), 4);
  auto f = shard_map([](const Array& x) { return psum(x, "x") * 2.0F; }, mesh_, sum_, P());
  auto [out, tangent] = jvp(f, std::tuple(u), std::tuple(t));
  EXPECT_EQ(out.host().to_vector<float>(), tangent.host().to_vector<float>());
  Array rows = device_put(HostArray::from(Floats{1, 2, 3, 4, 5, 6, 7, 8}, {2, 4}), of(P(none, "x")));
  auto cast = shard_map([](const Array& x) { return pcast(x, "x", CastTo::unreduced); }, mesh_, P("x"), sum_);
  EXPECT_EQ(reshard(jit(vmap(cast))(rows), P()).host().to_vector<float>(), (Floats{10, 26}));
}

}  // namespace
}  // namespace tessera
