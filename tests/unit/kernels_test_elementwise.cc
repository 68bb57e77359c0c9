// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "engines/cpu/kernels/elementwise/elementwise_kernels.h"
#include "tests/unit/kernels_values.h"

namespace tessera::kernels {
namespace {

template <class T>
double ulp_error(T got, double want, double more_exact_low = 0) {
  if (std::isnan(want) || std::isnan(got)) return std::isnan(want) == std::isnan(got) ? 0 : 1e9;
  auto rounded = static_cast<T>(want);
  if (std::isinf(rounded) || std::isinf(got)) {
    if (got == rounded) return 0;
    T other = std::isinf(rounded) ? got : rounded;  // the largest finite value is next to infinity
    return std::fabs(other) == std::numeric_limits<T>::max() && std::signbit(got) == std::signbit(rounded) ? 1 : 1e9;
  }
  T next = std::nextafter(std::fabs(rounded), std::numeric_limits<T>::infinity());
  double ulp = std::isinf(next) ? std::ldexp(1.0, std::is_same_v<T, float> ? 104 : 971)
                                : static_cast<double>(next) - std::fabs(static_cast<double>(rounded));
  return std::fabs((static_cast<double>(got) - want) - more_exact_low) / ulp;
}

struct Unary {
  EwOp op;
  const char* name;
  std::function<double(double)> exact;
  double max_ulp = 4;
};

double erf_inv_exact(double y) {
  if (std::isnan(y) || std::fabs(y) > 1) return std::numeric_limits<double>::quiet_NaN();
  if (std::fabs(y) == 1) return y * std::numeric_limits<double>::infinity();
  if (y == 0) return y;
  double low = 0, high = 6;
  for (int i = 0; i < 200; ++i) {
    double mid = (low + high) / 2;
    (std::erf(mid) < std::fabs(y) ? low : high) = mid;
  }
  return std::copysign(low, y);
}

double round_even(double x) { return std::nearbyint(x); }

std::vector<Unary> unaries() {
  using D = double;
  auto logistic = [](D x) { return 1 / (1 + std::exp(-x)); };
  return {{EwOp::Neg, "neg", [](D x) { return -x; }, 0},
          {EwOp::Abs, "abs", [](D x) { return std::fabs(x); }, 0},
          {EwOp::Sign, "sign", [](D x) { return x > 0   ? 1
                                                : x < 0 ? -1
                                                        : x; }, 0},
          {EwOp::Floor, "floor", [](D x) { return std::floor(x); }, 0},
          {EwOp::Ceil, "ceil", [](D x) { return std::ceil(x); }, 0},
          {EwOp::RoundAfz, "round_afz", [](D x) { return std::round(x); }, 0},
          {EwOp::RoundEven, "round_even", round_even, 0},
          {EwOp::Exp, "exp", [](D x) { return std::exp(x); }},
          {EwOp::Exp2, "exp2", [](D x) { return std::exp2(x); }},
          {EwOp::Expm1, "expm1", [](D x) { return std::expm1(x); }},
          {EwOp::Log, "log", [](D x) { return std::log(x); }},
          {EwOp::Log1p, "log1p", [](D x) { return std::log1p(x); }},
          {EwOp::Sqrt, "sqrt", [](D x) { return std::sqrt(x); }, 0.51},
          {EwOp::Rsqrt, "rsqrt", [](D x) { return 1 / std::sqrt(x); }, 1.5},
          {EwOp::Cbrt, "cbrt", [](D x) { return std::cbrt(x); }},
          {EwOp::Sin, "sin", [](D x) { return std::sin(x); }},
          {EwOp::Cos, "cos", [](D x) { return std::cos(x); }},
          {EwOp::Tan, "tan", [](D x) { return std::tan(x); }},
          {EwOp::Asin, "asin", [](D x) { return std::asin(x); }},
          {EwOp::Acos, "acos", [](D x) { return std::acos(x); }},
          {EwOp::Atan, "atan", [](D x) { return std::atan(x); }},
          {EwOp::Sinh, "sinh", [](D x) { return std::sinh(x); }},
          {EwOp::Cosh, "cosh", [](D x) { return std::cosh(x); }},
          {EwOp::Tanh, "tanh", [](D x) { return std::tanh(x); }},
          {EwOp::Asinh, "asinh", [](D x) { return std::asinh(x); }},
          {EwOp::Acosh, "acosh", [](D x) { return std::acosh(x); }},
          {EwOp::Atanh, "atanh", [](D x) { return std::atanh(x); }},
          {EwOp::Logistic, "logistic", logistic},
          {EwOp::Erf, "erf", [](D x) { return std::erf(x); }},
          {EwOp::Erfc, "erfc", [](D x) { return std::erfc(x); }},
          // 1 - x * x loses digits near one; XLA's formula does too, and agreeing with it is what counts.
          {EwOp::ErfInv, "erf_inv", erf_inv_exact, 64},
          {EwOp::Lgamma, "lgamma", [](D x) { return std::lgamma(x); }, 8},
          {EwOp::Square, "square", [](D x) { return x * x; }, 0.51},
          {EwOp::Reciprocal, "reciprocal", [](D x) { return 1 / x; }, 0.51}};
}

template <class T>
void check_unary(const Unary& u, const std::vector<T>& x) {
  EwFn fn = ew_find(u.op, kType<T>, kType<T>);
  ASSERT_NE(fn, nullptr) << u.name;
  std::vector<T> got(x.size());
  fn(x.data(), nullptr, nullptr, got.data(), static_cast<std::int64_t>(x.size()));
  double worst = 0;
  std::size_t at = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    double e = ulp_error(got[i], u.exact(static_cast<double>(x[i])));
    if (e > worst) worst = e, at = i;
  }
  EXPECT_LE(worst, u.max_ulp) << u.name << "(" << x[at] << ") = " << got[at] << ", expected "
                              << u.exact(static_cast<double>(x[at]));
}

TEST(Elementwise, UnaryFloat32AgainstDouble) {
  auto x = random_values<float>(60001, 1);
  for (const Unary& u : unaries()) check_unary(u, x);
}

TEST(Elementwise, UnaryFloat64) {
  auto x = random_values<double>(20003, 2);
  for (Unary u : unaries()) {
    if (u.op == EwOp::ErfInv) continue;  // its own test: bisection is no reference in the tails
    if (u.op == EwOp::Lgamma) u.max_ulp = 0;
    check_unary(u, x);
  }
}

TEST(Elementwise, ErfInvFloat64InvertsErf) {
  std::vector<double> y, x;
  for (int i = -999; i < 1000; i += 3) y.push_back(i / 1000.0);
  y.insert(y.end(), {1e-300, -1e-20, 0.0, 1, -1, 1.5, std::nan("")});
  x.resize(y.size());
  ew_find(EwOp::ErfInv, DType::F64, DType::F64)(y.data(), nullptr, nullptr, x.data(),
                                                static_cast<std::int64_t>(y.size()));
  for (std::size_t i = 0; i < y.size(); ++i) {
    if (std::isnan(y[i]) || std::fabs(y[i]) > 1) {
      EXPECT_TRUE(std::isnan(x[i])) << y[i];
    } else {
      EXPECT_NEAR(std::erf(x[i]), y[i], 4e-16 * (1 + std::fabs(y[i]))) << y[i];
    }
  }
  EXPECT_TRUE(std::isinf(x[x.size() - 4]) && x[x.size() - 4] > 0);
}

TEST(Elementwise, Digamma) {
  // Values of the digamma function to 16 digits.
  std::vector<double> x = {1, 0.5, 2, 10, -0.5, -2.5, 1e5, 0.001, 1.4616321449683623, -3, 0, INFINITY};
  std::vector<double> want = {-0.5772156649015329, -1.9635100260214235, 0.42278433509846713,
                              2.251752589066721,   0.03648997397857652, 1.1031566406452432,
                              11.512920464961896,  -1000.5755719318103, 0,
                              std::nan(""),        std::nan(""),        INFINITY};
  std::vector<double> got(x.size());
  ew_find(EwOp::Digamma, DType::F64, DType::F64)(x.data(), nullptr, nullptr, got.data(),
                                                 static_cast<std::int64_t>(x.size()));
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (std::isnan(want[i])) {
      EXPECT_TRUE(std::isnan(got[i])) << x[i];
    } else if (std::isinf(want[i])) {
      EXPECT_EQ(got[i], want[i]);
    } else {
      EXPECT_NEAR(got[i], want[i], 1e-14 * (1 + std::fabs(want[i]))) << x[i];
    }
  }
}

