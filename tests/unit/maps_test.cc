// SPDX-License-Identifier: Apache-2.0
// shard_map and collectives through the public functions.
#include <gtest/gtest.h>

#include <numeric>

#include "tessera/pictures.h"
#include "tessera/tessera.h"
#include "tests/support/spec_report.h"

namespace tessera {
namespace {

HostArray numbers(const Shape& shape) {
  std::int64_t n = 1;
  for (auto d : shape) n *= d;
  std::vector<float> v(static_cast<std::size_t>(n));
  std::iota(v.begin(), v.end(), 0.0F);
  return HostArray::from(v, shape);
}

class Maps : public ::testing::Test {
 protected:
  Client client_ = Client::cpu({.devices = 8});
  ClientScope scope_{client_};
  Mesh mesh_ = make_mesh({2, 4}, {"x", "y"});
};

TEST_F(Maps, SumOverOneAxis) {
  auto f = shard_map([](Array x) { return psum(x, "x"); }, mesh_, P("x", "y"), P(none, "y"));
  std::vector<float> want{8, 10, 12, 14, 16, 18, 20, 22};
  EXPECT_EQ(f(Array(numbers({4, 4}))).to_vector<float>(), want);
  EXPECT_EQ(jit(f)(Array(numbers({4, 4}))).to_vector<float>(), want);
}

TEST_F(Maps, IndexAndPermute) {
  auto f = shard_map(
      [](Array x) {
        Array i = axis_index({"y", "x"});
        Array moved = ppermute(x, "y", {{0, 1}, {1, 2}, {2, 3}, {3, 0}});
        return std::pair(moved, expand_dims(i, {0}));
      },
      mesh_, P("y"), SpecTree{P("y"), P(axes("x", "y"))});
  auto [moved, index] = f(Array(numbers({4})));
  EXPECT_EQ(moved.to_vector<float>(), (std::vector<float>{3, 0, 1, 2}));
  EXPECT_EQ(index.to_vector<std::int32_t>(), (std::vector<std::int32_t>{0, 2, 4, 6, 1, 3, 5, 7}));
}

// What a program names is what its plan shows, whatever equations the partitioner makes of it.
TEST_F(Maps, PlansNameTheCollectiveThatWasAskedFor) {
  const AxisIndexGroups halves{{0, 1}, {2, 3}};
  auto step = [&](auto body) {
    auto f = shard_map(body, mesh_, P(axes("x", "y")), P(axes("x", "y")), {.check_vma = false});
    CommPlan plan = jit(f).lower(Array(numbers({64}))).comm_plan();
    EXPECT_EQ(plan.steps().size(), 1U) << to_string(plan);
    const CommStep s = plan.steps().at(0);
    EXPECT_TRUE(advice(s).empty()) << "the program wants it: " << advice(s);
    return s.op + ", " + s.equation + ", " + s.reason;
  };
  EXPECT_EQ(step([](Array x) {
              return ppermute(x, "y", {{0, 1}, {1, 0}});
            }),
            "collective_permute, ppermute, asked for by ppermute");
  EXPECT_EQ(step([](Array x) { return pbroadcast(x, "y", 1); }),
            "collective_permute, pbroadcast, asked for by pbroadcast");
  EXPECT_EQ(step([](Array x) { return psum(x, "y"); }), "all_reduce, psum, asked for by psum");
  EXPECT_EQ(step([&](Array x) { return psum(x, "y", {.axis_index_groups = halves}); }),
            "all_reduce, psum, asked for by psum in groups");
  EXPECT_EQ(step([&](Array x) { return pmax(x, "y", {.axis_index_groups = halves}); }),
            "all_reduce, pmax, asked for by pmax in groups");
  EXPECT_EQ(step([](Array x) { return all_to_all(x, "y", 0, 0, {.tiled = true}); }),
            "all_to_all, all_to_all, asked for by all_to_all");
  EXPECT_EQ(step([&](Array x) { return all_to_all(x, "y", 0, 0, {.axis_index_groups = halves, .tiled = true}); }),
            "all_to_all, all_to_all, asked for by all_to_all in groups");
}

TEST_F(Maps, GradientThroughSumsIsTrueInBothModes) {
  for (bool check : {true, false}) {
    auto f = [&](Array w, Array x) {
      auto inner = shard_map(
          [](Array wb, Array xb) {
            return psum(sum(sin(wb * xb)), {"x", "y"});
          },
          mesh_, SpecTree{P(), P(axes("x", "y"))}, P(), {.check_vma = check});
      return inner(w, x);
    };
    auto plain = [](Array w, Array x) { return sum(sin(w * x)); };
    Array x(numbers({8}));
    Array w(0.5F);
    auto [gw, gx] = grad<0, 1>(f)(w, x);
    auto [pw, px] = grad<0, 1>(plain)(w, x);
    EXPECT_NEAR(gw.item<float>(), pw.item<float>(), 1e-4);
    auto a = gx.to_vector<float>();
    auto b = px.to_vector<float>();
    for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-5);
    EXPECT_NEAR(jit(grad(f))(w, x).item<float>(), pw.item<float>(), 1e-4);
  }
}

// One argument that is itself a pair or a tuple stays one argument.
TEST_F(Maps, TakesAPairAsOneArgument) {
  using Pair = std::pair<Array, Array>;
  Pair p{arange(8.0), arange(8.0) * 2};
  Array want = p.first + p.second;
  auto f = [](const Pair& v) { return v.first + v.second; };
  EXPECT_TRUE(bool(array_equal(shard_map(f, make_mesh({8}, {"x"}), P("x"), P("x"))(p), want)));
  EXPECT_TRUE(bool(array_equal(vmap(f)(p), want)));
  EXPECT_TRUE(bool(array_equal(pmap(f)(p), want)));
  EXPECT_TRUE(bool(array_equal(jit(f)(p), want)));
  auto g = [](const std::tuple<Array>& v) { return std::get<0>(v) * 2; };
  EXPECT_TRUE(bool(array_equal(vmap(g)(std::tuple<Array>(p.first)), p.second)));
}

// Inside a map a spec means the map's mesh; its own axes are taken.
TEST_F(Maps, SpecsInsideMeanTheMapsMesh) {
  Array x = reshape(arange(32.0), {4, 8});
  auto over = [&](const PartitionSpec& spec) {
    return jit(shard_map([=](const Array& b) { return psum(with_sharding_constraint(b * 2, spec), "x"); }, mesh_,
                         P("x"), P(), {.axis_names = {"x"}}));
  };
  Array want = sum(reshape(x * 2, {2, 2, 8}), {.axis = 0});
  EXPECT_TRUE(bool(array_equal(over(P(none, "y"))(x), want)));
  EXPECT_THROW(over(P("x"))(x), ValueError);
}

}  // namespace
}  // namespace tessera
