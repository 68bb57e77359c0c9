// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <initializer_list>
#include <limits>
#include <random>
#include <vector>

#include "engines/cpu/kernels/window_kernels.h"
#include "tessera/error.h"

namespace tessera::kernels {
namespace {

using Dims = std::vector<std::int64_t>;

template <class T>
std::vector<T> values(std::int64_t n) {
  std::mt19937 rng(5);
  std::vector<T> v(static_cast<std::size_t>(n));
  for (auto& x : v) x = static_cast<T>(static_cast<int>(rng() % 9) - 4);
  return v;
}

std::int64_t product(const Dims& d) {
  std::int64_t n = 1;
  for (auto e : d) n *= e;
  return n;
}

bool step(const Dims& shape, Dims& index) {
  for (std::size_t i = shape.size(); i-- > 0;) {
    if (++index[i] < shape[i]) return true;
    index[i] = 0;
  }
  return false;
}

// Flat positions of the operand that the window at `o` covers, in order.
std::vector<std::size_t> covered(const WindowSpec& s, const Dims& o) {
  std::vector<std::size_t> result;
  Dims k(s.window.size(), 0);
  do {
    std::int64_t flat = 0;
    bool inside = true;
    for (std::size_t d = 0; d < k.size(); ++d) {
      std::int64_t at = o[d] * s.strides[d] - s.pad_low[d] + k[d] * s.window_dilation[d];
      inside &= at >= 0 && at % s.base_dilation[d] == 0 && at / s.base_dilation[d] < s.in_shape[d];
      flat = flat * s.in_shape[d] + at / s.base_dilation[d];
    }
    if (inside) result.push_back(static_cast<std::size_t>(flat));
  } while (step(s.window, k));
  return result;
}

std::vector<WindowSpec> specs() {
  return {{{10}, {3}, {1}, {0}, {0}, {1}, {1}},
          {{2, 9, 8, 3}, {1, 3, 2, 1}, {1, 2, 2, 1}, {0, 1, 0, 0}, {0, 1, 1, 0}, {1, 1, 1, 1}, {1, 1, 1, 1}},
          {{2, 3, 7, 9}, {1, 1, 2, 3}, {1, 1, 1, 2}, {0, 0, 3, 2}, {0, 0, 1, 4}, {1, 1, 2, 1}, {1, 1, 1, 2}},
          {{5, 6}, {2, 9}, {2, 1}, {-1, 4}, {2, 0}, {1, 2}, {2, 1}},
          {{4}, {2}, {1}, {5}, {5}, {1}, {1}},
          {{3}, {5}, {1}, {0}, {0}, {1}, {1}},
          {{}, {}, {}, {}, {}, {}, {}}};
}

template <class T, class F>
void check_one(const WindowSpec& s, ReduceOp op, T init, F f) {
  auto x = values<T>(product(s.in_shape));
  const Dims out_shape = window_out_shape(s);
  std::vector<T> got(static_cast<std::size_t>(product(out_shape)));
  reduce_window(op, dtype_of<T>(), s, x.data(), &init, got.data());
  if (got.empty()) return;
  Dims o(out_shape.size(), 0);
  std::size_t at = 0;
  do {
    T want = init;
    for (std::size_t i : covered(s, o)) want = static_cast<T>(f(want, x[i]));
    ASSERT_EQ(got[at], want) << "rank " << s.window.size() << " at " << at;
    ++at;
  } while (step(out_shape, o));
}

template <class T, class F>
void check(ReduceOp op, T init, F f) {
  for (const WindowSpec& s : specs()) check_one(s, op, init, f);
}

TEST(ReduceWindow, AgainstTheDefinition) {
  check<float>(ReduceOp::Sum, 0.5f, [](float a, float b) { return a + b; });
  check<float>(ReduceOp::Max, -INFINITY, [](float a, float b) { return std::max(a, b); });
  check<double>(ReduceOp::Min, 2.0, [](double a, double b) { return std::min(a, b); });
  check<std::int32_t>(ReduceOp::Prod, 1, [](auto a, auto b) {
    return static_cast<std::int32_t>(static_cast<std::uint32_t>(a) * static_cast<std::uint32_t>(b));
  });
  check<std::uint8_t>(ReduceOp::Or, 0, [](auto a, auto b) { return a | b; });
  check<bfloat16_t>(ReduceOp::Max, bfloat16_t(-100.0f), [](float a, float b) { return bfloat16_t(std::max(a, b)); });
}

WindowSpec random_spec(std::mt19937& rng) {
  WindowSpec s;
  auto one_of = [&](std::initializer_list<std::int64_t> values) { return values.begin()[rng() % values.size()]; };
  const auto rank = 1 + rng() % 4;
  for (unsigned d = 0; d < rank; ++d) {
    const bool plain = rng() % 3 == 0;
    s.in_shape.push_back(rng() % 40 == 0 ? 0 : one_of({1, 2, 5, 9, 12, 17, 33}));
    s.window.push_back(plain ? 1 : one_of({1, 2, 3, 5}));
    s.strides.push_back(plain ? 1 : one_of({1, 1, 2, 3, 4}));
    s.pad_low.push_back(plain ? 0 : one_of({0, 0, 1, 3, -1}));
    s.pad_high.push_back(plain ? 0 : one_of({0, 0, 2, 6, -1}));
    s.base_dilation.push_back(plain ? 1 : one_of({1, 1, 2, 3, 6}));
    s.window_dilation.push_back(plain ? 1 : one_of({1, 1, 2, 3}));
  }
  return s;
}

TEST(ReduceWindow, OfAnyShape) {
  std::mt19937 rng(17);
  for (int round = 0; round < 400; ++round) {
    const WindowSpec s = random_spec(rng);
    if (product(window_out_shape(s)) * product(s.window) > 60000) continue;  // the definition takes its time
    check_one<float>(s, ReduceOp::Sum, 0.0F, [](float a, float b) { return a + b; });
    check_one<float>(s, ReduceOp::Max, -INFINITY, [](float a, float b) { return std::max(a, b); });
    check_one<std::int8_t>(s, ReduceOp::Min, 1, [](auto a, auto b) { return std::min(a, b); });
    check_one<std::int64_t>(s, ReduceOp::Sum, 3, [](auto a, auto b) { return a + b; });
    check_one<bfloat16_t>(s, ReduceOp::Sum, bfloat16_t(1.0F), [](float a, float b) { return bfloat16_t(a + b); });
    check_one<complex128_t>(s, ReduceOp::Sum, complex128_t(1), [](auto a, auto b) { return a + b; });
    if (HasFatalFailure()) return;
  }
}

// Dims whose rest is too large for a cache, rows that are longer than a block and windows as long as their dim.
TEST(ReduceWindow, OfLargeShapes) {
  const std::vector<WindowSpec> large = {
      {{3, 5, 90000}, {2, 3, 3}, {1, 2, 2}, {1, 0, 1}, {0, 1, 1}, {1, 1, 1}, {1, 1, 1}},
      {{3, 400, 300}, {2, 1, 2}, {1, 1, 1}, {0, 0, 0}, {0, 0, 0}, {1, 1, 1}, {1, 1, 1}},
      {{20011}, {2}, {2}, {0}, {0}, {1}, {1}},
      {{9001, 1}, {5, 1}, {1, 1}, {2, 0}, {2, 0}, {1, 1}, {1, 1}},
      {{700}, {700}, {1}, {699}, {0}, {1}, {1}}};
  for (const WindowSpec& s : large) {
    check_one<float>(s, ReduceOp::Sum, 0.0F, [](float a, float b) { return a + b; });
    check_one<std::int32_t>(s, ReduceOp::Max, -100, [](auto a, auto b) { return std::max(a, b); });
    if (HasFatalFailure()) return;
  }
}

TEST(ReduceWindow, KeepsSignsOfZerosAndNan) {
  const WindowSpec s{{6}, {2}, {2}, {0}, {0}, {1}, {1}};
  const float x[] = {-0.0F, -0.0F, NAN, 1, -INFINITY, -INFINITY};
  float got[3];
  for (float init : {0.0F, -0.0F}) {
    reduce_window(ReduceOp::Sum, DType::F32, s, x, &init, got);
    EXPECT_EQ(got[0], 0);
    EXPECT_EQ(std::signbit(got[0]), std::signbit(init));
    EXPECT_TRUE(std::isnan(got[1]));
    EXPECT_EQ(got[2], -INFINITY);
  }
  const float low = -INFINITY;
  reduce_window(ReduceOp::Max, DType::F32, s, x, &low, got);
  EXPECT_TRUE(std::signbit(got[0]));
  EXPECT_TRUE(std::isnan(got[1]));
  EXPECT_EQ(got[2], -INFINITY);
}

TEST(ReduceWindow, Refuses) {
  WindowSpec s{{2}, {1}, {1}, {0}, {0}, {1}, {1}};
  float x[2] = {}, y[2];
  EXPECT_THROW(reduce_window(ReduceOp::And, DType::F32, s, x, x, y), UnimplementedError);
  EXPECT_THROW(select_and_scatter_add(true, DType::C64, s, x, x, x, y), UnimplementedError);
}

template <class T>
void check_scatter(bool largest) {
  auto all = specs();
  std::mt19937 rng(23);
  while (all.size() < 120) {
    all.push_back(random_spec(rng));
    if (product(window_out_shape(all.back())) * product(all.back().window) > 40000) all.pop_back();
  }
  all.push_back({{5, 300}, {2, 1}, {1, 1}, {0, 0}, {0, 0}, {1, 1}, {1, 1}});
  for (const WindowSpec& s : all) {
    auto x = values<T>(product(s.in_shape));
    Dims out_shape = window_out_shape(s);
    std::vector<T> source(static_cast<std::size_t>(product(out_shape)));
    for (std::size_t i = 0; i < source.size(); ++i) source[i] = static_cast<T>(static_cast<int>(i % 5));
    T init = static_cast<T>(2);
    std::vector<T> got(x.size()), want(x.size(), init);
    select_and_scatter_add(largest, dtype_of<T>(), s, x.data(), source.data(), &init, got.data());
    Dims o(out_shape.size(), 0);
    for (std::size_t w = 0; w < source.size(); ++w) {
      std::ptrdiff_t chosen = -1;
      for (std::size_t i : covered(s, o)) {
        if (chosen < 0 ||
            (largest ? x[i] > x[static_cast<std::size_t>(chosen)] : x[i] < x[static_cast<std::size_t>(chosen)]))
          chosen = static_cast<std::ptrdiff_t>(i);
      }
      if (chosen >= 0)
        want[static_cast<std::size_t>(chosen)] = static_cast<T>(want[static_cast<std::size_t>(chosen)] + source[w]);
      step(out_shape, o);
    }
    ASSERT_EQ(got, want) << "rank " << s.window.size();
  }
}

TEST(SelectAndScatter, AgainstTheDefinition) {
  check_scatter<float>(true);
  check_scatter<float>(false);
  check_scatter<double>(true);
  check_scatter<std::int16_t>(true);
}

// jax.grad of the sum of a max pool of [1, nan, 2, 0] with window 2 gives [0, 1, 2, 0].
TEST(SelectAndScatter, NanAsInXla) {
  WindowSpec s{{4}, {2}, {1}, {0}, {0}, {1}, {1}};
  float x[] = {1, NAN, 2, 0}, source[] = {1, 1, 1}, init = 0, got[4];
  select_and_scatter_add(true, DType::F32, s, x, source, &init, got);
  EXPECT_EQ(std::vector<float>(got, got + 4), (std::vector<float>{0, 1, 2, 0}));
}

}  // namespace
}  // namespace tessera::kernels
