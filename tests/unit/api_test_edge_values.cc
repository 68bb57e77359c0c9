// SPDX-License-Identifier: Apache-2.0
// Edges of dtypes that recorded cases cannot hold (NaN with a sign), and those that are worth a line of their own.
#include <gtest/gtest.h>

#include "tessera/tessera.h"

namespace tessera {

namespace {

TEST(EdgeValues, TopKIsIeeesTotalOrder) {
  const std::vector<std::uint32_t> bits = {0x3f800000, 0xffc00000, 0x7f800000, 0x7fc00000,
                                           0xff800000, 0x00000000, 0x80000000};
  const Array x = bitcast_convert_type(Array(HostArray::from(bits)), float32);
  const std::vector<std::int32_t> want = {3, 2, 0, 5, 6, 4, 1};
  EXPECT_EQ(lax::top_k(x, 7).second.to_vector<std::int32_t>(), want);
  EXPECT_EQ(jit([](const Array& a) { return lax::top_k(a, 7).second; })(x).to_vector<std::int32_t>(), want);
  // Sorting puts every NaN last, whatever its sign.
  EXPECT_EQ(argsort(x).to_vector<std::int32_t>(), (std::vector<std::int32_t>{4, 5, 6, 0, 2, 1, 3}));
}

TEST(EdgeValues, ZerosHaveAnOrder) {
  for (DType t : {bfloat16, float16, float32, float64}) {
    for (std::int64_t n : {1, 7, 64, 1000}) {
      const Array plus = full({n}, 0.0, t), minus = full({n}, -0.0, t);
      for (const Array& a : {maximum(plus, minus), maximum(minus, plus), clamp(minus, plus, plus)}) {
        EXPECT_FALSE(any(signbit(a)).item<bool>()) << dtype_name(t) << n;
      }
      for (const Array& a : {minimum(plus, minus), minimum(minus, plus), clamp(minus, plus, minus)}) {
        EXPECT_TRUE(all(signbit(a)).item<bool>()) << dtype_name(t) << n;
      }
      for (bool front : {true, false}) {
        const Array both = front ? concatenate({plus, minus}) : concatenate({minus, plus});
        EXPECT_FALSE(signbit(max(both)).item<bool>()) << dtype_name(t) << n;
        EXPECT_TRUE(signbit(min(both)).item<bool>()) << dtype_name(t) << n;
        const Array rows = stack({both, both}, 1);
        EXPECT_FALSE(any(signbit(max(rows, 0))).item<bool>()) << dtype_name(t) << n;
        EXPECT_TRUE(all(signbit(min(rows, 0))).item<bool>()) << dtype_name(t) << n;
        EXPECT_FALSE(signbit(index(lax::cummax(both, 0), {-1})).item<bool>());
        EXPECT_TRUE(signbit(index(lax::cummin(both, 0), {-1})).item<bool>());
      }
    }
  }
}

TEST(EdgeValues, DivisionByZero) {
  const Array i = Array(HostArray::from(std::vector<std::int32_t>{7, -7, 0, INT32_MIN}));
  const std::vector<std::int32_t> none(4, 0);
  for (const Array& r : {i % 0, remainder(i, zeros_like(i)), fmod(i, zeros_like(i)), divmod(i, 0).second}) {
    EXPECT_EQ(r.to_vector<std::int32_t>(), none);
  }
  EXPECT_EQ((ones({2}, uint8) % 0).to_vector<std::uint8_t>(), (std::vector<std::uint8_t>{0, 0}));
  const float inf = std::numeric_limits<float>::infinity();
  EXPECT_EQ(floor_divide(Array(HostArray::from(std::vector<float>{1, -1, inf})), 0.0).to_vector<float>(),
            (std::vector<float>{inf, -inf, inf}));
  EXPECT_EQ(power(Array(HostArray::from(std::vector<std::int32_t>{0, 1, -1, 2})), full({4}, -1, int32))
                .to_vector<std::int32_t>(),
            (std::vector<std::int32_t>{0, 1, -1, 0}));
  EXPECT_THROW(power(i, -1), ValueError);
  EXPECT_EQ(power(zeros({1}), -1).item<float>(), inf);
}

TEST(EdgeValues, BesselFunctionsOfHugeArguments) {
  const double root = std::sqrt(2 * 3.14159265358979323846);
  for (double x : {1e3, 1e30, 1e300, 1.7e308}) {
    const Array a = Array(HostArray::from(std::vector<double>{x, -x}));
    const double want = 1 / (root * std::sqrt(x));
    EXPECT_NEAR(bessel_i1e(a).to_vector<double>()[0] / want, 1, 1e-3) << x;
    EXPECT_NEAR(bessel_i1e(a).to_vector<double>()[1] / want, -1, 1e-3) << x;
    EXPECT_NEAR(bessel_i0e(a).to_vector<double>()[0] / want, 1, 1e-3) << x;
  }
  EXPECT_EQ(bessel_i1e(std::numeric_limits<double>::infinity()).item<float>(), 0);
}

TEST(EdgeValues, DivisorsOfTheLeastInteger) {
  const Array x = Array(HostArray::from(std::vector<std::int8_t>{-128, -128, 12, 0, 3}));
  const Array y = Array(HostArray::from(std::vector<std::int8_t>{3, 6, -18, 5, -128}));
  EXPECT_EQ(gcd(x, y).to_vector<std::int8_t>(), (std::vector<std::int8_t>{1, 2, 6, 5, 1}));
}

TEST(EdgeValues, RangesOfWideIntegers) {
  const std::int64_t odd = (std::int64_t{1} << 53) + 1;
  EXPECT_EQ(arange(odd, odd + 3, int64).to_vector<std::int64_t>(), (std::vector<std::int64_t>{odd, odd + 1, odd + 2}));
  EXPECT_EQ(arange(5, -1, -2, int64).to_vector<std::int64_t>(), (std::vector<std::int64_t>{5, 3, 1}));
  EXPECT_EQ(arange(5, 5, 1, int64).size(), 0);
}

}  // namespace

}  // namespace tessera
