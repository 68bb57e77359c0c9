// SPDX-License-Identifier: Apache-2.0
// Products and decompositions called by several threads at the same time. A BLAS that was built without threads may
// have no locks either, and then gives wrong values now and then.
#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <thread>

#include "engines/cpu/kernels/products/gemm_leaf.h"
#include "engines/cpu/kernels/products/linalg_kernels.h"

namespace tessera::kernels {
namespace {

std::vector<double> integers(std::size_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<double> out(n);
  for (auto& x : out) x = static_cast<double>(random() % 7) - 3;
  return out;
}

// How many results of four threads differ from that of one alone.
int differing(int rounds, const std::function<std::vector<double>()>& f) {
  const std::vector<double> expected = f();
  std::vector<int> bad(4);
  std::vector<std::thread> threads;
  for (auto& count : bad) {
    threads.emplace_back([&] {
      for (int i = 0; i < rounds; ++i) count += f() == expected ? 0 : 1;
    });
  }
  for (auto& t : threads) t.join();
  return bad[0] + bad[1] + bad[2] + bad[3];
}

TEST(AtOnce, ProductsOfDoubles) {
  constexpr std::int64_t n = 120;
  auto a = integers(n * n, 1);
  auto b = integers(n * n, 2);
  GemmShape s{false, true, n, n, n, n, n, n};
  EXPECT_EQ(differing(1500,
                      [&] {
                        std::vector<double> c(n * n);
                        gemm_blas(DType::F64, s, a.data(), b.data(), c.data());
                        return c;
                      }),
            0);
}

TEST(AtOnce, SmallProductsOfFloats) {
  constexpr std::int64_t n = 60;  // OpenBLAS's, where larger ones are oneDNN's
  auto of = [](const std::vector<double>& v) { return std::vector<float>(v.begin(), v.end()); };
  auto a = of(integers(n * n, 1));
  auto b = of(integers(n * n, 2));
  GemmShape s{true, false, n, n, n, n, n, n};
  EXPECT_EQ(differing(5000,
                      [&] {
                        std::vector<float> c(n * n);
                        gemm_f32(s, a.data(), b.data(), c.data(), false);
                        return std::vector<double>(c.begin(), c.end());
                      }),
            0);
}

TEST(AtOnce, CholeskyFactors) {
  constexpr std::int64_t n = 90;
  auto a = integers(n * n, 3);
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t j = 0; j < i; ++j)
      a[static_cast<std::size_t>(j * n + i)] = a[static_cast<std::size_t>(i * n + j)];
    a[static_cast<std::size_t>(i * n + i)] = 1000;
  }
  EXPECT_EQ(differing(500,
                      [&] {
                        std::vector<double> out(n * n);
                        cholesky(DType::F64, true, 1, n, a.data(), out.data());
                        return out;
                      }),
            0);
}

}  // namespace
}  // namespace tessera::kernels
