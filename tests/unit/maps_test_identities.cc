// SPDX-License-Identifier: Apache-2.0
// Identities between collectives, their abstract evaluation, and maps that leave axes automatic.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "tessera/tessera.h"
#include "tests/support/spec_report.h"

namespace tessera {
namespace {

using Names = std::vector<std::string>;

class Identities : public ::testing::Test {
 protected:
  Client client_ = Client::cpu({.devices = 8});
  ClientScope scope_{client_};

  Mesh mesh(const Shape& sizes) const {
    Names names{"x", "y", "z"};
    names.resize(sizes.size());
    std::int64_t n = 1;
    for (auto s : sizes) n *= s;
    return make_mesh(sizes, names, client_.devices().first(static_cast<std::size_t>(n)));
  }
  static Array numbers(const Shape& shape, int seed) { return random::normal(random::key(seed), shape, float64); }
  static void near(const Array& got, const Array& want, const std::string& what) {
    ASSERT_EQ(got.shape(), want.shape()) << what;
    auto a = got.to_vector<double>();
    auto b = want.to_vector<double>();
    for (std::size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], 1e-12) << what << ", element " << i;
  }
  // Both sides of identities, for blocks [n * m, 3] that differ on every device.
  static void holds(const Mesh& m, const Names& axes, const std::function<std::pair<Array, Array>(const Array&)>& sides,
                    const std::string& what) {
    std::int64_t n = 1;
    for (const auto& a : axes) n *= m.axis_size(a);
    SpecEntry all(Names(m.axis_names().begin(), m.axis_names().end()));
    auto f = shard_map(
        [&](const Array& x) {
          auto [l, r] = sides(x);
          return std::pair(expand_dims(l, {0}), expand_dims(r, {0}));
        },
        m, P(all), P(all), {.check_vma = false});
    auto [l, r] = f(numbers({m.size() * n * 2, 3}, static_cast<int>(n)));
    near(l, r, what + " over " + std::to_string(axes.size()) + " axes of " + to_string(m));
  }
};

AxisNames list(const Names& names) { return AxisNames(names); }

// Tuples of the mesh's names, in every order.
std::vector<Names> tuples(const Mesh& m) {
  Names all(m.axis_names().begin(), m.axis_names().end());
  std::vector<Names> out;
  for (std::size_t mask = 1; mask < (std::size_t{1} << all.size()); ++mask) {
    Names some;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (mask >> i & 1) some.push_back(all[i]);
    }
    std::sort(some.begin(), some.end());
    do out.push_back(some);
    while (std::next_permutation(some.begin(), some.end()));
  }
  return out;
}

