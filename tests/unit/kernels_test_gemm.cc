// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <complex>
#include <random>
#include <thread>
#include <type_traits>
#include <vector>

#include "engines/cpu/kernels/products/gemm.h"
#include "support/series.h"

namespace tessera::kernels {
namespace {

template <class T>
std::vector<T> values(std::int64_t n, unsigned seed) {
  std::mt19937 rng(seed);
  std::vector<T> v(static_cast<std::size_t>(n));
  for (auto& x : v) {
    if constexpr (std::is_integral_v<T>) {
      x = static_cast<T>(rng());
    } else if constexpr (std::is_class_v<T> && !std::is_convertible_v<T, float>) {
      x = T(static_cast<float>(rng() % 9) - 4, static_cast<float>(rng() % 9) - 4);
    } else {
      x = static_cast<T>(static_cast<float>(rng() % 17) / 8.0f - 1.0f);
    }
  }
  return v;
}

template <class T>
auto widen(T v) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<std::uint64_t>(v);
  } else if constexpr (std::is_class_v<T> && !std::is_convertible_v<T, float>) {
    return std::complex<double>(v);
  } else {
    return static_cast<double>(v);
  }
}

struct Size {
  std::int64_t batch, m, n, k;
};

template <class In, class Out>
void check(Size z, bool ta, bool tb, double tolerance, bool share_b = false, std::int64_t gap = 2) {
  std::int64_t lda = (ta ? z.m : z.k) + 3, ldb = (tb ? z.k : z.n) + 1, ldc = z.n + gap;
  std::int64_t sa = lda * (ta ? z.k : z.m) + 5, sb = share_b ? 0 : ldb * (tb ? z.n : z.k), sc = ldc * z.m;
  auto a = values<In>(sa * z.batch, 1), b = values<In>((share_b ? ldb * (tb ? z.n : z.k) : sb * z.batch), 2);
  std::vector<Out> c(static_cast<std::size_t>(sc * z.batch), Out(7));
  gemm(dtype_of<In>(), dtype_of<Out>(), ta, tb, z.batch, z.m, z.n, z.k, a.data(), lda, sa, b.data(), ldb, sb, c.data(),
       ldc, sc);
  for (std::int64_t i = 0; i < z.batch; ++i) {
    for (std::int64_t r = 0; r < z.m; ++r) {
      for (std::int64_t j = 0; j < z.n; ++j) {
        decltype(widen(Out())) want{};
        for (std::int64_t p = 0; p < z.k; ++p) {
          want += widen(a[static_cast<std::size_t>(i * sa + (ta ? p * lda + r : r * lda + p))]) *
                  widen(b[static_cast<std::size_t>(i * sb + (tb ? j * ldb + p : p * ldb + j))]);
        }
        Out got = c[static_cast<std::size_t>(i * sc + r * ldc + j)];
        if constexpr (std::is_same_v<Out, bool>) {
          ASSERT_EQ(got, want != 0);
        } else if constexpr (std::is_integral_v<Out>) {
          ASSERT_EQ(got, static_cast<Out>(want)) << r << ", " << j;
        } else {
          ASSERT_LE(std::abs(widen(got) - want), tolerance * (1 + std::abs(want)))
              << dtype_name(dtype_of<In>()) << " " << z.m << "x" << z.n << "x" << z.k << (ta ? " T" : " N")
              << (tb ? "T " : "N ") << r << ", " << j;
        }
      }
      // The gap between rows belongs to somebody else.
      if (gap > 0) {
        ASSERT_EQ(c[static_cast<std::size_t>(i * sc + r * ldc + z.n)], Out(7));
      }
    }
  }
}

const Size kSizes[] = {{1, 1, 1, 1},    {1, 5, 7, 3},      {3, 33, 17, 65}, {1, 1, 70, 40},   {1, 70, 1, 40},
                       {5, 64, 64, 64}, {1, 200, 131, 90}, {9, 2, 3, 300},  {2, 260, 40, 150}};