template <class T>
void check_binary_float() {
  struct Row {
    EwOp op;
    const char* name;
    std::function<long double(long double, long double)> exact;
    double max_ulp;
  };
  using D = long double;
  std::vector<Row> rows = {
      {EwOp::Add, "add", [](D a, D b) { return a + b; }, 0.51},
      {EwOp::Sub, "sub", [](D a, D b) { return a - b; }, 0.51},
      {EwOp::Mul, "mul", [](D a, D b) { return a * b; }, 0.51},
      {EwOp::Div, "div", [](D a, D b) { return a / b; }, 0.51},
      {EwOp::Rem, "rem", [](D a, D b) { return std::fmod(a, b); }, 0},
      {EwOp::Pow, "pow", [](D a, D b) { return std::pow(a, b); }, 4},
      {EwOp::Atan2, "atan2", [](D a, D b) { return std::atan2(a, b); }, 4},
      {EwOp::Max, "max", [](D a, D b) { return std::isnan(a)   ? a
                                               : std::isnan(b) ? b
                                                               : std::max(a, b); }, 0},
      {EwOp::Min, "min", [](D a, D b) { return std::isnan(a)   ? a
                                               : std::isnan(b) ? b
                                                               : std::min(a, b); }, 0},
      {EwOp::Nextafter, "nextafter", [](D a, D b) { return std::nextafter(static_cast<T>(a), static_cast<T>(b)); }, 0}};
  auto special = interesting<T>();
  auto x = random_values<T>(5003, 4), y = random_values<T>(5003, 5);
  for (T a : special) {
    for (T b : special) x.push_back(a), y.push_back(b);
  }
  for (const Row& r : rows) {
    std::vector<T> got(x.size());
    ew_find(r.op, kType<T>, kType<T>)(x.data(), y.data(), nullptr, got.data(), static_cast<std::int64_t>(x.size()));
    for (std::size_t i = 0; i < x.size(); ++i) {
      D want = r.exact(x[i], y[i]);
      auto rounded = static_cast<T>(want);
      double e = std::is_same_v<T, float> ? ulp_error(got[i], static_cast<double>(want))
                                          : ulp_error(got[i], static_cast<double>(rounded));
      double allowed = sizeof(T) == 4 ? r.max_ulp : std::ceil(r.max_ulp);
      ASSERT_LE(e, allowed) << r.name << "(" << x[i] << ", " << y[i] << ") = " << got[i] << ", expected " << rounded;
    }
  }
}
TEST(Elementwise, BinaryFloat32) { check_binary_float<float>(); }
TEST(Elementwise, BinaryFloat64) { check_binary_float<double>(); }

