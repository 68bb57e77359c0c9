// SPDX-License-Identifier: Apache-2.0
// Integer quotients and remainders, which vectors compute as floats: beside multiples of the divisor, at the ends of
// the range and for divisors that have no quotient.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

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

}  // namespace
}  // namespace tessera::kernels
