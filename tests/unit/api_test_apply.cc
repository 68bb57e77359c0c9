// SPDX-License-Identifier: Apache-2.0
// NumPy's functions of functions and trim_zeros, against what JAX gives.
#include <gtest/gtest.h>

#include "tessera/tessera.h"

namespace tessera {
namespace {

using F = std::vector<float>;
using I32 = std::vector<std::int32_t>;

Array ints(const I32& v, const Shape& shape) { return Array(HostArray::from(v, shape)); }
Array cube() { return reshape(arange(24.0), {2, 3, 4}); }

TEST(Apply, AlongAnAxis) {
  auto both = [](const Array& v) { return stack({sum(v), max(v)}); };
  Array first = apply_along_axis(both, 0, cube());
  EXPECT_EQ(first.shape(), (Shape{2, 3, 4}));
  EXPECT_EQ(index(first, {0, 1}).to_vector<float>(), (F{20, 22, 24, 26}));
  Array middle = apply_along_axis(both, 1, cube());
  EXPECT_EQ(middle.shape(), (Shape{2, 2, 4}));
  EXPECT_EQ(index(middle, {0}).to_vector<float>(), (F{12, 15, 18, 21, 8, 9, 10, 11}));
  Array last = apply_along_axis(both, -1, cube());
  EXPECT_EQ(last.shape(), (Shape{2, 3, 2}));
  EXPECT_EQ(index(last, {0}).to_vector<float>(), (F{6, 3, 22, 7, 38, 11}));
  Array outer = apply_along_axis([](const Array& v) { return expand_dims(v, {1}) * v; }, 1, cube());
  EXPECT_EQ(outer.shape(), (Shape{2, 3, 3, 4}));
  EXPECT_EQ(index(outer, {1, 2, 1, 3}).item<float>(), 437);
  auto jitted = jit([&](const Array& a) { return apply_along_axis(both, 1, a); });
  EXPECT_EQ(jitted(cube()).to_vector<float>(), middle.to_vector<float>());
  EXPECT_THROW(apply_along_axis(both, 3, cube()), Error);
}

TEST(Apply, OverAxes) {
  auto total = [](const Array& a, std::int64_t axis) { return sum(a, axis); };
  Array y = apply_over_axes(total, cube(), {0, 2});
  EXPECT_EQ(y.shape(), (Shape{1, 3, 1}));
  EXPECT_EQ(y.to_vector<float>(), (F{60, 92, 124}));
  EXPECT_THROW(apply_over_axes([](const Array& a, std::int64_t) { return sum(a); }, cube(), {0}), ValueError);
}

TEST(Apply, Piecewise) {
  Array x(HostArray::from<float>({-2, -1, 0, 1, 2}));
  EXPECT_EQ(piecewise(x, {x < 0, x >= 0}, {-1, 1}).to_vector<float>(), (F{-1, -1, 1, 1, 1}));
  auto negated = [](const Array& v) { return -v; };
  EXPECT_EQ(piecewise(x, {x < 0, x < -1}, {negated, 7, 10}).to_vector<float>(), (F{7, 1, 10, 10, 10}));
  EXPECT_EQ(piecewise(x, {x < 0}, {[](const Array& v) { return v * v; }}).to_vector<float>(), (F{4, 1, 0, 0, 0}));
  Array n = arange(5);
  EXPECT_EQ(piecewise(n, {n > 2}, {2.7}).to_vector<std::int32_t>(), (I32{0, 0, 0, 2, 2}));
  EXPECT_THROW(piecewise(x, {x < 0}, {1, 2, 3}), ValueError);
}

TEST(TrimZeros, LeavesTheSmallestBlock) {
  Array v = ints({0, 0, 1, 0, 2, 0}, {6});
  EXPECT_EQ(trim_zeros(v).to_vector<std::int32_t>(), (I32{1, 0, 2}));
  EXPECT_EQ(trim_zeros(v, "f").to_vector<std::int32_t>(), (I32{1, 0, 2, 0}));
  EXPECT_EQ(trim_zeros(v, "b").to_vector<std::int32_t>(), (I32{0, 0, 1, 0, 2}));
  EXPECT_EQ(trim_zeros(ints({0, 0, 0}, {3})).shape(), (Shape{0}));
  EXPECT_EQ(trim_zeros(ints({0, 0, 0}, {3}), "f").shape(), (Shape{0}));
  Array m = ints({0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 2, 0}, {3, 4});
  EXPECT_EQ(trim_zeros(m).to_vector<std::int32_t>(), (I32{1, 0, 0, 2}));
  EXPECT_EQ(trim_zeros(m, "fb", Dims{1}).shape(), (Shape{3, 2}));
  EXPECT_EQ(trim_zeros(m, "f").shape(), (Shape{2, 3}));
  EXPECT_EQ(trim_zeros(m, "b", Dims{0}).shape(), (Shape{3, 4}));
  EXPECT_THROW(jit([](const Array& a) { return trim_zeros(a); })(v), ConcretizationError);
}

TEST(Packing, RefusesOtherTypes) {
  EXPECT_THROW(packbits(Array(1.5F)), TypeError);
  EXPECT_THROW(unpackbits(ints({1}, {1})), TypeError);
  EXPECT_THROW(place(ints({1, 2}, {2}), ints({1}, {1}), 3), ValueError);
}

}  // namespace
}  // namespace tessera