template <class T>
void check_integers() {
  using U = std::make_unsigned_t<T>;
  using S = std::make_signed_t<T>;
  using Wide = __int128;
  constexpr int bits = sizeof(T) * 8;
  auto special = interesting<T>();
  auto x = random_values<T>(999, 6), y = random_values<T>(999, 7);
  for (T a : special) {
    for (T b : special) x.push_back(a), y.push_back(b);
  }
  auto shifted = [&](T b) { return static_cast<U>(b) >= bits; };
  std::vector<std::pair<EwOp, std::function<T(T, T)>>> rows = {
      {EwOp::Add, [](T a, T b) { return static_cast<T>(static_cast<Wide>(a) + b); }},
      {EwOp::Sub, [](T a, T b) { return static_cast<T>(static_cast<Wide>(a) - b); }},
      {EwOp::Mul,
       [](T a, T b) { return static_cast<T>(static_cast<unsigned __int128>(a) * static_cast<unsigned __int128>(b)); }},
      {EwOp::Div, [](T a, T b) { return b == 0 ? T(-1) : static_cast<T>(static_cast<Wide>(a) / b); }},
      {EwOp::Rem, [](T a, T b) { return b == 0 ? a : static_cast<T>(static_cast<Wide>(a) % b); }},
      {EwOp::Max, [](T a, T b) { return std::max(a, b); }},
      {EwOp::Min, [](T a, T b) { return std::min(a, b); }},
      {EwOp::And, [](T a, T b) { return static_cast<T>(a & b); }},
      {EwOp::Or, [](T a, T b) { return static_cast<T>(a | b); }},
      {EwOp::Xor, [](T a, T b) { return static_cast<T>(a ^ b); }},
      {EwOp::Shl, [&](T a, T b) { return shifted(b) ? T(0) : static_cast<T>(static_cast<std::uint64_t>(a) << b); }},
      {EwOp::ShrLogical, [&](T a, T b) { return shifted(b) ? T(0) : static_cast<T>(static_cast<U>(a) >> b); }},
      {EwOp::ShrArith,
       [&](T a, T b) {
         S s = static_cast<S>(a);
         return shifted(b) ? static_cast<T>(s < 0 ? -1 : 0) : static_cast<T>(s >> b);
       }},
      {EwOp::MulHi, [&](T a, T b) {
         // As bits: the product of two numbers of at most 64 bits is exact in 128 whether they have a sign or not.
         return static_cast<T>((static_cast<unsigned __int128>(a) * static_cast<unsigned __int128>(b)) >> bits);
       }}};
  for (auto& [op, want] : rows) {
    std::vector<T> got(x.size());
    ew_find(op, kType<T>, kType<T>)(x.data(), y.data(), nullptr, got.data(), static_cast<std::int64_t>(x.size()));
    for (std::size_t i = 0; i < x.size(); ++i) {
      ASSERT_EQ(got[i], want(x[i], y[i]))
          << "op " << static_cast<int>(op) << " bits " << bits << ": " << +x[i] << ", " << +y[i];
    }
  }
  std::vector<std::pair<EwOp, std::function<T(T)>>> unary = {
      {EwOp::Neg, [](T a) { return static_cast<T>(-static_cast<Wide>(a)); }},
      {EwOp::Abs, [](T a) { return static_cast<T>(a < 0 ? -static_cast<Wide>(a) : a); }},
      {EwOp::Sign, [](T a) { return static_cast<T>(a > 0   ? 1
                                                   : a < 0 ? -1
                                                           : 0); }},
      {EwOp::Square,
       [](T a) { return static_cast<T>(static_cast<unsigned __int128>(a) * static_cast<unsigned __int128>(a)); }},
      {EwOp::Not, [](T a) { return static_cast<T>(~a); }},
      {EwOp::PopulationCount, [](T a) { return static_cast<T>(std::popcount(static_cast<U>(a))); }},
      {EwOp::Clz, [](T a) { return static_cast<T>(std::countl_zero(static_cast<U>(a))); }}};
  for (auto& [op, want] : unary) {
    std::vector<T> got(x.size());
    ew_find(op, kType<T>, kType<T>)(x.data(), nullptr, nullptr, got.data(), static_cast<std::int64_t>(x.size()));
    for (std::size_t i = 0; i < x.size(); ++i) ASSERT_EQ(got[i], want(x[i])) << static_cast<int>(op) << " " << +x[i];
  }
  T base[] = {3, 2, T(-1), 1, 0, 5, 2}, exponent[] = {4, 5, 3, 9, 0, 0, T(-1)}, power[7];
  ew_find(EwOp::Pow, kType<T>, kType<T>)(base, exponent, nullptr, power, std::is_signed_v<T> ? 7 : 6);
  EXPECT_EQ(power[0], T(81));
  EXPECT_EQ(power[1], T(32));
  EXPECT_EQ(power[2], T(-1));
  EXPECT_EQ(power[3], T(1));
  EXPECT_EQ(power[4], T(1));
  EXPECT_EQ(power[5], T(1));
  if constexpr (std::is_signed_v<T>) {
    EXPECT_EQ(power[6], T(0));
  }
}
TEST(Elementwise, Integers) {
  check_integers<std::int8_t>();
  check_integers<std::int16_t>();
  check_integers<std::int32_t>();
  check_integers<std::int64_t>();
  check_integers<std::uint8_t>();
  check_integers<std::uint16_t>();
  check_integers<std::uint32_t>();
  check_integers<std::uint64_t>();
}

