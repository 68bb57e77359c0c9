// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <compare>
#include <complex>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <span>
#include <vector>

#include "engines/cpu/kernels/sort_kernels.h"
#include "support/series.h"
#include "tessera/error.h"

namespace tessera::kernels {
namespace {

template <class T>
struct IsComplex : std::false_type {};
template <class T>
struct IsComplex<std::complex<T>> : std::true_type {};

// lax.sort's order, from its words.
template <class T>
bool before(T a, T b) {
  if constexpr (IsComplex<T>::value) {
    if (before(a.real(), b.real())) return true;
    return !before(b.real(), a.real()) && before(a.imag(), b.imag());
  } else if constexpr (std::is_integral_v<T>) {
    return a < b;
  } else {
    auto x = static_cast<double>(a), y = static_cast<double>(b);
    return std::isnan(y) ? !std::isnan(x) : x < y;
  }
}

template <class T>
std::vector<T> values(std::int64_t n, unsigned seed, bool many_equal) {
  std::mt19937 rng(seed);
  std::vector<T> v(static_cast<std::size_t>(n));
  for (auto& x : v) {
    if constexpr (std::is_integral_v<T>) {
      x = static_cast<T>(many_equal ? rng() % 5 : (static_cast<std::uint64_t>(rng()) << 32 | rng()));
    } else if constexpr (IsComplex<T>::value) {
      x = T(static_cast<float>(rng() % 5) - 2.0f, rng() % 9 == 0 ? NAN : static_cast<float>(rng() % 100) - 50.0f);
    } else {
      std::uint32_t kind = rng() % 20;
      float f = many_equal ? static_cast<float>(rng() % 4) - 2.0f : (static_cast<float>(rng()) - 2e9f) * 1e-4f;
      x = T(kind == 0 ? 0.0f : kind == 1 ? -0.0f : kind == 2 ? NAN : kind == 3 ? -NAN : kind == 4 ? -INFINITY : f);
    }
  }
  return v;
}

template <class T>
void check(DType type, std::int64_t rows, std::int64_t n, bool many_equal) {
  auto x = values<T>(rows * n, 11, many_equal);
  auto sorted = x;
  std::vector<std::int32_t> p(x.size());
  sort_rows(type, x.data(), sorted.data(), rows, n);
  sort_permutation(type, x.data(), p.data(), false, rows, n);
  for (std::int64_t r = 0; r < rows; ++r) {
    const T* row = x.data() + r * n;
    std::vector<std::int32_t> want(static_cast<std::size_t>(n));
    std::iota(want.begin(), want.end(), 0);
    std::stable_sort(want.begin(), want.end(), [&](auto i, auto j) { return before(row[i], row[j]); });
    for (std::int64_t i = 0; i < n; ++i) {
      auto at = static_cast<std::size_t>(r * n + i);
      ASSERT_EQ(p[at], want[static_cast<std::size_t>(i)]) << dtype_name(type) << " n " << n << " at " << i;
      ASSERT_EQ(0, std::memcmp(&sorted[at], &row[want[static_cast<std::size_t>(i)]], sizeof(T)))
          << dtype_name(type) << " bits at " << i;
    }
  }
  sort_rows(type, x.data(), x.data(), rows, n);  // in place
  // Not by memcmp, which takes no null pointer even for nothing: not-a-number must compare by its bits all the same.
  auto bytes = [](const auto& v) { return std::as_bytes(std::span(v)); };
  ASSERT_TRUE(std::ranges::equal(bytes(x), bytes(sorted)));
}

template <class T>
void check_sizes(DType type) {
  for (bool equal : {false, true}) {
    for (std::int64_t n : {0, 1, 2, 31, 512, 513, 3000, 9000}) check<T>(type, 3, n, equal);
    if (equal || test::case_stride() == 1) check<T>(type, 1, 70001, equal);
  }
}

TEST(Sort, EveryDtype) {
  check_sizes<float>(DType::F32);
  check_sizes<double>(DType::F64);
  check_sizes<float16_t>(DType::F16);
  check_sizes<bfloat16_t>(DType::BF16);
  check_sizes<std::int8_t>(DType::I8);
  check_sizes<std::uint8_t>(DType::U8);
  check_sizes<std::int16_t>(DType::I16);
  check_sizes<std::uint16_t>(DType::U16);
  check_sizes<std::int32_t>(DType::I32);
  check_sizes<std::uint32_t>(DType::U32);
  check_sizes<std::int64_t>(DType::I64);
  check_sizes<std::uint64_t>(DType::U64);
  check_sizes<complex64_t>(DType::C64);
  check_sizes<complex128_t>(DType::C128);
}

TEST(Sort, BoolBytes) {
  std::vector<std::uint8_t> x = {1, 0, 1, 0, 0}, r(5);
  sort_rows(DType::Bool, x.data(), r.data(), 1, 5);
  EXPECT_EQ(r, (std::vector<std::uint8_t>{0, 0, 0, 1, 1}));
}

TEST(Sort, SeveralKeysByRefining) {
  std::int64_t n = 2000;
  auto first = values<std::int32_t>(n, 1, true);
  auto second = values<float>(n, 2, true);
  std::vector<std::int32_t> p(static_cast<std::size_t>(n));
  sort_permutation(DType::F32, second.data(), p.data(), false, 1, n);
  sort_permutation(DType::I32, first.data(), p.data(), true, 1, n);
  std::vector<std::int32_t> want(p.size());
  std::iota(want.begin(), want.end(), 0);
  std::stable_sort(want.begin(), want.end(), [&](auto i, auto j) {
    auto a = static_cast<std::size_t>(i), b = static_cast<std::size_t>(j);
    return first[a] != first[b] ? first[a] < first[b] : before(second[a], second[b]);
  });
  EXPECT_EQ(p, want);
}

TEST(TopK, LargestFirstFirstOfEquals) {
  for (std::int64_t k : {1, 3, 100, 257}) {
    auto x = values<float>(4 * 257, 3, true);
    std::vector<float> v(static_cast<std::size_t>(4 * k));
    std::vector<std::int32_t> p(v.size());
    top_k(DType::F32, x.data(), 4, 257, k, v.data(), p.data());
    for (std::int64_t r = 0; r < 4; ++r) {
      const float* row = x.data() + r * 257;
      std::vector<std::int32_t> want(257);
      std::iota(want.begin(), want.end(), 0);
      std::stable_sort(want.begin(), want.end(), [&](auto i, auto j) { return std::strong_order(row[j], row[i]) < 0; });
      for (std::int64_t i = 0; i < k; ++i) {
        ASSERT_EQ(p[static_cast<std::size_t>(r * k + i)], want[static_cast<std::size_t>(i)]);
        ASSERT_EQ(0, std::memcmp(&v[static_cast<std::size_t>(r * k + i)], &row[want[static_cast<std::size_t>(i)]], 4));
      }
    }
  }
}

// Rows at whose ends, or everywhere, are larger elements than before, and rows of few different ones.
template <class T>
void check_top(DType type) {
  std::mt19937 rng(5);
  auto total_order = [](T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      return a <=> b;
    } else {
      // A wider number of the same value and sign; all NaNs here are of one kind for each sign.
      return std::strong_order(static_cast<double>(a), static_cast<double>(b));
    }
  };
  for (std::int64_t n : {1, 2, 33, 64, 200, 257, 1024, 5003}) {
    for (std::int64_t k : {std::int64_t{1}, std::int64_t{2}, std::int64_t{8}, std::int64_t{65}, n / 2, n - 1, n}) {
      if (k < 1 || k > n) continue;
      for (int kind = 0; kind < 4; ++kind) {
        auto x = values<T>(2 * n, rng(), kind == 1);
        if (kind >= 2) {
          std::sort(x.begin(), x.end(),
                    [&](T a, T b) { return kind == 2 ? total_order(a, b) < 0 : total_order(b, a) < 0; });
        }
        std::vector<T> v(static_cast<std::size_t>(2 * k));
        std::vector<std::int32_t> p(v.size());
        top_k(type, x.data(), 2, n, k, v.data(), p.data());
        for (std::int64_t r = 0; r < 2; ++r) {
          const T* row = x.data() + r * n;
          std::vector<std::int32_t> want(static_cast<std::size_t>(n));
          std::iota(want.begin(), want.end(), 0);
          std::stable_sort(want.begin(), want.end(), [&](auto i, auto j) { return total_order(row[j], row[i]) < 0; });
          for (std::int64_t i = 0; i < k; ++i) {
            const auto at = static_cast<std::size_t>(r * k + i);
            ASSERT_EQ(p[at], want[static_cast<std::size_t>(i)]) << dtype_name(type) << " n " << n << " k " << k;
            ASSERT_EQ(0, std::memcmp(&v[at], &row[p[at]], sizeof(T)));
          }
        }
      }
    }
  }
}

TEST(TopK, RowsOfAllKinds) {
  check_top<float>(DType::F32);
  check_top<double>(DType::F64);
  check_top<float16_t>(DType::F16);
  check_top<bfloat16_t>(DType::BF16);
  check_top<std::int8_t>(DType::I8);
  check_top<std::uint8_t>(DType::U8);
  check_top<std::int16_t>(DType::I16);
  check_top<std::uint16_t>(DType::U16);
  check_top<std::int32_t>(DType::I32);
  check_top<std::uint32_t>(DType::U32);
  check_top<std::int64_t>(DType::I64);
  check_top<std::uint64_t>(DType::U64);
}

TEST(TopK, ComplexNumbersHaveNoOrder) {
  EXPECT_THROW(top_k(DType::C64, nullptr, 1, 1, 1, nullptr, nullptr), UnimplementedError);
}

}  // namespace
}  // namespace tessera::kernels
