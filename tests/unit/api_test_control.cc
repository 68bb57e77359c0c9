// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>

#include "tessera/tessera.h"

namespace tessera {
namespace {

using Vec = std::vector<float>;

TEST(Control, CondRunsOneBranchAndCaptures) {
  Array offset(HostArray::from<float>({10, 20}));
  auto f = [&](Array p, Array x) {
    return cond(
        p, [&](Array v) { return v + offset; }, [](Array v) { return v * 2; }, x);
  };
  Array x(HostArray::from<float>({1, 2}));
  EXPECT_EQ(f(Array(true), x).to_vector<float>(), (Vec{11, 22}));
  EXPECT_EQ(jit(f)(Array(false), x).to_vector<float>(), (Vec{2, 4}));
  auto g = grad([&](Array v) { return sum(f(Array(false), v)); })(x);
  EXPECT_EQ(g.to_vector<float>(), (Vec{2, 2}));
  EXPECT_THROW(cond(
                   Array(true), [](Array v) { return v; }, [](Array v) { return v > 0; }, x),
               TypeError);
}

TEST(Control, WhileDoublesUntilLarge) {
  auto f = [](Array x) { return while_loop([](Array v) { return v < 100; }, [](Array v) { return v * 2; }, x); };
  EXPECT_EQ(f(Array(3.0F)).item<float>(), 192);
  EXPECT_EQ(jit(f)(Array(3)).item<std::int32_t>(), 192);
  EXPECT_THROW(grad(f)(Array(3.0F)), Error);
}

TEST(Control, ScanAccumulatesAndDifferentiates) {
  auto f = [](Array start, Array xs) {
    return scan([](Array c, Array x) { return std::pair{c * x, c + x}; }, start, xs);
  };
  Array xs(HostArray::from<float>({2, 3, 4}));
  auto [last, ys] = f(Array(1.0F), xs);
  EXPECT_EQ(last.item<float>(), 24);
  EXPECT_EQ(ys.to_vector<float>(), (Vec{3, 5, 10}));
  Array g = jit(grad([&](Array v) { return f(Array(1.0F), v).first; }))(xs);
  EXPECT_EQ(g.to_vector<float>(), (Vec{12, 8, 6}));
}

TEST(Control, ForiLoopsAndMap) {
  auto power = [](Array x) {
    return fori_loop(
        0, 5, [&](Array, Array c) { return c * x; }, Array(1.0F));
  };
  EXPECT_EQ(power(Array(2.0F)).item<float>(), 32);
  EXPECT_EQ(grad(power)(Array(HostArray::scalar(2.0F))).item<float>(), 80);
  Array sums = map([](Array row) { return sum(row); }, Array(HostArray::from(Vec{1, 2, 3, 4}, {2, 2})));
  EXPECT_EQ(sums.to_vector<float>(), (Vec{3, 7}));
  EXPECT_EQ(
      switch_(Array(7), std::vector<std::function<Array(Array)>>{[](Array v) { return v; }, [](Array v) { return -v; }},
              Array(2.0F))
          .item<float>(),
      -2);
}

TEST(Control, AssociativeScanOfEveryLength) {
  for (std::int64_t n : {1, 2, 3, 5, 8, 13}) {
    Vec v;
    for (std::int64_t i = 0; i < n; ++i) v.push_back(static_cast<float>(i % 4) - 1.5F);
    Array x(HostArray::from(v));
    Vec forward = associative_scan([](Array a, Array b) { return a + b; }, x).to_vector<float>();
    Vec backward = associative_scan([](Array a, Array b) { return a + b; }, x, true).to_vector<float>();
    float sum = 0;
    for (std::size_t i = 0; i < v.size(); ++i) EXPECT_NEAR(forward[i], sum += v[i], 1e-5) << n;
    sum = 0;
    for (std::size_t i = v.size(); i-- > 0;) EXPECT_NEAR(backward[i], sum += v[i], 1e-5) << n;
  }
}

TEST(Control, CheckpointKeepsValuesAndGradients) {
  Array w(HostArray::from<float>({0.5F, -1.0F}));
  auto f = [&](Array x) { return sum(sin(x * w) * exp(x)); };
  Array x(HostArray::from<float>({0.3F, 0.7F}));
  auto [value, g] = value_and_grad(f)(x);
  auto [value2, g2] = jit(value_and_grad(checkpoint(f)))(x);
  EXPECT_NEAR(value.item<float>(), value2.item<float>(), 1e-6);
  for (std::size_t i = 0; i < 2; ++i) EXPECT_NEAR(g.to_vector<float>()[i], g2.to_vector<float>()[i], 1e-6);
}

TEST(Optim, AdamAndSgdFindTheMinimum) {
  auto loss = [](std::vector<Array> p) { return sum(square(p[0] - 3.0)) + sum(square(p[1] + 1.0)); };
  std::vector<Array> p{Array(HostArray::from<float>({0, 1})), Array(HostArray::from<float>({2}))};
  auto q = p;
  auto state = optim::adam_init(p);
  auto velocity = optim::sgd_init(q);
  for (int i = 0; i < 200; ++i) {
    std::tie(p, state) = optim::adam(p, grad(loss)(p), state, {.learning_rate = 0.1});
    std::tie(q, velocity) = optim::sgd(q, grad(loss)(q), velocity, {.learning_rate = 0.05, .momentum = 0.8});
  }
  EXPECT_NEAR(p[0].to_vector<float>()[1], 3, 1e-2);
  EXPECT_NEAR(q[1].to_vector<float>()[0], -1, 1e-3);
}

}  // namespace
}  // namespace tessera
