// SPDX-License-Identifier: Apache-2.0
// Options of reductions, reductions over segments.
#include <gtest/gtest.h>

#include "tessera/tessera.h"

namespace tessera {

namespace {

Array matrix() { return reshape(arange(1.0, 7.0), {2, 3}); }
Array mask() {
  return reshape(Array(HostArray::from(std::vector<bool>{true, false, true, false, false, true})), {2, 3});
}
std::vector<float> of(const Array& a) { return a.to_vector<float>(); }
using Floats = std::vector<float>;

TEST(Reductions, TakeMasksAndStartValues) {
  const Array x = matrix();
  EXPECT_EQ(of(sum(x, {.axis = 1, .where = mask()})), (Floats{4, 6}));
  EXPECT_EQ(of(sum(x, {.axis = 1, .initial = 10, .where = mask()})), (Floats{14, 16}));
  EXPECT_EQ(of(prod(x, {.axis = 0, .initial = 2.0, .where = mask()})), (Floats{2, 2, 36}));
  EXPECT_EQ(of(max(x, {.axis = 1, .keepdims = true, .initial = 4.5, .where = mask()})), (Floats{4.5, 6}));
  EXPECT_EQ(of(min(x, {.axis = 0, .initial = 4.5, .where = mask()})), (Floats{1, 4.5, 3}));
  EXPECT_EQ(of(mean(x, {.axis = 1, .where = mask()})), (Floats{2, 6}));
  EXPECT_EQ(of(var(x, {.axis = 1, .where = mask()})), (Floats{1, 0}));
  EXPECT_TRUE(std::isnan(of(var(x, {.axis = 1, .ddof = 1, .where = mask()}))[1]));
  EXPECT_EQ(any(x > 4, {.axis = 0, .where = mask()}).to_vector<bool>(), (std::vector<bool>{false, false, true}));
  EXPECT_EQ(all(x > 4, {.axis = 0, .where = mask()}).to_vector<bool>(), (std::vector<bool>{false, true, false}));
  // A mask broadcasts; a reduction of nothing gives the start value.
  EXPECT_EQ(of(sum(x, {.axis = 0, .where = index(mask(), {0})})), (Floats{5, 0, 9}));
  EXPECT_EQ(of(max(zeros({0, 2}), {.axis = 0, .initial = 3})), (Floats{3, 3}));
  EXPECT_EQ(max(ones({2}, int8), {.initial = 100}).item<std::int8_t>(), 100);
  EXPECT_EQ(of(jit([](const Array& a, const Array& w) { return sum(a, {.axis = 1, .where = w}); })(x, mask())),
            (Floats{4, 6}));
  const Array g = grad([](const Array& a) { return mean(square(a), {.where = mask()}); })(x);
  EXPECT_EQ(of(g * 3), (Floats{2, 0, 6, 0, 0, 12}));
}

TEST(Reductions, WithoutNanTakeThemToo) {
  const Array x = at(matrix(), {0, 0}).set(std::nan(""));
  EXPECT_EQ(of(nansum(x, {.axis = 1, .initial = 1, .where = mask()})), (Floats{4, 7}));
  EXPECT_EQ(of(nanmean(x, {.axis = 1, .where = mask()})), (Floats{3, 6}));
  EXPECT_EQ(of(nanmax(x, {.axis = 1, .initial = -1, .where = mask()})), (Floats{3, 6}));
  EXPECT_EQ(of(nanvar(x, {.axis = 1, .where = mask()})), (Floats{0, 0}));
}

TEST(Reductions, LogSumsOfExponentials) {
  const Array x = matrix();
  const auto near = [](const Array& a, double b) { EXPECT_NEAR(a.item<double>(), b, 1e-6) << to_string(a); };
  near(index(logsumexp(x, {.axis = 1, .where = mask()}), {0}), std::log(std::exp(1.0) + std::exp(3.0)));
  near(logsumexp(index(x, {0}), Array(HostArray::from(Floats{1, 0, 2})), {}),
       std::log(std::exp(1.0) + 2 * std::exp(3.0)));
  const auto [size, sign] = logsumexp_and_sign(index(x, {0}), Array(HostArray::from(Floats{1, 0, -2})));
  near(size, std::log(2 * std::exp(3.0) - std::exp(1.0)));
  near(sign, -1);
  EXPECT_TRUE(std::isnan(logsumexp(index(x, {0}), -1, ReduceOptions{}).item<float>()));
  near(nn::logmeanexp(index(x, {0}), {.where = index(mask(), {0})}), std::log((std::exp(1.0) + std::exp(3.0)) / 2));
}

TEST(Reductions, TakeAxesAsTheyCome) {
  const Array x = reshape(arange(24.0), {2, 3, 4});
  const Dims two{0, -1};
  for (const auto& [a, b] :
       std::vector<std::pair<Array, Array>>{{sum(x, -1), sum(x, {.axis = 2})},
                                            {sum(x, {0, -1}), sum(x, {.axis = two})},
                                            {sum(x, two, true), sum(x, {.axis = two, .keepdims = true})},
                                            {prod(x, 1, true), prod(x, {.axis = 1, .keepdims = true})},
                                            {max(x, {1, 2}), max(x, {.axis = {1, 2}})},
                                            {min(x, 1), min(x, {.axis = 1})},
                                            {mean(x, two), mean(x, {.axis = two})},
                                            {var(x, {0, 2}), var(x, {.axis = two})},
                                            {std_(x, 1, true), std_(x, {.axis = 1, .keepdims = true})},
                                            {logsumexp(x, {0, 1}), logsumexp(x, {.axis = {0, 1}})},
                                            {median(x, {0, 2}), median(x, {.axis = two})},
                                            {quantile(x, 0.3, {0, 2}), quantile(x, 0.3, {.axis = two})},
                                            {percentile(x, 30, 1), percentile(x, 30, {.axis = 1})},
                                            {nansum(x, two), nansum(x, {.axis = two})},
                                            {nanmax(x, 0), nanmax(x, {.axis = 0})},
                                            {nanstd(x, two), nanstd(x, {.axis = two})},
                                            {ptp(x, -1), ptp(x, {.axis = 2})},
                                            {average(x, two), average(x, std::nullopt, {.axis = two})},
                                            {nn::logmeanexp(x, two), nn::logmeanexp(x, {.axis = two})}}) {
    EXPECT_EQ(a.shape(), b.shape());
    EXPECT_TRUE(array_equal(a, b).item<bool>());
  }
  EXPECT_EQ(any(x > 22, {0, 1}).shape(), (Shape{4}));
  EXPECT_EQ(all(x > 22, 0).shape(), (Shape{3, 4}));
  EXPECT_EQ(count_nonzero(x, {0, 1}, true).shape(), (Shape{1, 1, 4}));
  EXPECT_EQ(sum(x, Dims{}).shape(), x.shape());
}

TEST(Reductions, RefuseWhatTheyDoNotTake) {
  const Array x = matrix();
  EXPECT_THROW(max(x, {.where = mask()}), ValueError);
  EXPECT_THROW(sum(x, {.where = ones({2, 3})}), TypeError);
  EXPECT_THROW(sum(x, {.where = ones({4, 2, 3}, bool_)}), ValueError);
  EXPECT_THROW(sum(x, {.initial = ones({2})}), ValueError);
  EXPECT_THROW(mean(x, {.initial = 1}), ValueError);
  EXPECT_THROW(any(x, {.initial = 1}), ValueError);
  EXPECT_THROW(ptp(x, {.where = mask()}), ValueError);
  EXPECT_THROW(max(ones({2}, int8), {.initial = 300}), ValueError);
}

TEST(Segments, ReduceRows) {
  const Array x = reshape(arange(1.0, 9.0), {4, 2});
  const Array ids = Array(HostArray::from(std::vector<std::int32_t>{2, 0, 2, -1}));
  EXPECT_EQ(of(segment_sum(x, ids)), (Floats{3, 4, 0, 0, 6, 8}));
  EXPECT_EQ(of(segment_sum(x, ids, 2)), (Floats{3, 4, 0, 0}));
  EXPECT_EQ(of(segment_prod(x, ids, 3)), (Floats{3, 4, 1, 1, 5, 12}));
  const float inf = std::numeric_limits<float>::infinity();
  EXPECT_EQ(of(segment_max(x, ids, 3)), (Floats{3, 4, -inf, -inf, 5, 6}));
  EXPECT_EQ(of(segment_min(x, ids, 3)), (Floats{3, 4, inf, inf, 1, 2}));
  EXPECT_EQ(segment_max(astype(index(x, {span(), 0}), int32), ids, 2).to_vector<std::int32_t>(),
            (std::vector<std::int32_t>{3, INT32_MIN}));
  for (std::int64_t bucket : {1, 2, 3, 9}) {
    const SegmentOptions o{.num_segments = 3, .bucket_size = bucket};
    EXPECT_EQ(of(segment_sum(x, ids, o)), (Floats{3, 4, 0, 0, 6, 8}));
    EXPECT_EQ(of(segment_max(x, ids, o)), (Floats{3, 4, -inf, -inf, 5, 6}));
  }
  EXPECT_EQ(of(jit([](const Array& a, const Array& i) { return segment_sum(a, i, 3); })(x, ids)),
            (Floats{3, 4, 0, 0, 6, 8}));
  EXPECT_EQ(of(grad([&](const Array& a) { return sum(segment_sum(a, ids, 3) * 2); })(x)),
            (Floats{2, 2, 2, 2, 2, 2, 0, 0}));
  EXPECT_EQ(segment_sum(zeros({0, 2}), zeros({0}, int32), {.num_segments = 2, .bucket_size = 4}).shape(),
            (Shape{2, 2}));
  EXPECT_EQ(of(segment_sum(index(x, {span(0, 3), 0}), Array(HostArray::from(std::vector<std::int32_t>{0, 1, 3})),
                           {.indices_are_sorted = true, .unique_indices = true})),
            (Floats{1, 3, 0, 5}));
  EXPECT_THROW(segment_sum(x, ids, -1), ValueError);
  EXPECT_THROW(segment_sum(x, astype(ids, float32), 3), TypeError);
  EXPECT_THROW(segment_sum(x, index(ids, {span(0, 2)}), 3), ValueError);
  EXPECT_THROW(jit([&](const Array& i) { return segment_sum(x, i); })(ids), ConcretizationError);
}

}  // namespace

}  // namespace tessera
