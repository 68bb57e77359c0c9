// SPDX-License-Identifier: Apache-2.0
// Element-wise kernels between types, on half floats and on complex numbers.
#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <limits>
#include <type_traits>
#include <vector>

#include "engines/cpu/kernels/elementwise/elementwise_kernels.h"
#include "tests/unit/kernels_values.h"

namespace tessera::kernels {
namespace {

template <class To, class From>
To cast_exact(From v) {
  if constexpr (std::is_same_v<To, bool>) {
    return v != From{0};
  } else if constexpr (std::is_integral_v<To> && std::is_floating_point_v<From>) {
    auto d = static_cast<long double>(v);
    if (std::isnan(d)) return 0;
    if (d >= static_cast<long double>(std::numeric_limits<To>::max())) return std::numeric_limits<To>::max();
    if (d <= static_cast<long double>(std::numeric_limits<To>::min())) return std::numeric_limits<To>::min();
    return static_cast<To>(d);
  } else {
    return static_cast<To>(v);
  }
}
template <class To, class From>
void check_convert() {
  auto x = random_values<From>(1003, 11);
  std::vector<std::conditional_t<std::is_same_v<To, bool>, std::uint8_t, To>> got(x.size());
  ew_find(EwOp::Convert, kType<From>, kType<To>)(x.data(), nullptr, nullptr, got.data(),
                                                 static_cast<std::int64_t>(x.size()));
  for (std::size_t i = 0; i < x.size(); ++i) {
    auto want = static_cast<typename decltype(got)::value_type>(cast_exact<To>(x[i]));
    bool same = want == got[i] || (want != want && got[i] != got[i]);
    ASSERT_TRUE(same) << dtype_name(kType<From>) << " -> " << dtype_name(kType<To>) << ": " << +x[i] << " gave "
                      << +got[i];
  }
}
template <class From>
void check_converts() {
  check_convert<bool, From>();
  check_convert<std::int8_t, From>();
  check_convert<std::int16_t, From>();
  check_convert<std::int32_t, From>();
  check_convert<std::int64_t, From>();
  check_convert<std::uint8_t, From>();
  check_convert<std::uint16_t, From>();
  check_convert<std::uint32_t, From>();
  check_convert<std::uint64_t, From>();
  check_convert<float, From>();
  check_convert<double, From>();
}
TEST(Elementwise, ConvertBetweenRealTypes) {
  check_converts<float>();
  check_converts<double>();
  check_converts<std::int8_t>();
  check_converts<std::uint8_t>();
  check_converts<std::int16_t>();
  check_converts<std::uint16_t>();
  check_converts<std::int32_t>();
  check_converts<std::uint32_t>();
  check_converts<std::int64_t>();
  check_converts<std::uint64_t>();
}

TEST(Elementwise, HalfTypesRoundTripAndRoundOnce) {
  std::vector<std::uint16_t> all(65536);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::uint16_t>(i);
  for (DType half : {DType::F16, DType::BF16}) {
    std::vector<float> wide(all.size());
    std::vector<std::uint16_t> back(all.size());
    ew_find(EwOp::Convert, half, DType::F32)(all.data(), nullptr, nullptr, wide.data(), 65536);
    ew_find(EwOp::Convert, DType::F32, half)(wide.data(), nullptr, nullptr, back.data(), 65536);
    for (std::size_t i = 0; i < all.size(); ++i) {
      float want = half == DType::F16 ? detail::half_to_float(all[i]) : detail::bf16_to_float(all[i]);
      if (std::isnan(want)) {
        ASSERT_TRUE(std::isnan(wide[i]));
      } else {
        ASSERT_EQ(wide[i], want);
        ASSERT_EQ(back[i], all[i]);
      }
    }
    auto x = random_values<float>(5003, 3);
    std::vector<std::uint16_t> got(x.size());
    ew_find(EwOp::Convert, DType::F32, half)(x.data(), nullptr, nullptr, got.data(),
                                             static_cast<std::int64_t>(x.size()));
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (std::isnan(x[i])) continue;
      ASSERT_EQ(got[i], half == DType::F16 ? detail::float_to_half(x[i]) : detail::float_to_bf16(x[i])) << x[i];
    }
  }
  // 1 + 2^-8 + 2^-40 rounds up in bf16; rounding to f32 first would drop the last term and tie to even, down.
  double d = 1 + std::ldexp(1, -8) + std::ldexp(1, -40);
  std::uint16_t b;
  ew_find(EwOp::Convert, DType::F64, DType::BF16)(&d, nullptr, nullptr, &b, 1);
  EXPECT_EQ(detail::bf16_to_float(b), 1 + std::ldexp(1.0f, -7));
  d = -(1 + std::ldexp(1, -11) + std::ldexp(1, -45));
  ew_find(EwOp::Convert, DType::F64, DType::F16)(&d, nullptr, nullptr, &b, 1);
  EXPECT_EQ(detail::half_to_float(b), -(1 + std::ldexp(1.0f, -10)));
}

TEST(Elementwise, HalfArithmetic) {
  std::vector<bfloat16_t> a(700), b(700), c(700);
  for (std::size_t i = 0; i < a.size(); ++i)
    a[i] = static_cast<float>(i) * 0.17f - 40, b[i] = 3.0f - static_cast<float>(i) * 0.01f;
  ew_find(EwOp::Mul, DType::BF16, DType::BF16)(a.data(), b.data(), nullptr, c.data(), 700);
  for (std::size_t i = 0; i < a.size(); ++i) ASSERT_EQ(c[i].bits, bfloat16_t(float(a[i]) * float(b[i])).bits);
  ew_find(EwOp::Exp, DType::BF16, DType::BF16)(a.data(), nullptr, nullptr, a.data(), 700);  // in place
  for (std::size_t i = 0; i < a.size(); ++i)
    ASSERT_NEAR(float(a[i]), std::exp(float(bfloat16_t(static_cast<float>(i) * 0.17f - 40))),
                0.005f * float(a[i]) + 1e-37f);
  float16_t one = 1.0f, two = 2.0f, next;
  ew_find(EwOp::Nextafter, DType::F16, DType::F16)(&one, &two, nullptr, &next, 1);
  EXPECT_EQ(float(next), 1 + std::ldexp(1.0f, -10));
}

TEST(Elementwise, ComplexValues) {
  using C = complex64_t;
  std::vector<C> x = {{1, 2}, {-3, 0.5f}, {0, 1}, {0.1f, -0.2f}}, y = {{2, -1}, {1, 1}, {0.5f, 0}, {3, 2}}, r(4);
  auto run = [&](EwOp op) { ew_find(op, DType::C64, DType::C64)(x.data(), y.data(), nullptr, r.data(), 4); };
  auto near = [&](auto want, const char* what) {
    for (std::size_t i = 0; i < 4; ++i)
      EXPECT_LT(std::abs(r[i] - want(x[i], y[i])), 2e-6f * (1 + std::abs(r[i]))) << what << i;
  };
  run(EwOp::Mul), near([](C a, C b) { return a * b; }, "mul");
  run(EwOp::Div), near([](C a, C b) { return a / b; }, "div");
  run(EwOp::Pow), near([](C a, C b) { return std::pow(a, b); }, "pow");
  run(EwOp::Exp), near([](C a, C) { return std::exp(a); }, "exp");
  run(EwOp::Expm1), near([](C a, C) { return std::exp(a) - C(1); }, "expm1");
  run(EwOp::Log1p), near([](C a, C) { return std::log(C(1) + a); }, "log1p");
  run(EwOp::Rsqrt), near([](C a, C) { return C(1) / std::sqrt(a); }, "rsqrt");
  run(EwOp::Sign), near([](C a, C) { return a / std::abs(a); }, "sign");
  float re[4], im[4], size[4];
  ew_find(EwOp::Real, DType::C64, DType::F32)(x.data(), nullptr, nullptr, re, 4);
  ew_find(EwOp::Imag, DType::C64, DType::F32)(x.data(), nullptr, nullptr, im, 4);
  ew_find(EwOp::Abs, DType::C64, DType::F32)(x.data(), nullptr, nullptr, size, 4);
  ew_find(EwOp::Complex, DType::F32, DType::C64)(re, im, nullptr, r.data(), 4);
  EXPECT_EQ(r, x);
  EXPECT_FLOAT_EQ(size[0], std::sqrt(5.0f));
  double back[4];
  ew_find(EwOp::Convert, DType::C64, DType::F64)(x.data(), nullptr, nullptr, back, 4);
  EXPECT_EQ(back[1], -3.0);
  complex128_t wide[4];
  ew_find(EwOp::Convert, DType::C64, DType::C128)(x.data(), nullptr, nullptr, wide, 4);
  EXPECT_EQ(wide[1], complex128_t(-3, 0.5));
  std::uint8_t nonzero[4];
  ew_find(EwOp::Convert, DType::C64, DType::Bool)(x.data(), nullptr, nullptr, nonzero, 4);
  EXPECT_EQ(nonzero[2], 1) << "an imaginary part alone is not zero";
}

}  // namespace
}  // namespace tessera::kernels
