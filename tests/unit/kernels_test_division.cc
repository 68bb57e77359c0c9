// SPDX-License-Identifier: Apache-2.0
// Integer quotients and remainders, which vectors compute as floats: beside multiples of the divisor, at the ends of
// the range and for divisors that have no quotient.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "engines/cpu/kernels/compiled/fragment.h"
#include "engines/cpu/kernels/elementwise/elementwise_kernels.h"
#include "engines/cpu/kernels/elementwise/fused.h"
#include "tessera/config.h"

namespace tessera::kernels {
namespace {

template <class T>
struct Divisions {
  std::vector<T> a, b, quotients, remainders;

  explicit Divisions(std::int64_t random) {
    const T low = std::numeric_limits<T>::min(), high = std::numeric_limits<T>::max();
    std::mt19937_64 rng(3);
    std::vector<T> edges;
    for (int i = -3; i <= 3; ++i) {
      edges.push_back(static_cast<T>(i));
      edges.push_back(wrapping_sum(low, i));
      edges.push_back(static_cast<T>(high / 2 + i));
    }
    for (T x : edges) {
      for (T y : edges) add(x, y);
    }
    for (std::int64_t i = 0; i < random; ++i) {
      const auto bits = static_cast<unsigned>(rng() % (sizeof(T) * 8));
      const auto y = static_cast<T>(static_cast<T>(rng()) >> bits);
      const auto multiple = static_cast<T>(static_cast<std::uint64_t>(rng()) * static_cast<std::uint64_t>(y));
      for (int by = -1; by <= 1; ++by) add(wrapping_sum(multiple, by), y);
      add(static_cast<T>(rng()), y);
    }
  }

