// SPDX-License-Identifier: Apache-2.0
// How exact the vector library's functions are, over all magnitudes, and that neighbours in a vector do not matter.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "engines/cpu/kernels/elementwise/elementwise_kernels.h"
#include "tests/unit/kernels_values.h"

namespace tessera::kernels {
namespace {

using Exact = long double;
struct Function {
  EwOp op;
  const char* name;
  Exact (*exact)(Exact, Exact);
  double max_ulp = 1.0001;  // of the true value: half of one is the rounding
  int operands = 1;
};

// One unit, but where a result is patched near its largest, is below the normal numbers, or is promised less of.
const Function kFunctions[] = {
    {EwOp::Exp, "exp", [](Exact x, Exact) { return std::exp(x); }},
    {EwOp::Exp2, "exp2", [](Exact x, Exact) { return std::exp2(x); }},
    {EwOp::Expm1, "expm1", [](Exact x, Exact) { return std::expm1(x); }},
    {EwOp::Log, "log", [](Exact x, Exact) { return std::log(x); }},
    {EwOp::Log1p, "log1p", [](Exact x, Exact) { return std::log1p(x); }},
    {EwOp::Cbrt, "cbrt", [](Exact x, Exact) { return std::cbrt(x); }},
    {EwOp::Sin, "sin", [](Exact x, Exact) { return std::sin(x); }},
    {EwOp::Cos, "cos", [](Exact x, Exact) { return std::cos(x); }},
    {EwOp::Tan, "tan", [](Exact x, Exact) { return std::tan(x); }},
    {EwOp::Asin, "asin", [](Exact x, Exact) { return std::asin(x); }},
    {EwOp::Acos, "acos", [](Exact x, Exact) { return std::acos(x); }},
    {EwOp::Atan, "atan", [](Exact x, Exact) { return std::atan(x); }},
    {EwOp::Sinh, "sinh", [](Exact x, Exact) { return std::sinh(x); }, 1.5},
    {EwOp::Cosh, "cosh", [](Exact x, Exact) { return std::cosh(x); }, 1.5},
    {EwOp::Tanh, "tanh", [](Exact x, Exact) { return std::tanh(x); }, 2.5},
    {EwOp::Asinh, "asinh", [](Exact x, Exact) { return std::asinh(x); }, 1.25},
    {EwOp::Acosh, "acosh", [](Exact x, Exact) { return std::acosh(x); }, 1.25},
    {EwOp::Atanh, "atanh", [](Exact x, Exact) { return std::atanh(x); }},
    {EwOp::Erf, "erf", [](Exact x, Exact) { return std::erf(x); }, 2},
    {EwOp::Erfc, "erfc", [](Exact x, Exact) { return std::erfc(x); }, 2.5},
    {EwOp::Pow, "pow", [](Exact x, Exact y) { return std::pow(x, y); }, 1.0001, 2},
    {EwOp::Atan2, "atan2", [](Exact y, Exact x) { return std::atan2(y, x); }, 2, 2},
};

template <class T>
double ulps(T got, Exact want) {
  auto rounded = static_cast<T>(want);
  if (std::isnan(want) || std::isnan(got)) return std::isnan(want) == std::isnan(got) ? 0 : 1e9;
  if (got == rounded) return std::signbit(got) == std::signbit(rounded) || got != 0 ? 0 : 1e9;
  using L = std::numeric_limits<T>;
  if (std::isinf(want) || std::isinf(got)) return 1e9;
  int power = L::min_exponent;
  if (rounded != 0) std::frexp(std::min(std::fabs(rounded), L::max()), &power);
  Exact ulp = std::ldexp(Exact{1}, std::max(power, L::min_exponent) - L::digits);
  return static_cast<double>(std::fabs(got - want) / ulp);
}

// Any bits at all, numbers of everyday size, and the edges; every size next to every other.
template <class T>
std::vector<T> everywhere(std::uint64_t seed, std::size_t n) {
  using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  std::mt19937_64 random(seed);
  const std::vector<T> edges = interesting<T>();
  std::vector<T> values;
  for (std::size_t i = 0; i < n; ++i) {
    auto size = static_cast<T>(std::exp2(static_cast<double>(random() % 12)));
    auto everyday = std::uniform_real_distribution<T>(-size, size)(random);
    values.push_back(i % 8 == 0   ? edges[random() % edges.size()]
                     : i % 8 == 1 ? std::bit_cast<T>(static_cast<Bits>(random()))
                     : i % 8 == 2 ? std::uniform_real_distribution<T>(-1, 1)(random)
                                  : everyday);
  }
  return values;
}

template <class T>
void check_ulps() {
  constexpr std::size_t kCount = 20000;
  const auto x = everywhere<T>(1, kCount), y = everywhere<T>(2, kCount);
  for (const auto& f : kFunctions) {
    std::vector<T> got(kCount);
    ew_find(f.op, kType<T>, kType<T>)(x.data(), y.data(), nullptr, got.data(), kCount);
    double worst = 0;
    std::size_t at = 0;
    for (std::size_t i = 0; i < kCount; ++i) {
      double e = ulps(got[i], f.exact(x[i], y[i]));
      if (e > worst) worst = e, at = i;
    }
    EXPECT_LE(worst, f.max_ulp) << f.name << "(" << x[at] << ", " << y[at] << ") = " << got[at];
  }
}

TEST(VectorMath, IsExactToAUnitForF32) { check_ulps<float>(); }
TEST(VectorMath, IsExactToAUnitForF64) { check_ulps<double>(); }

// What `everywhere` meets rarely: each 67th float of those for which erf is not one, nor erfc zero.
TEST(VectorMath, OfErrorFunctionsIsExactAllAlong) {
  std::vector<float> x;
  for (auto bits = std::bit_cast<std::uint32_t>(1e-4F); bits < std::bit_cast<std::uint32_t>(9.2F); bits += 67) {
    x.push_back(std::bit_cast<float>(bits));
  }
  std::vector<float> y(x.size());
  for (const auto& f : kFunctions) {
    if (f.op != EwOp::Erf && f.op != EwOp::Erfc) continue;
    for (float sign : {1.0F, -1.0F}) {
      for (float& v : x) v = std::copysign(v, sign);
      ew_find(f.op, DType::F32, DType::F32)(x.data(), nullptr, nullptr, y.data(), std::ssize(x));
      double worst = 0;
      for (std::size_t i = 0; i < x.size(); ++i) {
        const double wide = x[i];  // f64 has digits enough to judge f32 by
        worst = std::max(worst, ulps(y[i], Exact{f.op == EwOp::Erf ? std::erf(wide) : std::erfc(wide)}));
      }
      EXPECT_LE(worst, f.max_ulp) << f.name << ", sign " << sign;
    }
  }
}

// Up to the largest results and the largest arguments, closer and closer.
template <class T>
std::vector<T> near_overflow() {
  using L = std::numeric_limits<T>;
  const Exact most = std::log(Exact{L::max()}), two = std::log(Exact{2});
  std::vector<T> x;
  for (Exact end : {most, most + two, Exact{L::max_exponent}, Exact{L::max()}}) {
    for (int i = 1; i < 200; ++i) {
      x.push_back(static_cast<T>(end * (1 - std::exp2(-i / Exact{4}))));
      x.push_back(-x.back());
    }
  }
  return x;
}

template <class T>
void check_largest() {
  const auto x = near_overflow<T>();
  std::vector<T> got(x.size());
  for (const auto& f : kFunctions) {
    if (f.operands != 1) continue;
    ew_find(f.op, kType<T>, kType<T>)(x.data(), nullptr, nullptr, got.data(), static_cast<std::int64_t>(x.size()));
    for (std::size_t i = 0; i < x.size(); ++i) {
      EXPECT_LE(ulps(got[i], f.exact(x[i], 0)), f.max_ulp) << f.name << "(" << x[i] << ") = " << got[i];
    }
  }
}

template <class T>
void check_largest_powers() {
  constexpr T kMax = std::numeric_limits<T>::max();
  std::vector<T> x, y, got;
  for (T power : {T{1}, T{2}, T{3}, T{-1}, T{-2.5}, T{0.75}, T{100}, T{-1e4}}) {
    for (int i = 1; i < 200; ++i) {
      Exact result = Exact{kMax} * (1 - std::exp2(-i / Exact{4}));
      x.push_back(static_cast<T>(std::pow(result, 1 / Exact{power})));
      y.push_back(power);
      if (std::isinf(static_cast<T>(std::pow(Exact{x.back()}, Exact{power})))) x.back() = 1;  // its root rounds up
    }
  }
  x.push_back(kMax), y.push_back(1);
  x.push_back(-kMax), y.push_back(1);
  got.resize(x.size());
  auto n = static_cast<std::int64_t>(x.size());
  ew_find(EwOp::Pow, kType<T>, kType<T>)(x.data(), y.data(), nullptr, got.data(), n);
  for (std::size_t i = 0; i < x.size(); ++i) {
    EXPECT_LE(ulps(got[i], std::pow(Exact{x[i]}, Exact{y[i]})), 1.0001) << x[i] << " ** " << y[i] << " = " << got[i];
  }
}

TEST(VectorMath, ReachesTheLargestNumbers) {
  check_largest<float>();
  check_largest<double>();
  check_largest_powers<float>();
  check_largest_powers<double>();
}

// Whole vectors, parts of them and single elements: a program's fused form must agree with its single ops.
template <class T>
void check_neighbours() {
  constexpr std::size_t kCount = 3000;
  const auto x = everywhere<T>(3, kCount), y = everywhere<T>(4, kCount);
  for (const auto& f : kFunctions) {
    EwFn fn = ew_find(f.op, kType<T>, kType<T>);
    std::vector<T> together(kCount);
    fn(x.data(), y.data(), nullptr, together.data(), kCount);
    for (std::size_t i = 0; i < kCount; ++i) {
      T alone;
      fn(&x[i], &y[i], nullptr, &alone, 1);
      EXPECT_EQ(std::memcmp(&alone, &together[i], sizeof alone), 0)
          << f.name << "(" << x[i] << ", " << y[i] << "): " << alone << " alone, " << together[i] << " among others";
    }
  }
}

TEST(VectorMath, DoesNotDependOnNeighbours) {
  check_neighbours<float>();
  check_neighbours<double>();
}

}  // namespace
}  // namespace tessera::kernels
