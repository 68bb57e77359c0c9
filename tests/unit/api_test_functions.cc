// SPDX-License-Identifier: Apache-2.0
// Functions whose results depend on data, their errors, and where their equations come from. Values are compared with
// JAX's by the oracle tests.
#include <gtest/gtest.h>

#include <limits>

#include "tessera/tessera.h"

namespace tessera {
namespace {

using I32 = std::vector<std::int32_t>;
using F32 = std::vector<float>;

Array ints(const I32& v) { return Array(HostArray::from(v)); }
Array floats(const F32& v) { return Array(HostArray::from(v)); }

TEST(Functions, ExtentsFromData) {
  Array x = ints({0, 3, 0, 5, 3});
  EXPECT_EQ(nonzero(x)[0].to_vector<std::int32_t>(), (I32{1, 3, 4}));
  EXPECT_EQ(argwhere(reshape(ints({0, 1, 2, 0}), {2, 2})).to_vector<std::int32_t>(), (I32{0, 1, 1, 0}));
  EXPECT_EQ(unique(x).to_vector<std::int32_t>(), (I32{0, 3, 5}));
  const auto u = unique_all(x);
  EXPECT_EQ(u.indices.to_vector<std::int32_t>(), (I32{0, 1, 3}));
  EXPECT_EQ(u.inverse.to_vector<std::int32_t>(), (I32{0, 1, 0, 2, 1}));
  EXPECT_EQ(u.counts.to_vector<std::int32_t>(), (I32{2, 2, 1}));
  EXPECT_EQ(intersect1d(x, ints({5, 9, 0})).to_vector<std::int32_t>(), (I32{0, 5}));
  EXPECT_EQ(setdiff1d(x, ints({3})).to_vector<std::int32_t>(), (I32{0, 5}));
  EXPECT_EQ(setxor1d(x, ints({3, 8})).to_vector<std::int32_t>(), (I32{0, 5, 8}));
  EXPECT_EQ(union1d(x, ints({4})).to_vector<std::int32_t>(), (I32{0, 3, 4, 5}));
  EXPECT_EQ(bincount(x).to_vector<std::int32_t>(), (I32{2, 0, 0, 2, 0, 1}));
  EXPECT_EQ(repeat(x, ints({1, 0, 0, 2, 1})).to_vector<std::int32_t>(), (I32{0, 5, 5, 3}));
  EXPECT_EQ(compress(x > 2, x, 0).to_vector<std::int32_t>(), (I32{3, 5, 3}));
  EXPECT_EQ(unique(zeros({0}, int32)).size(), 0);
  EXPECT_EQ(nonzero(zeros({3}))[0].size(), 0);
}

TEST(Functions, ExtentsFromDataNeedASizeInPrograms) {
  Array x = ints({0, 3, 0});
  EXPECT_THROW(jit([](Array v) { return nonzero(v)[0]; })(x), ConcretizationError);
  EXPECT_THROW(jit([](Array v) { return unique(v); })(x), ConcretizationError);
  EXPECT_THROW(jit([](Array v) { return bincount(v); })(x), ConcretizationError);
  EXPECT_THROW(jit([](Array v) { return repeat(v, v); })(x), ConcretizationError);
  EXPECT_EQ(jit([](Array v) { return unique(v, {.size = 3, .fill_value = -1}); })(x).to_vector<std::int32_t>(),
            (I32{0, 3, -1}));
}

TEST(Functions, Errors) {
  Array x = floats({1, 2, 3});
  EXPECT_THROW(linspace(0.0, 1.0, -1), ValueError);
  EXPECT_THROW(arange(0.0, 1.0, 0.0), ValueError);
  EXPECT_THROW(diag(zeros({2, 2, 2})), ValueError);
  EXPECT_THROW(pad(x, -1), ValueError);
  EXPECT_THROW(pad(zeros({0}), 1, PadMode::Edge), ValueError);
  EXPECT_THROW(quantile(x, zeros({2, 2})), ValueError);
  EXPECT_THROW(quantile(astype(x, complex64), 0.5), TypeError);
  EXPECT_THROW(average(x, ones({2})), ValueError);
  EXPECT_THROW(gcd(x, x), TypeError);
  EXPECT_THROW(gradient(floats({1})), ValueError);
  EXPECT_THROW(convolve(x, zeros({2, 2})), ValueError);
  EXPECT_THROW(interp(x, x, zeros({2})), ValueError);
  EXPECT_THROW(delete_(x, {3}), IndexError);
  EXPECT_THROW(diagonal(x), ValueError);
  EXPECT_THROW(cross(zeros({4}), zeros({4})), ValueError);
  EXPECT_THROW(dot(zeros({2, 3}), zeros({2, 3})), ValueError);
  EXPECT_THROW(fft::rfft(astype(x, complex64)), TypeError);
  EXPECT_THROW(fft::fft(x, {.n = 0}), ValueError);
  EXPECT_THROW(fft::fftn(x, {.axes = Dims{0, 0}}), ValueError);
  EXPECT_THROW(linalg::norm(zeros({2, 2, 2}), {.order = 1}), ValueError);
  EXPECT_THROW(linalg::norm(x, {.order = "nuc"}), ValueError);
  EXPECT_THROW(linalg::matrix_power(zeros({2, 3}), 2), ValueError);
  EXPECT_THROW(special::ndtr(astype(x, float16)), TypeError);
  Array key = random::key(0);
  EXPECT_THROW(random::gamma(key, ones({3}), Shape{2}), ValueError);
  EXPECT_THROW(random::gamma(key, 1.0, Shape{2}, int32), TypeError);
  EXPECT_THROW(random::poisson(key, 1.0, Shape{2}, float32), TypeError);
  EXPECT_THROW(random::choice(key, x, {4}, {.replace = false}), ValueError);
  EXPECT_THROW(lax::reduce({x}, {Array(0.0)},
                           [&](const std::vector<Array>& a, const std::vector<Array>& b) {
                             return std::vector<Array>{a[0] + b[0] + sum(x)};
                           },
                           {0}),
               UnimplementedError);
  EXPECT_EQ(x.to_vector<float>(), (F32{1, 2, 3}));  // everything lives on
}

TEST(Functions, EquationsComeFromTheCallersLine) {
  Client client = Client::cpu({.devices = 2});
  ClientScope scope(client);
  Array x = device_put(ones({4, 6}), NamedSharding(make_mesh({2}, {"x"}), P("x")));
  auto f = jit([](Array v) {
    return median(v, {.axis = Dims{0}});  // the sort needs the split dimension whole
  });
  const int line = __LINE__ - 2;
  CommPlan plan = f.comm_plan(x);
  ASSERT_FALSE(plan.empty());
  for (const auto& step : plan.steps()) {
    EXPECT_TRUE(step.equation == "return" || step.loc.line == line) << to_string(plan);
  }
}

TEST(Functions, GammaNumbersDoNotDependOnSharding) {
  Client client = Client::cpu({.devices = 4});
  ClientScope scope(client);
  Array a = astype(arange(8), float32) / 2 + 0.25;
  Array split = device_put(a, NamedSharding(make_mesh({4}, {"x"}), P("x")));
  auto draw = jit([](Array v) { return random::gamma(random::key(7), v); });
  EXPECT_EQ(draw(a).to_vector<float>(), draw(split).to_vector<float>());
}

TEST(Functions, GradientThroughGammaVariates) {
  // Mean of a gamma variate is its parameter: the average slope is 1.
  auto slope = grad([](Array a) { return mean(random::gamma(random::key(3), broadcast_to(a, {4000}))); });
  EXPECT_NEAR(slope(Array(HostArray::scalar(2.5F))).item<float>(), 1.0, 0.05);
}

TEST(Functions, SearchesLikeABinarySearch) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  Array sorted = floats({-1, 0, 0, 2, nan});
  Array v = floats({-5, 0, 1, 2, 9, nan});
  EXPECT_EQ(searchsorted(sorted, v).to_vector<std::int32_t>(), (I32{0, 1, 3, 3, 4, 4}));
  EXPECT_EQ(searchsorted(sorted, v, true).to_vector<std::int32_t>(), (I32{0, 3, 3, 4, 4, 5}));
}

TEST(Functions, AttentionKeepsBatchSplit) {
  Client client = Client::cpu({.devices = 4});
  ClientScope scope(client);
  ShardingPtr batch = NamedSharding(make_mesh({4}, {"data"}), P("data")).share();
  Array q = device_put(random::normal(random::key(1), {4, 6, 2, 8}), batch);
  auto f = jit([](Array x) { return nn::dot_product_attention(x, x, x, {.is_causal = true}); });
  EXPECT_TRUE(f.comm_plan(q).empty()) << to_string(f.comm_plan(q));
}

// Both types convert to numbers and to Arrays; neither may make these lines ambiguous.
TEST(Functions, SixteenBitNumbersCompareAndCount) {
  bfloat16_t a = 1.5F;
  bfloat16_t b = 2.0F;
  float16_t c = 1.5F;
  EXPECT_TRUE(a == a && a == c && a != b && a < b && b >= c);
  EXPECT_FALSE(bfloat16_t(NAN) == bfloat16_t(NAN));
  EXPECT_EQ(a + b, 3.5F);
  EXPECT_EQ(b - c, 0.5F);
  EXPECT_EQ(a * c, 2.25F);
  EXPECT_EQ(-a / b, -0.75F);
}

TEST(Functions, NotIsElementByElement) {
  Array x = floats({0, 2, 0});
  EXPECT_EQ((!x).to_vector<bool>(), (std::vector<bool>{true, false, true}));
  EXPECT_EQ(jit([](Array v) { return !v; })(x).to_vector<bool>(), (!x).to_vector<bool>());
}

}  // namespace
}  // namespace tessera
