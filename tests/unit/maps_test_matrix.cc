// SPDX-License-Identifier: Apache-2.0
// Every collective at once and under jit, in nested maps, in loops; its first and second derivatives against finite
// differences.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "tessera/tessera.h"
#include "tests/support/spec_report.h"

namespace tessera {
namespace {

// Blocks are float64[4, 8] on four instances of "y".
struct Entry {
  std::string name;
  std::function<Array(const Array&)> f;
  bool smooth = true;
};

Array ragged(const Array& x) {
  // Instance i sends 1 row to each peer; it lands in the row of the sender.
  Array i = axis_index("y");
  Array rows = arange(4);
  Array ones_ = ones({4}, int32);
  return ragged_all_to_all(x, x * 0.5, rows, ones_, broadcast_to(reshape(i, {1}), {4}), ones_, "y");
}

std::vector<Entry> entries() {
  PermutationPairs shift{{0, 1}, {1, 2}, {2, 3}};
  AxisIndexGroups pairs{{0, 2}, {3, 1}};
  return {
      {"psum", [](const Array& x) { return psum(x, "y"); }},
      {"psum_groups", [=](const Array& x) { return psum(x, "y", {.axis_index_groups = pairs}); }},
      {"pmean", [](const Array& x) { return pmean(x, "y"); }},
      {"pmax", [](const Array& x) { return pmax(x, "y"); }, false},
      {"pmin", [](const Array& x) { return pmin(x, "y"); }, false},
      {"pargmax", [](const Array& x) { return astype(pargmax(x, "y"), float64); }, false},
      {"pbroadcast", [](const Array& x) { return pbroadcast(x, "y", 2); }},
      {"ppermute", [=](const Array& x) { return ppermute(x, "y", shift); }},
      {"pshuffle",
       [](const Array& x) {
         return pshuffle(x, "y", {2, 0, 3, 1});
       }},
      {"pswapaxes", [](const Array& x) { return pswapaxes(x, "y", 0); }},
      {"all_to_all",
       [](const Array& x) {
         return all_to_all(reshape(x, {4, 2, 4}), "y", 0, 1);
       }},
      {"all_to_all_tiled", [](const Array& x) { return all_to_all(x, "y", 1, 0, {.tiled = true}); }},
      {"all_to_all_groups",
       [=](const Array& x) { return all_to_all(x, "y", 1, 0, {.axis_index_groups = pairs, .tiled = true}); }},
      {"ragged_all_to_all", ragged},
      {"all_gather", [](const Array& x) { return all_gather(x, "y", {.axis = 1}); }},
      {"all_gather_tiled", [](const Array& x) { return all_gather(x, "y", {.axis = -1, .tiled = true}); }},
      {"all_gather_invariant", [](const Array& x) { return all_gather_invariant(x, "y"); }},
      {"psum_scatter", [](const Array& x) { return psum_scatter(x, "y"); }},
      {"psum_scatter_tiled",
       [](const Array& x) { return psum_scatter(x, "y", {.scatter_dimension = 1, .tiled = true}); }},
      {"psum_scatter_groups",
       [=](const Array& x) { return psum_scatter(x, "y", {.axis_index_groups = pairs, .tiled = true}); }},
      {"axis_index", [](const Array& x) { return x * astype(axis_index("y"), float64); }},
      {"halo_exchange", [](const Array& x) { return halo_exchange(x, "y", 0, {.before = 1, .after = 2}); }},
  };
}

class Matrix : public ::testing::Test {
 protected:
  Client client_ = Client::cpu({.devices = 8});
  ClientScope scope_{client_};
  Mesh mesh_ = make_mesh({2, 4}, {"x", "y"});