TEST_F(Identities, BetweenCollectives) {
  TESSERA_SPEC("C110");
  for (const Shape& sizes : std::vector<Shape>{{8}, {3}, {2, 4}, {2, 2, 2}}) {
    Mesh m = mesh(sizes);
    for (const Names& names : tuples(m)) {
      AxisNames axes = list(names);
      auto own = [&](const Array& v) {
        std::int64_t rows = v.shape(0) / axis_size(axes);
        return lax::dynamic_slice_in_dim(v, axis_index(axes) * static_cast<int>(rows), rows, 0);
      };
      auto pair = [](const Array& a, const Array& b) { return std::pair(a, b); };
      holds(
          m, names, [&](const Array& x) { return pair(psum_scatter(x, axes, {.tiled = true}), own(psum(x, axes))); },
          "psum_scatter is a slice of psum");
      holds(
          m, names,
          [&](const Array& x) {
            return pair(all_gather(psum_scatter(x, axes, {.tiled = true}), axes, {.tiled = true}), psum(x, axes));
          },
          "gathering what was scattered");
      holds(
          m, names,
          [&](const Array& x) {
            Array there = all_to_all(x, axes, 0, 1, {.tiled = true});
            return pair(all_to_all(there, axes, 1, 0, {.tiled = true}), x);
          },
          "all_to_all and back");
      holds(
          m, names,
          [&](const Array& x) {
            std::int64_t n = axis_size(axes);
            Array block = reshape(x, {n, x.shape(0) / n, 3});
            return pair(pswapaxes(pswapaxes(block, axes, 0), axes, 0), block);
          },
          "pswapaxes twice");
      holds(
          m, names,
          [&](const Array& x) {
            Array many = broadcast_to(expand_dims(x, {0}), {axis_size(axes), x.shape(0), 3});
            return pair(all_to_all(many, axes, 0, 0), all_gather(x, axes));
          },
          "all_to_all of copies is a gather");
      holds(
          m, names,
          [&](const Array& x) {
            Array step = x;
            for (const auto& n : names) step = psum(step, n);
            return pair(psum(x, axes), step);
          },
          "psum axis by axis");
      holds(
          m, names,
          [&](const Array& x) {
            std::int64_t source = axis_size(axes) - 1;
            Array mine = astype(axis_index(axes) == static_cast<int>(source), float64);
            return pair(pbroadcast(x, axes, source), psum(x * mine, axes));
          },
          "pbroadcast is a masked psum");
      holds(
          m, names,
          [&](const Array& x) {
            PermutationPairs there;
            PermutationPairs back;
            std::int64_t n = axis_size(axes);
            for (std::int64_t i = 0; i < n; ++i) {
              there.emplace_back(i, (i + 1) % n);
              back.emplace_back((i + 1) % n, i);
            }
            return pair(ppermute(ppermute(x, axes, there), axes, back), x);
          },
          "ppermute and back");
      holds(
          m, names,
          [&](const Array& x) { return pair(pmean(x, axes) * static_cast<double>(axis_size(axes)), psum(x, axes)); },
          "pmean times n");
    }
  }
}

TEST_F(Identities, Signatures) {
  TESSERA_SPEC("C1", "C2", "C90");
  Mesh m = mesh({2, 4});
  struct Pair {
    Array a;
    std::vector<Array> b;
  };
  auto body = [](const Array& x) {
    Pair p = psum(Pair{x, {x, x * 2}}, "x");
    EXPECT_EQ(p.b.size(), 2U);
    EXPECT_EQ(psum(1, "x"), 2);
    EXPECT_EQ(psum(true, {"x", "y"}), 8);
    EXPECT_EQ(psum(2.5, {"y", "x"}), 20.0);
    EXPECT_EQ(pmean(3, "y"), 3.0F);
    static_assert(std::is_same_v<collective_result_t<PsumOp, bool>, std::int32_t>);
    static_assert(std::is_same_v<collective_result_t<PmeanOp, int>, float>);
    static_assert(std::is_same_v<collective_result_t<PmeanOp, std::int64_t>, double>);
    static_assert(std::is_same_v<collective_result_t<PmaxOp, int>, int>);
    EXPECT_EQ(psum(HostArray::from(std::vector<float>{1, 2}), "y").to_vector<float>(), (std::vector<float>{4, 8}));
    EXPECT_EQ(axis_size({"x", "y"}), 8);
    EXPECT_EQ(axis_size(AxisNames()), 1);
    EXPECT_EQ(all_gather(x, "x", {.axis = 1, .tiled = true}).shape(), (Shape{2, 6}));
    return p.b[1];
  };
  auto f = shard_map(body, m, P(axes("x", "y")), P("y"));
  EXPECT_EQ(f(numbers({16, 3}, 1)).shape(), (Shape{8, 3}));
}

