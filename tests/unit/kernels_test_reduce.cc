// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <cstring>
#include <iterator>
#include <limits>
#include <random>
#include <vector>

#include "engines/cpu/kernels/reduce_axes.h"
#include "support/series.h"
#include "tessera/error.h"

namespace tessera::kernels {
namespace {

struct Case {
  std::int64_t outer, red, inner;
};
const Case kCases[] = {{1, 1, 1},     {3, 7, 1},     {5, 64, 1},   {2, 1000, 1},   {1, 140001, 1}, {2, 33, 5},
                       {1, 5000, 3},  {3, 2000, 17}, {4, 6, 100},  {1, 600, 2100}, {2, 3, 1},      {100, 31, 4},
                       {1, 70000, 8}, {17, 129, 1},  {1, 2, 2049}, {3, 1, 4}};

template <class T>
std::vector<T> values(std::int64_t n, unsigned seed) {
  std::mt19937 rng(seed);
  std::vector<T> v(static_cast<std::size_t>(n));
  for (auto& x : v) {
    if constexpr (std::is_integral_v<T>) {
      x = static_cast<T>(rng());
    } else {
      x = T(static_cast<float>(rng() % 2000) / 1000.0f - 1.0f);
    }
  }
  return v;
}

template <class T, class Acc, class F>
void check(ReduceOp op, Acc start, F f, double tolerance = 0) {
  const auto stride = static_cast<std::size_t>(test::case_stride(3));
  for (std::size_t k = static_cast<std::size_t>(op) % stride; k < std::size(kCases); k += stride) {
    const Case& c = kCases[k];
    auto x = values<T>(c.outer * c.red * c.inner, 5);
    std::vector<T> got(static_cast<std::size_t>(c.outer * c.inner));
    reduce(op, dtype_of<T>(), x.data(), got.data(), c.outer, c.red, c.inner);
    for (std::int64_t o = 0; o < c.outer; ++o) {
      for (std::int64_t i = 0; i < c.inner; ++i) {
        Acc want = start;
        for (std::int64_t r = 0; r < c.red; ++r)
          want = f(want, static_cast<Acc>(x[static_cast<std::size_t>((o * c.red + r) * c.inner + i)]));
        T g = got[static_cast<std::size_t>(o * c.inner + i)];
        if (tolerance == 0) {
          ASSERT_EQ(g, static_cast<T>(want))
              << c.outer << " " << c.red << " " << c.inner << " op " << static_cast<int>(op);
        } else {
          ASSERT_NEAR(static_cast<double>(g), static_cast<double>(want),
                      tolerance * (1 + std::sqrt(static_cast<double>(c.red))))
              << c.outer << " " << c.red << " " << c.inner;
        }
      }
    }
  }
}

template <class T>
void check_integer() {
  using U = std::make_unsigned_t<T>;
  auto wrap = [](auto f) {
    return [f](T a, T b) { return static_cast<T>(f(std::uint64_t(U(a)), std::uint64_t(U(b)))); };
  };
  check<T>(ReduceOp::Sum, T(0), wrap([](auto a, auto b) { return a + b; }));
  check<T>(ReduceOp::Prod, T(1), wrap([](auto a, auto b) { return a * b; }));
  check<T>(ReduceOp::Max, std::numeric_limits<T>::lowest(), [](T a, T b) { return std::max(a, b); });
  check<T>(ReduceOp::Min, std::numeric_limits<T>::max(), [](T a, T b) { return std::min(a, b); });
  check<T>(ReduceOp::And, static_cast<T>(~T(0)), [](T a, T b) { return static_cast<T>(a & b); });
  check<T>(ReduceOp::Or, T(0), [](T a, T b) { return static_cast<T>(a | b); });
}

TEST(Reduce, Integers) {
  check_integer<std::int8_t>();
  check_integer<std::uint8_t>();
  check_integer<std::int16_t>();
  check_integer<std::uint16_t>();
  check_integer<std::int32_t>();
  check_integer<std::uint32_t>();
  check_integer<std::int64_t>();
  check_integer<std::uint64_t>();
}

TEST(Reduce, Floats) {
  check<float>(
      ReduceOp::Sum, 0.0, [](double a, double b) { return a + b; }, 4e-6);
  check<double>(
      ReduceOp::Sum, 0.0, [](double a, double b) { return a + b; }, 1e-14);
  check<float>(ReduceOp::Max, -INFINITY, [](double a, double b) { return std::max(a, b); });
  check<double>(ReduceOp::Min, double(INFINITY), [](double a, double b) { return std::min(a, b); });
  check<bfloat16_t>(ReduceOp::Max, -INFINITY, [](double a, double b) { return std::max(a, b); });
  for (auto [o, r, i] : {Case{3, 1000, 1}, Case{2, 900, 30}}) {
    std::vector<bfloat16_t> x(static_cast<std::size_t>(o * r * i), bfloat16_t(1.0f)),
        got(static_cast<std::size_t>(o * i));
    reduce(ReduceOp::Sum, DType::BF16, x.data(), got.data(), o, r, i);
    for (auto g : got)
      EXPECT_EQ(float(g), float(bfloat16_t(static_cast<float>(r)))) << "stuck at 256 when added in bf16";
  }
  std::vector<float> two(40, 2.0f);
  float p[2];
  reduce(ReduceOp::Prod, DType::F32, two.data(), p, 2, 20, 1);
  EXPECT_EQ(p[1], 1048576.0f);
}

TEST(Reduce, ManyEqualTermsLoseNothing) {
  std::vector<float> x((1 << 24) + 3, 0.1f);
  float sum;
  reduce(ReduceOp::Sum, DType::F32, x.data(), &sum, 1, static_cast<std::int64_t>(x.size()), 1);
  EXPECT_NEAR(sum, 0.1f * static_cast<double>(x.size()), 4) << "naive adding stops at 2^21";
  std::vector<float> column(4);
  reduce(ReduceOp::Sum, DType::F32, x.data(), column.data(), 1, 1 << 22, 4);
  for (float c : column) EXPECT_NEAR(c, 0.1f * 4194304.0, 1);
}

TEST(Reduce, NanWinsAndEmptyGivesIdentity) {
  for (std::int64_t inner : {1, 3}) {
    for (std::int64_t at : {0, 50, 99}) {
      std::vector<float> x(static_cast<std::size_t>(100 * inner), 1.0f), got(static_cast<std::size_t>(inner));
      x[static_cast<std::size_t>(at * inner)] = NAN;
      reduce(ReduceOp::Max, DType::F32, x.data(), got.data(), 1, 100, inner);
      EXPECT_TRUE(std::isnan(got[0]));
      reduce(ReduceOp::Min, DType::F32, x.data(), got.data(), 1, 100, inner);
      EXPECT_TRUE(std::isnan(got[0]));
      if (inner > 1) {
        EXPECT_EQ(got[1], 1.0f);
      }
    }
  }
  float f[2];
  reduce(ReduceOp::Max, DType::F32, nullptr, f, 2, 0, 1);
  EXPECT_EQ(f[1], -INFINITY);
  reduce(ReduceOp::Prod, DType::F32, nullptr, f, 1, 0, 2);
  EXPECT_EQ(f[1], 1.0f);
  std::uint8_t b;
  reduce(ReduceOp::And, DType::Bool, nullptr, &b, 1, 0, 1);
  EXPECT_EQ(b, 1);
  EXPECT_THROW(reduce(ReduceOp::And, DType::F32, f, f, 1, 1, 1), UnimplementedError);
}

TEST(Reduce, BoolAndComplex) {
  std::vector<std::uint8_t> x(3000, 0);
  x[1500] = 1;
  std::uint8_t r[3];
  reduce(ReduceOp::Or, DType::Bool, x.data(), r, 3, 1000, 1);
  EXPECT_EQ(r[0] + 2 * r[1] + 4 * r[2], 2);
  reduce(ReduceOp::Min, DType::Bool, x.data(), r, 3, 1000, 1);
  EXPECT_EQ(r[1], 0);
  std::vector<complex64_t> z(100, {1, 1}), s(2);
  reduce(ReduceOp::Sum, DType::C64, z.data(), s.data(), 1, 50, 2);
  EXPECT_EQ(s[1], complex64_t(50, 50));
  reduce(ReduceOp::Prod, DType::C64, z.data(), s.data(), 2, 8, 1);
  EXPECT_EQ(s[0], complex64_t(16, 0));
}

// A NaN that larger and smaller numbers follow, in each lane and remainder.
template <class T>
void check_nan_anywhere() {
  for (std::int64_t n : {1, 3, 17, 32, 63, 64, 100, 129}) {
    for (std::int64_t at = 0; at < n; ++at) {
      auto x = values<T>(n, 7);
      x[static_cast<std::size_t>(at)] = std::numeric_limits<T>::quiet_NaN();
      for (auto op : {ReduceOp::Max, ReduceOp::Min, ReduceOp::Sum, ReduceOp::Prod}) {
        T got = 0;
        reduce(op, dtype_of<T>(), x.data(), &got, 1, n, 1);
        ASSERT_TRUE(std::isnan(got)) << "n = " << n << ", NaN at " << at << ", op " << static_cast<int>(op);
      }
    }
  }
}
TEST(Reduce, NanIsFoundAnywhere) {
  check_nan_anywhere<float>();
  check_nan_anywhere<double>();
}

TEST(ArgReduce, FirstOfEqualsAndNanWins) {
  for (std::int64_t inner : {1, 4}) {
    auto x = values<float>(5 * 101 * inner, 9);
    x[static_cast<std::size_t>((101 + 70) * inner)] = NAN;
    x[static_cast<std::size_t>((101 + 80) * inner)] = NAN;
    for (bool largest : {true, false}) {
      std::vector<std::int32_t> got(static_cast<std::size_t>(5 * inner));
      std::vector<std::int64_t> wide(got.size());
      arg_reduce(largest, DType::F32, DType::I32, x.data(), got.data(), 5, 101, inner);
      arg_reduce(largest, DType::F32, DType::I64, x.data(), wide.data(), 5, 101, inner);
      for (std::int64_t o = 0; o < 5; ++o) {
        for (std::int64_t i = 0; i < inner; ++i) {
          std::int64_t best = 0;
          auto at = [&](std::int64_t r) { return x[static_cast<std::size_t>((o * 101 + r) * inner + i)]; };
          for (std::int64_t r = 1; r < 101; ++r) {
            if (std::isnan(at(best))) break;
            if (std::isnan(at(r)) || (largest ? at(r) > at(best) : at(r) < at(best))) best = r;
          }
          ASSERT_EQ(got[static_cast<std::size_t>(o * inner + i)], best);
          ASSERT_EQ(wide[static_cast<std::size_t>(o * inner + i)], best);
        }
      }
    }
  }
  std::vector<std::uint8_t> b = {0, 1, 1};
  std::int32_t r;
  arg_reduce(true, DType::Bool, DType::I32, b.data(), &r, 1, 3, 1);
  EXPECT_EQ(r, 1);
}

TEST(Cumulative, ForwardAndReverse) {
  for (bool reverse : {false, true}) {
    for (std::int64_t inner : {1, 3}) {
      auto x = values<std::int32_t>(4 * 50 * inner, 3);
      std::vector<std::int32_t> sum(x.size()), top(x.size());
      cumulative(ScanOp::Sum, DType::I32, reverse, x.data(), sum.data(), 4, 50, inner);
      cumulative(ScanOp::Max, DType::I32, reverse, x.data(), top.data(), 4, 50, inner);
      for (std::int64_t o = 0; o < 4; ++o) {
        for (std::int64_t i = 0; i < inner; ++i) {
          std::uint32_t s = 0;
          std::int32_t m = std::numeric_limits<std::int32_t>::min();
          for (std::int64_t k = 0; k < 50; ++k) {
            auto at = static_cast<std::size_t>((o * 50 + (reverse ? 49 - k : k)) * inner + i);
            s += static_cast<std::uint32_t>(x[at]);
            m = std::max(m, x[at]);
            ASSERT_EQ(sum[at], static_cast<std::int32_t>(s));
            ASSERT_EQ(top[at], m);
          }
        }
      }
    }
  }
  std::vector<float> x = {1, 2, -INFINITY, 3, NAN, 0}, r(6);
  cumulative(ScanOp::LogSumExp, DType::F32, false, x.data(), r.data(), 1, 6, 1);
  EXPECT_NEAR(r[1], std::log(std::exp(1.0) + std::exp(2.0)), 1e-6);
  EXPECT_NEAR(r[3], std::log(std::exp(1.0) + std::exp(2.0) + std::exp(3.0)), 1e-6);
  EXPECT_TRUE(std::isnan(r[5]));
  cumulative(ScanOp::Min, DType::F32, false, x.data(), r.data(), 1, 6, 1);
  EXPECT_EQ(r[3], -INFINITY);
  EXPECT_TRUE(std::isnan(r[4]) && std::isnan(r[5]));
  std::vector<bfloat16_t> h(300, bfloat16_t(1.0f)), t(300);
  cumulative(ScanOp::Sum, DType::BF16, false, h.data(), t.data(), 1, 300, 1);
  EXPECT_EQ(float(t[299]), 300.0f);
  EXPECT_THROW(cumulative(ScanOp::LogSumExp, DType::I32, false, x.data(), r.data(), 1, 1, 1), UnimplementedError);
}

}  // namespace
}  // namespace tessera::kernels