template <class T>
void check_comparisons(const std::vector<T>& values) {
  std::vector<T> x, y;
  for (T a : values) {
    for (T b : values) x.push_back(a), y.push_back(b);
  }
  std::vector<std::uint8_t> got(x.size());
  auto check = [&](EwOp op, auto want) {
    ew_find(op, kType<T>, DType::Bool)(x.data(), y.data(), nullptr, got.data(), static_cast<std::int64_t>(x.size()));
    for (std::size_t i = 0; i < x.size(); ++i) {
      ASSERT_EQ(got[i], want(x[i], y[i]) ? 1 : 0) << static_cast<int>(op) << " of dtype " << dtype_name(kType<T>);
    }
  };
  check(EwOp::Eq, [](T a, T b) { return a == b; });
  check(EwOp::Ne, [](T a, T b) { return a != b; });
  if constexpr (!std::is_class_v<T> || std::is_convertible_v<T, float>) {
    check(EwOp::Lt, [](T a, T b) { return a < b; });
    check(EwOp::Le, [](T a, T b) { return a <= b; });
    check(EwOp::Gt, [](T a, T b) { return a > b; });
    check(EwOp::Ge, [](T a, T b) { return a >= b; });
  }
}
TEST(Elementwise, Comparisons) {
  check_comparisons(interesting<float>());
  check_comparisons(interesting<double>());
  check_comparisons(interesting<std::int8_t>());
  check_comparisons(interesting<std::uint16_t>());
  check_comparisons(interesting<std::int32_t>());
  check_comparisons(interesting<std::uint64_t>());
  check_comparisons(std::vector<bfloat16_t>{1.0f, -1.0f, 0.0f, -0.0f, INFINITY, NAN});
  check_comparisons(std::vector<float16_t>{1.0f, -1.0f, 0.0f, -0.0f, INFINITY, NAN});
  check_comparisons(std::vector<complex64_t>{{1, 2}, {1, 3}, {0, 0}, {-0.0f, 0}, {NAN, 0}});
}

