// SPDX-License-Identifier: Apache-2.0
// Arguments at the edge of what functions take: narrow and wide dtypes, NaN, options that contradict each other.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "tessera/tessera.h"

namespace ts = tessera;

namespace {

const float kNan = std::numeric_limits<float>::quiet_NaN();

ts::Array vec(const std::vector<float>& v) { return ts::Array(ts::HostArray::from(v)); }

TEST(Edges, ReluKeepsNan) {
  auto y = ts::nn::relu(vec({-1, 0, 2, kNan})).to_vector<float>();
  EXPECT_EQ(y[0], 0);
  EXPECT_EQ(y[2], 2);
  EXPECT_TRUE(std::isnan(y[3]));
  auto g = ts::grad([](ts::Array x) { return ts::sum(ts::nn::relu(x)); })(vec({-1, 0, 2}));
  EXPECT_EQ(g.to_vector<float>(), (std::vector<float>{0, 0, 1}));
}

TEST(Edges, CondTakesAnyNumberThatIsNotZero) {
  auto yes = [] { return ts::Array(1); };
  auto no = [] { return ts::Array(0); };
  EXPECT_EQ(ts::cond(-1, yes, no).item<std::int32_t>(), 1);
  EXPECT_EQ(ts::cond(0, yes, no).item<std::int32_t>(), 0);
  EXPECT_EQ(ts::cond(0.5, yes, no).item<std::int32_t>(), 1);
  ts::Array wide(ts::HostArray::scalar(std::int64_t{1} << 32));  // its low half is 0
  EXPECT_EQ(ts::cond(wide, yes, no).item<std::int32_t>(), 1);
}

TEST(Edges, SwitchIndicesAreIntegersOfAnyWidth) {
  std::vector<std::function<ts::Array()>> branches{[] { return ts::Array(10); }, [] { return ts::Array(11); },
                                                   [] { return ts::Array(12); }};
  auto at = [&](const ts::Array& i) { return ts::switch_(i, branches).item<std::int32_t>(); };
  EXPECT_EQ(at(ts::Array(ts::HostArray::scalar(std::int64_t{1} << 32))), 12);
  EXPECT_EQ(at(ts::Array(ts::HostArray::scalar(-(std::int64_t{1} << 33)))), 10);
  EXPECT_EQ(at(ts::Array(ts::HostArray::scalar(std::uint32_t{0xFFFFFFFF}))), 12);
  EXPECT_EQ(at(ts::Array(ts::HostArray::scalar(std::int8_t{1}))), 11);
  EXPECT_THROW(at(ts::Array(1.0F)), ts::TypeError);
}

TEST(Edges, AttentionScoresOfHalvesDoNotOverflow) {
  ts::Array q = ts::full({1, 2, 1, 64}, 60, ts::float16);  // a score is 230,400 before scaling
  ts::Array v = ts::ones({1, 2, 1, 64}, ts::float16);
  for (float y : ts::astype(ts::nn::dot_product_attention(q, q, v), ts::float32).to_vector<float>()) EXPECT_EQ(y, 1);
}

TEST(Edges, BoundsOfRandintAreNotWrapped) {
  ts::Array key = ts::random::key(0);
  ts::Array far(ts::HostArray::scalar((std::int64_t{1} << 32) + 5));
  for (auto x : ts::astype(ts::random::randint(key, {100}, 0, far, ts::int8), ts::int32).to_vector<std::int32_t>()) {
    EXPECT_GE(x, 0);
  }
  EXPECT_GT(ts::max(ts::random::randint(key, {100}, 0, far, ts::int8)).item<std::int8_t>(), 5);
  EXPECT_THROW(ts::random::randint(key, {2}, 0.5, 3, ts::int8), ts::TypeError);
}

TEST(Edges, BernoulliAndChoiceCheckTheirShapes) {
  ts::Array key = ts::random::key(0);
  EXPECT_THROW(ts::random::bernoulli(key, ts::full({3, 2}, 0.5), ts::Shape{2}), ts::ValueError);
  EXPECT_EQ(ts::random::bernoulli(key, ts::full({2}, 0.5), ts::Shape{3, 2}).shape(), (ts::Shape{3, 2}));
  ts::Array far = ts::random::choice(key, std::int64_t{1} << 40, {64});
  EXPECT_GT(ts::max(far).item<std::int64_t>(), INT32_MAX);
}

TEST(Edges, HistogramsCheckBinsAndRanges) {
  ts::Array x = vec({1, 2, 3});
  EXPECT_THROW(ts::histogram_bin_edges(x, 0), ts::ValueError);
  ts::Array sample = ts::reshape(vec({1, 2, 3, 4}), {2, 2});
  EXPECT_THROW(ts::histogramdd(sample, {2, -1}), ts::ValueError);
  EXPECT_THROW(ts::histogramdd(sample, {2, 2}, std::vector<std::pair<double, double>>{{0, 1}}), ts::ValueError);
}

TEST(Edges, IndexArithmeticOfNarrowDtypes) {
  ts::Array i = ts::astype(vec({7, 250}), ts::uint8);
  auto parts = ts::unravel_index(i, {10, 300});
  EXPECT_EQ(ts::astype(parts[0], ts::int32).to_vector<std::int32_t>(), (std::vector<std::int32_t>{0, 0}));
  EXPECT_EQ(ts::astype(parts[1], ts::int32).to_vector<std::int32_t>(), (std::vector<std::int32_t>{7, 250}));
  auto flat = ts::ravel_multi_index({i, i}, {300, 300});
  EXPECT_EQ(flat.to_vector<std::int32_t>(), (std::vector<std::int32_t>{7 * 301, 250 * 301}));
}

TEST(Edges, PaddingIsGivenOnceAndHasNoInterior) {
  ts::Array x = ts::ones({1, 1, 8}), w = ts::ones({1, 1, 3});
  ts::lax::ConvOptions o;
  o.dimension_numbers = {"NC0", "OI0", "NC0"};
  o.padding = {{1, 1, 1}};
  EXPECT_THROW(ts::lax::conv_general_dilated(x, w, o), ts::ValueError);
  o.padding = {{1, 1}};
  o.pad_mode = ts::lax::PadMode::Same;
  EXPECT_THROW(ts::lax::conv_general_dilated(x, w, o), ts::ValueError);
}

TEST(Edges, ArangeIsExactBeyondDoubles) {
  std::int64_t big = (std::int64_t{1} << 53) + 1;
  EXPECT_EQ(ts::arange(big, big + 2, ts::int64).to_vector<std::int64_t>(), (std::vector<std::int64_t>{big, big + 1}));
  EXPECT_EQ(ts::arange(5, 0, -2, ts::int32).to_vector<std::int32_t>(), (std::vector<std::int32_t>{5, 3, 1}));
  EXPECT_EQ(ts::arange(0, 5, -1, ts::int32).size(), 0);
}

TEST(Edges, LoopsCountBeyond32Bits) {
  std::int64_t first = std::int64_t{1} << 40;
  ts::Array last = ts::fori_loop(
      first, first + 3, [](const ts::Array& i, const ts::Array&) { return i; },
      ts::Array(ts::HostArray::scalar(std::int64_t{0})));
  EXPECT_EQ(last.item<std::int64_t>(), first + 2);
}

TEST(Edges, MeansOfHalvesCountBeyondTheirRange) {
  ts::Array x = ts::ones({70000}, ts::float16);
  EXPECT_EQ(ts::astype(ts::nanmean(x), ts::float32).item<float>(), 1.0F);
}

TEST(Edges, RepeatRefusesNegativeCounts) {
  ts::Array counts(ts::HostArray::from<std::int32_t>({2, -1}));
  EXPECT_THROW(ts::repeat(vec({1, 2}), counts, 0), ts::ValueError);
}

}  // namespace