template <class In, class Out>
void check_all(double tolerance) {
  int combination = 0;  // under sanitizers one in three, so that each of the four forms comes with some sizes
  for (const Size& z : kSizes) {
    for (bool ta : {false, true}) {
      for (bool tb : {false, true}) {
        if (combination++ % test::case_stride(3) == 0) check<In, Out>(z, ta, tb, tolerance);
      }
    }
  }
  check<In, Out>({4, 20, 30, 10}, false, false, tolerance, true);
}

TEST(Gemm, Float) {
  check_all<float, float>(1e-6);
  check<float, float>({1, 520, 300, 260}, false, false, 1e-6);
  check<float, float>({1, 100, 2, 600}, false, true, 1e-6);
  check<float, float>({2, 150, 160, 170}, true, true, 1e-6);
  check<float, float>({1, 9001, 19, 17}, false, false, 1e-6);
  check<float, float>({1, 5003, 33, 70}, true, true, 1e-6);
}
// Matrices that are stored by columns times vectors, whose results have no gaps.
TEST(Gemm, VectorsWeighColumns) {
  for (const Size& z : {Size{37, 128, 1, 4}, Size{1, 128, 1, 4}, Size{5, 9, 1, 31}, Size{3, 1000, 1, 40}}) {
    for (bool share : {false, true}) {
      check<float, float>(z, true, false, 1e-6, share, 0);
      check<float, float>(z, true, true, 1e-6, share, 0);
      check<double, double>(z, true, false, 1e-14, share, 0);
    }
  }
}
TEST(Gemm, Double) { check_all<double, double>(1e-14); }
TEST(Gemm, Complex) {
  check_all<complex64_t, complex64_t>(1e-5);
  check_all<complex128_t, complex128_t>(1e-13);
}
TEST(Gemm, Halves) {
  check_all<bfloat16_t, float>(1e-5);
  check_all<bfloat16_t, bfloat16_t>(5e-3);
  check_all<float16_t, float16_t>(1e-3);
  check_all<float16_t, float>(1e-5);
}
TEST(Gemm, Integers) {
  check_all<std::int32_t, std::int32_t>(0);
  check_all<std::int8_t, std::int32_t>(0);
  check<std::int8_t, std::int32_t>({1, 300, 200, 500}, false, false, 0);
  check<std::int8_t, std::int8_t>({2, 30, 20, 50}, false, true, 0);
  check_all<std::uint8_t, std::uint8_t>(0);
  check_all<std::int16_t, std::int16_t>(0);
  check_all<std::int64_t, std::int64_t>(0);
}

TEST(Gemm, BoolIsOrOfAnds) {
  std::uint8_t a[] = {1, 0, 1, 0, 0, 0}, b[] = {0, 1, 1, 1, 1, 0}, c[4];
  gemm(DType::Bool, DType::Bool, false, false, 1, 2, 2, 3, a, 3, 0, b, 2, 0, c, 2, 0);
  EXPECT_EQ(std::vector<int>(c, c + 4), (std::vector<int>{1, 1, 0, 0}));
}

TEST(Gemm, EmptySumIsZero) {
  float c[6] = {1, 2, 3, 4, 5, 6};
  gemm(DType::F32, DType::F32, false, false, 1, 2, 2, 0, nullptr, 0, 0, nullptr, 2, 0, c, 3, 0);
  EXPECT_EQ(std::vector<float>(c, c + 6), (std::vector<float>{0, 0, 3, 0, 0, 6}));
  gemm(DType::F32, DType::F32, false, false, 1, 0, 2, 5, nullptr, 5, 0, nullptr, 2, 0, c, 2, 0);
  EXPECT_EQ(c[0], 0);
}

TEST(Gemm, SeveralThreadsAtOnce) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([] {
      for (int i = 0; i < 3; ++i) {
        check<float, float>({1, 140, 130, 120}, false, false, 1e-6);
        check<bfloat16_t, float>({1, 65, 66, 67}, false, true, 1e-5);
        check<double, double>({2, 50, 60, 70}, true, false, 1e-14);
      }
    });
  }
  for (auto& t : threads) t.join();
}

}  // namespace
}  // namespace tessera::kernels
