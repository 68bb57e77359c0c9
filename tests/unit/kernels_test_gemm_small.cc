// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <type_traits>
#include <vector>

#include "engines/cpu/kernels/products/gemm.h"
#include "engines/cpu/kernels/products/gemm_small.h"

namespace tessera::kernels {
namespace {

// A batch of products with gaps between rows and items.
template <class T>
struct SmallProducts {
  GemmShape s;
  GemmBatch batch;
  std::vector<T> a, b, c;

  static std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

  SmallProducts(std::mt19937& rng, std::int64_t most, bool eighths) {
    auto up_to = [&](std::int64_t n) { return static_cast<std::int64_t>(rng() % static_cast<unsigned>(n)); };
    const bool ta = up_to(2) == 1, tb = up_to(2) == 1;
    const std::int64_t m = 1 + up_to(most), n = 1 + up_to(most), k = 1 + up_to(most);
    s = {ta, tb, m, n, k, (ta ? m : k) + up_to(3), (tb ? k : n) + up_to(3), n + up_to(3)};
    batch = {1 + up_to(40), s.lda * (ta ? k : m) + up_to(3), s.ldb * (tb ? n : k) + up_to(3), s.ldc * m + up_to(3)};
    if (up_to(4) == 0) batch.stride_a = 0;
    if (up_to(4) == 0) batch.stride_b = 0;
    auto fill = [&](std::vector<T>& v, std::int64_t rows, std::int64_t row, std::int64_t stride) {
      v.resize(at((batch.count - 1) * stride + rows * row));
      for (auto& x : v) {
        x = eighths ? static_cast<T>(up_to(17) - 8) / 8 : std::uniform_real_distribution<T>(-1, 1)(rng);
      }
    };
    fill(a, ta ? k : m, s.lda, batch.stride_a);
    fill(b, tb ? n : k, s.ldb, batch.stride_b);
    fill(c, m, s.ldc, batch.stride_c);
  }

  // Sums of eighths are exact.
  std::vector<T> expected(bool add) const {
    std::vector<T> out = c;
    for (std::int64_t i = 0; i < batch.count; ++i) {
      for (std::int64_t r = 0; r < s.m; ++r) {
        for (std::int64_t j = 0; j < s.n; ++j) {
          T& to = out[at(i * batch.stride_c + r * s.ldc + j)];
          T sum = add ? to : 0;
          for (std::int64_t p = 0; p < s.k; ++p) {
            sum += a[at(i * batch.stride_a + (s.trans_a ? p * s.lda + r : r * s.lda + p))] *
                   b[at(i * batch.stride_b + (s.trans_b ? j * s.ldb + p : p * s.ldb + j))];
          }
          to = sum;
        }
      }
    }
    return out;
  }

  void run(std::vector<T>& to, std::int64_t begin, std::int64_t end, bool add) const {
    gemm_small(dtype_of<T>(), s, {end - begin, batch.stride_a, batch.stride_b, batch.stride_c},
               a.data() + begin * batch.stride_a, b.data() + begin * batch.stride_b, to.data() + begin * batch.stride_c,
               add);
  }
};

template <class T>
void check_small_products(bool add) {
  std::mt19937 rng(7);
  int suited = 0;
  for (int round = 0; round < 600; ++round) {
    SmallProducts<T> p(rng, round % 2 == 0 ? 7 : 40, true);
    const auto want = p.expected(add);
    if (suits_small(dtype_of<T>(), p.s)) {
      ++suited;
      auto got = p.c;
      p.run(got, 0, p.batch.count, add);
      ASSERT_EQ(got, want) << p.batch.count << " of " << p.s.m << "x" << p.s.n << "x" << p.s.k
                           << (p.s.trans_a ? " T" : " N") << (p.s.trans_b ? "T" : "N");
    }
    if (add && !std::is_same_v<T, float>) continue;
    auto all = p.c;
    gemm(dtype_of<T>(), dtype_of<T>(), p.s.trans_a, p.s.trans_b, p.batch.count, p.s.m, p.s.n, p.s.k, p.a.data(),
         p.s.lda, p.batch.stride_a, p.b.data(), p.s.ldb, p.batch.stride_b, all.data(), p.s.ldc, p.batch.stride_c, false,
         add);
    ASSERT_EQ(all, want);
  }
  EXPECT_GT(suited, 300);
}

TEST(GemmSmall, IsTheProduct) {
  check_small_products<float>(false);
  check_small_products<double>(false);
}

TEST(GemmSmall, Adds) {
  check_small_products<float>(true);
  check_small_products<double>(true);
}

template <class T>
void check_small_cuts() {
  std::mt19937 rng(11);
  for (int round = 0; round < 200; ++round) {
    SmallProducts<T> p(rng, round % 2 == 0 ? 6 : 20, false);
    if (!suits_small(dtype_of<T>(), p.s)) continue;
    auto whole = p.c, cut = p.c;
    p.run(whole, 0, p.batch.count, false);
    for (std::int64_t i = 0; i < p.batch.count;) {
      const std::int64_t end = std::min<std::int64_t>(p.batch.count, i + 1 + static_cast<std::int64_t>(rng() % 12));
      p.run(cut, i, end, false);
      i = end;
    }
    ASSERT_EQ(std::memcmp(whole.data(), cut.data(), whole.size() * sizeof(T)), 0) << round;
  }
}

TEST(GemmSmall, BitsDoNotDependOnWhereTheBatchIsCut) {
  check_small_cuts<float>();
  check_small_cuts<double>();
}

TEST(GemmSmall, KeepsSpecialValues) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  // Two products of 2x2: infinity times zero, and a sum of negative zeros, which is positive as it begins at zero.
  const float a[] = {inf, 0, nan, 1, -0.0F, 0, 1, inf}, b[] = {0, 1, 1, 1, 1, 1, 1, 1};
  float c[8];
  gemm(DType::F32, DType::F32, false, false, 2, 2, 2, 2, a, 2, 4, b, 2, 4, c, 2, 4);
  for (int i : {0, 2, 3}) EXPECT_TRUE(std::isnan(c[i])) << i;
  EXPECT_EQ(c[1], inf);
  for (int i : {4, 5}) EXPECT_TRUE(c[i] == 0 && !std::signbit(c[i])) << i;
  for (int i : {6, 7}) EXPECT_EQ(c[i], inf) << i;
}

}  // namespace
}  // namespace tessera::kernels