 private:
  static T wrapping_sum(T x, int y) {
    return static_cast<T>(static_cast<std::uint64_t>(x) + static_cast<std::uint64_t>(y));
  }
  void add(T x, T y) {
    a.push_back(x);
    b.push_back(y);
    const auto wide_x = static_cast<std::int64_t>(x), wide_y = static_cast<std::int64_t>(y);
    quotients.push_back(y == 0 ? static_cast<T>(-1) : static_cast<T>(wide_x / wide_y));
    remainders.push_back(y == 0 ? x : static_cast<T>(wide_x % wide_y));
  }
};

template <class T>
void check_divisions(std::int64_t random) {
  constexpr DType kT = dtype_of<T>();
  const Divisions<T> d(random);
  const auto n = static_cast<std::int64_t>(d.a.size());
  std::vector<T> q(d.a.size()), r(d.a.size());
  ew_find(EwOp::Div, kT, kT)(d.a.data(), d.b.data(), nullptr, q.data(), n);
  ew_find(EwOp::Rem, kT, kT)(d.a.data(), d.b.data(), nullptr, r.data(), n);
  for (std::size_t i = 0; i < d.a.size(); ++i) {
    ASSERT_EQ(q[i], d.quotients[i]) << dtype_name(kT) << " " << +d.a[i] << " / " << +d.b[i];
    ASSERT_EQ(r[i], d.remainders[i]) << dtype_name(kT) << " " << +d.a[i] << " % " << +d.b[i];
  }
  // Both in a block, which may be machine code: one after the other, of which the second uses the first or does not.
  for (bool code : {false, true}) {
    ConfigScope scope(&Config::compile_blocks, code);
    for (int order = 0; order < 3; ++order) {
      FusedProgram p;
      auto x = p.input(kT, Access::Contiguous), y = p.input(kT, Access::Contiguous);
      auto first = p.op(order == 0 ? EwOp::Div : EwOp::Rem, kT, x, y);
      auto second = order == 2 ? p.op(EwOp::Neg, kT, first) : p.op(order == 0 ? EwOp::Rem : EwOp::Div, kT, x, y);
      p.output(first);
      p.output(second);
      std::vector<T> one(d.a.size()), two(d.a.size());
      const std::array<const void*, 2> in = {d.a.data(), d.b.data()};
      const std::array<void*, 2> out = {one.data(), two.data()};
      FusedKernel(p).run(in, out, 1, n);
      ASSERT_EQ(one, order == 0 ? d.quotients : d.remainders) << dtype_name(kT) << " " << code << order;
      if (order < 2) {
        ASSERT_EQ(two, order == 0 ? d.remainders : d.quotients) << dtype_name(kT) << " " << code << order;
      }
    }
  }
}

TEST(Division, IsExactInFloats) {
  check_divisions<std::int8_t>(2000);
  check_divisions<std::uint8_t>(2000);
  check_divisions<std::int16_t>(100000);
  check_divisions<std::uint16_t>(100000);
  check_divisions<std::int32_t>(200000);
  check_divisions<std::uint32_t>(200000);
}

// A divisor that is the same everywhere.
TEST(Division, OfAScalarInABlock) {
  const Divisions<std::int32_t> d(1000);
  const auto n = static_cast<std::int64_t>(d.a.size());
  for (std::int32_t y : {7, -1, 0, 1, -3, std::numeric_limits<std::int32_t>::min()}) {
    FusedProgram p;
    auto x = p.input(DType::I32, Access::Contiguous), s = p.input(DType::I32, Access::Scalar);
    p.output(p.op(EwOp::Div, DType::I32, x, s));
    p.output(p.op(EwOp::Rem, DType::I32, x, s));
    std::vector<std::int32_t> q(d.a.size()), r(d.a.size());
    const std::array<const void*, 2> in = {d.a.data(), &y};
    const std::array<void*, 2> out = {q.data(), r.data()};
    FusedKernel(p).run(in, out, 1, n);
    for (std::size_t i = 0; i < q.size(); ++i) {
      const auto wide = static_cast<std::int64_t>(d.a[i]);
      ASSERT_EQ(q[i], y == 0 ? -1 : static_cast<std::int32_t>(wide / y)) << d.a[i] << " / " << y;
      ASSERT_EQ(r[i], y == 0 ? d.a[i] : static_cast<std::int32_t>(wide % y)) << d.a[i] << " % " << y;
    }
  }
}

// Divisors that a block knows: code multiplies by what they are the inverse of. Beside their multiples, the largest
// too.
template <class T>
void check_known_divisor(T y, std::mt19937_64& rng) {
  constexpr DType kT = dtype_of<T>();
  const std::int64_t low = std::numeric_limits<T>::min(), high = std::numeric_limits<T>::max();
  const auto wide_y = static_cast<std::int64_t>(y);
  std::vector<T> a;
  auto add = [&](std::int64_t x) {
    for (std::int64_t near = x - 1; near <= x + 1; ++near) {
      if (near >= low && near <= high) a.push_back(static_cast<T>(near));
    }
  };
  for (std::int64_t x : {low, high, std::int64_t{0}}) {
    add(x);
    if (y != 0) add(x / wide_y * wide_y);
  }
  for (int i = 0; i < 300; ++i) {
    const auto x = static_cast<std::int64_t>(static_cast<T>(rng()));
    add(y == 0 ? x : x / wide_y * wide_y);
    add(x >> rng() % 32);
  }
  FusedProgram p;
  auto x = p.input(kT, Access::Contiguous), c = p.constant(kT, &y);
  p.output(p.op(EwOp::Div, kT, x, c));
  p.output(p.op(EwOp::Rem, kT, x, c));
  const auto n = static_cast<std::int64_t>(a.size());
  std::vector<T> q(a.size()), r(a.size());
  const std::array<const void*, 1> in = {a.data()};
  const std::array<void*, 2> out = {q.data(), r.data()};
  const ConfigScope scope(&Config::compile_blocks, true);
  const FusedKernel kernel(p);
  kernel.run(in, out, 1, n);
  ASSERT_EQ(kernel.coverage(1, n).by_kernels, can_compile() ? 0 : 2);
  for (std::size_t i = 0; i < a.size(); ++i) {
    const auto wide = static_cast<std::int64_t>(a[i]);
    ASSERT_EQ(q[i], y == 0 ? static_cast<T>(-1) : static_cast<T>(wide / wide_y)) << +a[i] << " / " << +y;
    ASSERT_EQ(r[i], y == 0 ? a[i] : static_cast<T>(wide % wide_y)) << +a[i] << " % " << +y;
  }
}

template <class T>
void check_known_divisors() {
  std::mt19937_64 rng(11);
  const std::int64_t low = std::numeric_limits<T>::min(), high = std::numeric_limits<T>::max();
  std::vector<std::int64_t> divisors = {low, low + 1, high, high - 1};
  for (int power = 0; power < 32; ++power) {
    for (std::int64_t near = -1; near <= 1; ++near) {
      divisors.push_back((std::int64_t{1} << power) + near);
      divisors.push_back(-(std::int64_t{1} << power) + near);
    }
  }
  for (int i = 0; i < 300; ++i) divisors.push_back(static_cast<std::int64_t>(static_cast<T>(rng())) >> rng() % 32);
  for (std::int64_t y : divisors) {
    if (y < low || y > high) continue;
    check_known_divisor(static_cast<T>(y), rng);
    if (testing::Test::HasFatalFailure()) return;
  }
}

TEST(Division, ByWhatABlockKnowsIsExact) {
  check_known_divisors<std::int32_t>();
  check_known_divisors<std::uint32_t>();
}

}  // namespace
}  // namespace tessera::kernels