  static Array numbers(const Shape& shape, int seed) { return random::normal(random::key(seed), shape, float64); }
  static std::vector<double> values(const Array& a) { return a.to_vector<double>(); }
  static void near(const Array& got, const Array& want, double tolerance, const std::string& what) {
    ASSERT_EQ(got.shape(), want.shape()) << what;
    auto a = values(got);
    auto b = values(want);
    for (std::size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], tolerance) << what << ", element " << i;
  }
  // Every block's result in front of the next one's.
  auto mapped(const Entry& e, bool check) const {
    return shard_map([f = e.f](const Array& x) { return sin(expand_dims(f(x), {0})); }, mesh_, P("y"), P("y"),
                     {.check_vma = check});
  }
};

TEST_F(Matrix, AtOnceJitNestedAndLoops) {
  Array x = numbers({16, 8}, 1);
  for (const auto& e : entries()) {
    Array want = mapped(e, false)(x);
    near(mapped(e, true)(x), want, 0, e.name + " checked");
    near(jit(mapped(e, true))(x), want, 0, e.name + " under jit");

    // "y" is mapped inside a map over "x" that leaves it automatic.
    auto nested = [&](const Array& v) {
      auto outer = [&](const Array& half) {
        auto inner = shard_map([&](const Array& b) { return sin(expand_dims(e.f(b), {0})); }, P("y"), P("y"),
                               {.axis_names = {"y"}});
        return inner(half);
      };
      return shard_map(outer, mesh_, P(), P(), {.axis_names = {"x"}})(v);
    };
    near(nested(x), want, 0, e.name + " nested");
    near(jit(nested)(x), want, 0, e.name + " nested under jit");

    auto loop = shard_map(
        [&](const Array& b) {
          auto body = [&](const Array& carry, const Array& times) {
            return std::pair(carry + sum(b), sin(expand_dims(e.f(b * times), {0})));
          };
          auto [last, all] = scan(body, sum(b), ones({2}, float64));
          return lax::slice_in_dim(all, 1, 2) + 0 * last;
        },
        mesh_, P("y"), P(none, "y"));
    Array stacked = loop(x);
    near(reshape(stacked, want.shape()), want, 1e-12, e.name + " in a loop");
  }
}

TEST_F(Matrix, UnderVmap) {
  constexpr std::int64_t kBatch = 3;
  Array x = numbers({16, 8, kBatch}, 6);
  for (const auto& e : entries()) {
    auto at = [&](const Array& all, std::int64_t i) {
      return squeeze(lax::slice_in_dim(all, i, i + 1, 1, 2), Dims{2});
    };
    std::vector<Array> each;
    for (std::int64_t i = 0; i < kBatch; ++i) each.push_back(mapped(e, false)(at(x, i)));
    Array want = stack(each, 1);
    for (bool check : {true, false}) {
      std::string what = e.name + (check ? " checked" : " unchecked");
      auto outside = vmap(mapped(e, check), {.in_axes = {2}, .out_axes = 1});
      near(outside(x), want, 1e-12, what + " vmap around the map");
      near(jit(outside)(x), want, 1e-12, what + " vmap around the map under jit");
      auto inside = shard_map(
          [&](const Array& b) {
            auto one =
                vmap([&](const Array& v) { return sin(expand_dims(e.f(v), {0})); }, {.in_axes = {2}, .out_axes = 1});
            return one(b);
          },
          mesh_, P("y"), P("y"), {.check_vma = check});
      near(inside(x), want, 1e-12, what + " vmap in the map");
      if (!e.smooth) continue;
      Array w = numbers(want.shape(), 7);
      auto loss = [&](const Array& v) { return sum(w * outside(v)); };
      Array got = grad(loss)(x);
      for (std::int64_t i = 0; i < kBatch; ++i) {
        Array wi = squeeze(lax::slice_in_dim(w, i, i + 1, 1, 1), Dims{1});
        Array one = grad([&](const Array& v) { return sum(wi * mapped(e, check)(v)); })(at(x, i));
        near(at(got, i), one, 1e-12, what + " gradient");
      }
    }
  }
}

// A vmapped name stands for a mesh axis: the collective becomes local work with the same values and slopes.
TEST_F(Matrix, OverAVmappedName) {
  Array x = numbers({16, 8}, 8);
  Array blocks = reshape(x, {4, 4, 8});
  int refused = 0;
  for (const auto& e : entries()) {
    auto over = vmap([&](const Array& b) { return sin(e.f(b)); }, {.axis_name = "y"});
    if (e.name.ends_with("_groups") || e.name == "ragged_all_to_all") {
      EXPECT_THROW(over(blocks), UnimplementedError) << e.name;
      ++refused;
      continue;
    }
    Array want = mapped(e, false)(x);
    near(over(blocks), want, 1e-12, e.name);
    near(jit(over)(blocks), want, 1e-12, e.name + " under jit");
    if (!e.smooth) continue;
    Array w = numbers(want.shape(), 9);
    Array got = grad([&](const Array& v) { return sum(w * over(v)); })(blocks);
    Array slope = grad([&](const Array& v) { return sum(w * mapped(e, false)(v)); })(x);
    near(reshape(got, {16, 8}), slope, 1e-12, e.name + " gradient");
  }
  EXPECT_EQ(refused, 4);  // docs/limits.md
}

TEST_F(Matrix, DerivativesThroughLoops) {
  Array x = numbers({16, 8}, 10);
  for (const auto& e : entries()) {
    if (!e.smooth) continue;
    auto term = [&](const Array& b, double scale) { return sum(sin(e.f(b * scale))); };
    auto looped = shard_map(
        [&](const Array& b) {
          auto body = [&](const Array& carry, const Array& scale) {
            return std::pair(carry + sum(sin(e.f(b * scale))), carry);
          };
          Array start = 0.0 * sum(sin(e.f(b)));
          return expand_dims(scan(body, start, Array(HostArray::from(std::vector<double>{0.5, 1.5}))).first, {0});
        },
        mesh_, P("y"), P("y"), {.check_vma = false});
    auto unrolled = shard_map([&](const Array& b) { return expand_dims(term(b, 0.5) + term(b, 1.5), {0}); }, mesh_,
                              P("y"), P("y"), {.check_vma = false});
    auto slope = [](const auto& f, const Array& at) { return grad([&](const Array& v) { return sum(f(v)); })(at); };
    near(looped(x), unrolled(x), 1e-12, e.name);
    near(slope(looped, x), slope(unrolled, x), 1e-12, e.name + " gradient");
    near(jit([&](const Array& v) { return slope(looped, v); })(x), slope(unrolled, x), 1e-12, e.name + " under jit");
  }
}

// <ct, jvp(t)> = <vjp(ct), t> for what is linear.
TEST_F(Matrix, TransposesAreAdjoint) {
  TESSERA_SPEC("C111");
  Array x = numbers({16, 8}, 2);
  Array t = numbers({16, 8}, 3);
  for (const auto& e : entries()) {
    if (!e.smooth) continue;
    for (bool check : {true, false}) {
      auto f = shard_map([&](const Array& b) { return expand_dims(e.f(b), {0}); }, mesh_, P("y"), P("y"),
                         {.check_vma = check});
      Array ct = numbers(f(x).shape(), 5);
      double forward = sum(ct * jvp(f, std::tuple(x), std::tuple(t)).second).item<double>();
      double backward = sum(t * std::get<0>(vjp(f, x).second(ct))).item<double>();
      EXPECT_NEAR(forward, backward, 1e-10) << e.name << (check ? " checked" : " unchecked");
    }
  }
}

TEST_F(Matrix, DerivativesAgainstFiniteDifferences) {
  Array x = numbers({16, 8}, 2);
  Array v = numbers({16, 8}, 3);
  double h = 1e-5;
  for (const auto& e : entries()) {
    if (!e.smooth) continue;
    for (bool check : {true, false}) {
      auto f = mapped(e, check);
      Array w = numbers(f(x).shape(), 4);
      auto loss = [&](const Array& at) { return sum(w * f(at)); };
      auto slope = [&](const Array& at) { return sum(v * grad(loss)(at)); };
      std::string what = e.name + (check ? " checked" : " unchecked");
      double first = (loss(x + h * v).item<double>() - loss(x - h * v).item<double>()) / (2 * h);
      EXPECT_NEAR(slope(x).item<double>(), first, 1e-6 * (1 + std::abs(first))) << what;
      EXPECT_NEAR(jit(slope)(x).item<double>(), first, 1e-6 * (1 + std::abs(first))) << what;
      double tangent = jvp(loss, std::tuple(x), std::tuple(v)).second.item<double>();
      EXPECT_NEAR(tangent, first, 1e-6 * (1 + std::abs(first))) << what;
      Array second = (grad(loss)(x + h * v) - grad(loss)(x - h * v)) / (2 * h);
      near(grad(slope)(x), second, 1e-5, what + " second derivative");
      near(jit(grad(slope))(x), second, 1e-5, what + " second derivative under jit");
    }
  }
}

}  // namespace
}  // namespace tessera