TEST(Elementwise, SelectClampMulAddAndLogic) {
  std::uint8_t p[] = {1, 0, 1, 0, 1}, q[] = {1, 1, 0, 0, 1}, r[5];
  ew_find(EwOp::And, DType::Bool, DType::Bool)(p, q, nullptr, r, 5);
  EXPECT_EQ(std::vector<int>(r, r + 5), (std::vector<int>{1, 0, 0, 0, 1}));
  ew_find(EwOp::Or, DType::Bool, DType::Bool)(p, q, nullptr, r, 5);
  EXPECT_EQ(std::vector<int>(r, r + 5), (std::vector<int>{1, 1, 1, 0, 1}));
  ew_find(EwOp::Xor, DType::Bool, DType::Bool)(p, q, nullptr, r, 5);
  EXPECT_EQ(std::vector<int>(r, r + 5), (std::vector<int>{0, 1, 1, 0, 0}));
  ew_find(EwOp::Not, DType::Bool, DType::Bool)(p, nullptr, nullptr, r, 5);
  EXPECT_EQ(std::vector<int>(r, r + 5), (std::vector<int>{0, 1, 0, 1, 0}));
  for (int t = 0; t < kNumDTypes; ++t) {
    auto type = static_cast<DType>(t);
    std::int64_t size = dtype_size(type);
    std::vector<unsigned char> a(static_cast<std::size_t>(5 * size), 3), b(a.size(), 8), c(a.size());
    ew_find(EwOp::Select, type, type)(p, a.data(), b.data(), c.data(), 5);
    for (std::int64_t i = 0; i < 5 * size; ++i) ASSERT_EQ(c[static_cast<std::size_t>(i)], p[i / size] ? 3 : 8);
  }
  float low[] = {0, 0, 0, NAN}, x[] = {-1, 0.5f, NAN, 1}, high[] = {1, 1, 1, 1}, out[4];
  ew_find(EwOp::Clamp, DType::F32, DType::F32)(low, x, high, out, 4);
  EXPECT_EQ(out[0], 0);
  EXPECT_EQ(out[1], 0.5f);
  EXPECT_TRUE(std::isnan(out[2]) && std::isnan(out[3]));
  ew_find(EwOp::MulAdd, DType::F32, DType::F32)(x, high, high, out, 2);
  EXPECT_EQ(out[1], 1.5f);
}

TEST(Elementwise, EmptyTailsAndMissing) {
  for (std::int64_t n : {0, 1, 3, 15, 16, 17, 31}) {
    std::vector<float> x(32, 2.0f), y(33, -7.0f);
    ew_find(EwOp::Square, DType::F32, DType::F32)(x.data(), nullptr, nullptr, y.data(), n);
    for (std::int64_t i = 0; i < 33; ++i) ASSERT_EQ(y[static_cast<std::size_t>(i)], i < n ? 4.0f : -7.0f);
  }
  EXPECT_EQ(ew_find(EwOp::Exp, DType::I32, DType::I32), nullptr);
  EXPECT_EQ(ew_find(EwOp::Lt, DType::C64, DType::Bool), nullptr);
  EXPECT_EQ(ew_find(EwOp::Add, DType::F32, DType::F64), nullptr);
  EXPECT_EQ(ew_find(EwOp::And, DType::F32, DType::F32), nullptr);
  EXPECT_EQ(ew_find(EwOp::Real, DType::F32, DType::F32), nullptr);
}

}  // namespace
}  // namespace tessera::kernels