TEST_F(Identities, AbstractEvaluation) {
  TESSERA_SPEC("C12");
  AbstractMesh m{{"x", 2}, {"y", 4}};
  int runs = 0;
  auto f = [&](const Array& x) {
    auto body = [&](const Array& b) {
      ++runs;
      return std::pair(psum_scatter(b, "y", {.tiled = true}), all_gather(b, {"y", "x"}));
    };
    return shard_map(body, m, P("x"), P(none, "x", "y"), {.check_vma = false})(x);
  };
  auto check = [&](const Array& x) {
    return shard_map([](const Array& b) { return psum(b, "y"); }, m, P("x"), P("x"))(x);
  };
  jit([&](const Array& x) {
    auto shapes = eval_shape([&](const Array& v) { return check(v); }, x);
    EXPECT_EQ(shapes.at(0).shape, (Shape{16, 3}));
    return x;
  })(numbers({16, 3}, 1));
  EXPECT_THROW(eval_shape(f, numbers({16, 3}, 1)), ValueError);  // the specs of the results have too many entries
  auto unbound = [&](const Array& x) {
    return shard_map([](const Array& b) { return psum(b, "z"); }, m, P("x"), P("x"))(x);
  };
  EXPECT_THROW(eval_shape(unbound, numbers({16, 3}, 1)), UnboundAxisError);
  EXPECT_GT(runs, 0);
}

// Inside a map over "x" values stay split over "y" as the compiler likes.
TEST_F(Identities, PartlyAutomatic) {
  TESSERA_SPEC("C3");
  Mesh m = mesh({2, 4});
  Array x = device_put(numbers({8, 16}, 1), NamedSharding(m, P("x", "y")).share());
  Array w = device_put(numbers({16, 12}, 2), NamedSharding(m, P("y", none)).share());
  auto body = [](const Array& b, const Array& weights) {
    EXPECT_THROW(axis_index("y"), UnboundAxisError);
    Array y = tanh(matmul(b, weights));
    Array moved = ppermute(y, "x", {{0, 1}});
    return std::tuple(psum(y, "x"), moved, all_gather(y, "x", {.tiled = true}),
                      psum_scatter(y, "x", {.scatter_dimension = 1, .tiled = true}));
  };
  auto f = shard_map(body, m, SpecTree{P("x"), P()}, SpecTree{P(), P("x"), P(none), P("x")},
                     {.axis_names = {"x"}, .check_vma = false});
  auto whole = [](const Array& v, const Array& weights) {
    Array y = tanh(matmul(v, weights));
    Array low = lax::slice_in_dim(y, 0, 4);
    Array high = lax::slice_in_dim(y, 4, 8);
    Array both = low + high;
    Array scattered = concatenate({lax::slice_in_dim(both, 0, 6, 1, 1), lax::slice_in_dim(both, 6, 12, 1, 1)}, 0);
    return std::tuple(both, concatenate({zeros_like(low), low}, 0), y, scattered);
  };
  auto compare = [&](const auto& got) {
    auto want = whole(x, w);
    near(std::get<0>(got), std::get<0>(want), "psum");
    near(std::get<1>(got), std::get<1>(want), "ppermute");
    near(std::get<2>(got), std::get<2>(want), "all_gather");
    near(std::get<3>(got), std::get<3>(want), "psum_scatter");
  };
  compare(f(x, w));
  compare(jit(f)(x, w));
  auto loss = [](const auto& g) {
    return [g](const Array& a, const Array& b) {
      auto [p, q, r, s] = g(a, b);
      return sum(sin(p)) + sum(q * q) + sum(cos(s));
    };
  };
  near(jit(grad<1>(loss(f)))(x, w), grad<1>(loss(whole))(x, w), "gradient");
}

TEST(ManyDevices, SumOver4096) {
  Client client = Client::cpu({.devices = 4096});
  ClientScope scope(client);
  Mesh m = make_mesh({4096}, "x");
  auto f = jit(shard_map([](const Array& x) { return psum(x, "x"); }, m, P("x"), P()));
  Array x = device_put(HostArray::from(std::vector<float>(4096, 1.5F)), NamedSharding(m, P("x")));
  EXPECT_EQ(f(x).to_vector<float>(), std::vector<float>{6144});
}

}  // namespace
}  // namespace tessera
