// SPDX-License-Identifier: Apache-2.0
// Operands under windows: the same bits as of what they show, laid out.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <random>
#include <vector>

#include "engines/cpu/kernels/elementwise/fused.h"
#include "tessera/error.h"
#include "tessera/shape.h"

namespace tessera::kernels {
namespace {

using Bytes = std::vector<std::byte>;

// Elements that are small whole numbers in any dtype of this size.
Bytes small_numbers(DType t, std::int64_t n, std::mt19937& rng) {
  Bytes out(static_cast<std::size_t>(n * dtype_size(t)));
  for (std::int64_t i = 0; i < n; ++i) {
    const int value = static_cast<int>(rng() % 7) + 1;
    std::byte* to = out.data() + i * dtype_size(t);
    auto put = [&](auto x) { std::memcpy(to, &x, sizeof x); };
    if (t == DType::F32) put(static_cast<float>(value));
    if (t == DType::F64) put(static_cast<double>(value));
    if (t == DType::I8) put(static_cast<std::int8_t>(value));
    if (t == DType::I16) put(static_cast<std::int16_t>(value));
    if (t == DType::BF16) {  // the upper half of a float's bits
      const auto x = static_cast<float>(value);
      put(static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(x) >> 16));
    }
  }
  return out;
}

struct Shown {
  Shape operand;
  Dims low;
};

// What the window shows: an element of the operand, of `edges` in their order, or the fill value.
Bytes laid_out(const Shape& space, const Shown& w, const Bytes& operand, const Bytes& fill, const Bytes& edges,
               std::int64_t size) {
  Bytes out(static_cast<std::size_t>(size_of(space) * size));
  std::int64_t next_edge = 0;
  for (std::int64_t i = 0; i < size_of(space); ++i) {
    std::int64_t rest = i, from = 0, stride = 1;
    bool inside = true;
    for (std::size_t d = space.size(); d-- > 0;) {
      const std::int64_t at = rest % space[d] - w.low[d];
      rest /= space[d];
      inside = inside && at >= 0 && at < w.operand[d];
      from += at * stride;
      stride *= w.operand[d];
    }
    const std::byte* source = inside          ? operand.data() + from * size
                              : edges.empty() ? fill.data()
                                              : edges.data() + next_edge++ * size;
    std::memcpy(out.data() + i * size, source, static_cast<std::size_t>(size));
  }
  return out;
}

struct Space {
  Shape shape;
  std::size_t split;  // dimensions from here on are columns
};
const Space kSpaces[] = {{{1}, 0},         {{40}, 0},          {{5000}, 0},     {{30, 50}, 1},
                         {{3, 70, 33}, 1}, {{3, 70, 33}, 2},   {{64, 1024}, 1}, {{2, 9, 900}, 2},
                         {{12, 5000}, 1},  {{4, 3, 4, 20}, 2}, {{2, 70001}, 1}};

// Of x under a window with a fill value or edges, y under another that lacks nothing, and z as it lies: results of all
// elements and, where the program reduces, of rows.
void check(const Space& space, DType t, bool with_edges, bool reduces, unsigned seed) {
  std::mt19937 rng(seed);
  const std::int64_t size = dtype_size(t);
  const std::size_t rank = space.shape.size();
  Shown x{space.shape, Dims(rank, 0)}, y{space.shape, Dims(rank, 0)};
  std::int64_t edge_elements = 0;
  if (with_edges) {
    const std::size_t d = rng() % rank;
    const auto by = static_cast<std::int64_t>(rng() % static_cast<unsigned>(space.shape[d])) + 1;
    x.low[d] = rng() % 2 == 0 ? by : -by;
    edge_elements = size_of(space.shape) / space.shape[d] * by;
  } else {
    for (std::size_t d = 0; d < rank; ++d) {
      if (rng() % 2 == 0) continue;
      x.operand[d] = std::max<std::int64_t>(0, x.operand[d] + static_cast<std::int64_t>(rng() % 5) - 2);
      x.low[d] = static_cast<std::int64_t>(rng() % 7) - 3;
    }
  }
  for (std::size_t d = 0; d < rank; ++d) {
    if (rng() % 2 == 0) continue;
    y.low[d] = -static_cast<std::int64_t>(rng() % 3);
    y.operand[d] += static_cast<std::int64_t>(rng() % 3) - y.low[d];
  }
  const Bytes of_x = small_numbers(t, size_of(x.operand), rng), of_y = small_numbers(t, size_of(y.operand), rng);
  const Bytes of_z = small_numbers(t, size_of(space.shape), rng), fill = small_numbers(t, 1, rng);
  const Bytes edges = small_numbers(t, edge_elements, rng);
  const Bytes shown_x = laid_out(space.shape, x, of_x, fill, edges, size);
  const Bytes shown_y = laid_out(space.shape, y, of_y, fill, {}, size);

  auto write = [&](FusedProgram& p, FusedProgram::Value a, FusedProgram::Value b, FusedProgram::Value c) {
    auto sum = p.op(EwOp::Sub, t, p.op(EwOp::Mul, t, a, b), c);
    if (reduces) {
      auto top = p.reduce(ReduceOp::Max, sum);
      p.row_output(top);
      sum = p.op(EwOp::Sub, t, sum, top);
    }
    p.output(sum);
    p.output(a);
  };
  FusedProgram windowed, plain;
  auto outside = with_edges ? -1 : windowed.input(t, Access::Scalar);
  auto a = with_edges ? windowed.window_with_edges(t) : windowed.window(t, outside);
  auto b = windowed.window(t);
  write(windowed, a, b, windowed.input(t, Access::Contiguous));
  a = plain.input(t, Access::Contiguous);
  b = plain.input(t, Access::Contiguous);
  write(plain, a, b, plain.input(t, Access::Contiguous));

  std::int64_t outer = 1, inner = 1;
  for (std::size_t d = 0; d < rank; ++d) (d < space.split ? outer : inner) *= space.shape[d];
  auto run = [&](const FusedProgram& p, std::vector<const void*> in, std::vector<Window> windows, bool stream) {
    std::vector<Bytes> out;
    if (reduces) out.emplace_back(static_cast<std::size_t>(outer * size), std::byte{0x55});
    for (int i = 0; i < 2; ++i) out.emplace_back(static_cast<std::size_t>(outer * inner * size), std::byte{0x55});
    std::vector<void*> to;
    for (auto& bytes : out) to.push_back(bytes.data());
    FusedKernel(p).run(in, to, outer, inner, stream, windows);
    return out;
  };
  const std::vector<Window> windows = {Window(space.shape, x.operand, x.low), Window(space.shape, y.operand, y.low)};
  std::vector<const void*> in = {fill.data(), of_x.data(), of_y.data(), of_z.data()};
  if (with_edges) in = {of_x.data(), edges.data(), of_y.data(), of_z.data()};
  for (bool stream : {false, true}) {
    const auto got = run(windowed, in, windows, stream);
    const auto want = run(plain, {shown_x.data(), shown_y.data(), of_z.data()}, {}, stream);
    for (std::size_t o = 0; o < got.size(); ++o) {
      ASSERT_TRUE(got[o] == want[o]) << dtype_name(t) << " seed " << seed << " result " << o << ", edges " << with_edges
                                     << ", reduces " << reduces << ", space of rank " << rank << " and "
                                     << size_of(space.shape) << " elements";
    }
  }
}

TEST(Windows, ShowWhatTheyShowLaidOut) {
  unsigned seed = 0;
  for (const Space& space : kSpaces) {
    for (DType t : {DType::F32, DType::F64, DType::I8, DType::I16, DType::BF16}) {
      for (int round = 0; round < 6; ++round) check(space, t, round % 2 == 0, round % 3 == 0, ++seed);
    }
  }
}

// Operands whose dimensions come in any order, some of them repeated, backwards or with elements left out.
TEST(Windows, TurnRepeatAndStepAlongLines) {
  std::mt19937 rng(77);
  auto below = [&](std::size_t n) { return static_cast<std::int64_t>(rng() % n); };
  for (int round = 0; round < 800; ++round) {
    const DType t = std::vector{DType::F32, DType::F64, DType::I8, DType::I16}[rng() % 4];
    const std::size_t rank = 1 + rng() % 5;
    Shape space(rank);
    std::vector<std::size_t> order(rank);
    for (std::size_t d = 0; d < rank; ++d) {
      space[d] = 1 + below(rng() % 3 == 0 ? 40 : 7);
      order[d] = d;
    }
    if (round % 2 == 0) space[rank - 1] = 16 + below(400);
    for (std::size_t d = 0; size_of(space) > 20'000; ++d) space[d] = 1;
    if (round % 3 != 0) std::shuffle(order.begin(), order.end() - (round % 2 == 0 ? 1 : 0), rng);
    Dims strides(rank, 0);
    std::int64_t size = 1, first = 0;
    const bool steps = rng() % 2 == 0;
    for (std::size_t k = rank; k-- > 0;) {
      if (rng() % 3 == 0) continue;
      const std::int64_t extent = space[order[k]], step = steps ? 1 + below(4) : 1;
      const std::int64_t before = steps ? below(3) : 0, after = steps ? below(3) : 0;
      const bool backwards = steps && rng() % 3 == 0;
      first += size * (before + (backwards ? (extent - 1) * step : 0));
      strides[order[k]] = backwards ? -size * step : size * step;
      size *= before + (extent - 1) * step + 1 + after;
    }
    const std::int64_t item = dtype_size(t), n = size_of(space);
    const Bytes operand = small_numbers(t, size, rng), other = small_numbers(t, n, rng);
    Bytes shown(static_cast<std::size_t>(n * item));
    for (std::int64_t i = 0; i < n; ++i) {
      std::int64_t rest = i, from = first;
      for (std::size_t d = rank; d-- > 0;) {
        from += rest % space[d] * strides[d];
        rest /= space[d];
      }
      std::memcpy(shown.data() + i * item, operand.data() + from * item, static_cast<std::size_t>(item));
    }
    const std::size_t split = rng() % rank;
    std::int64_t outer = 1, inner = 1;
    for (std::size_t d = 0; d < rank; ++d) (d < split ? outer : inner) *= space[d];
    const std::vector<Window> windows = {Window(space, strides, first)};
    auto run = [&](bool windowed) {
      FusedProgram p;
      auto a = windowed ? p.window(t) : p.input(t, Access::Contiguous);
      auto product = p.op(EwOp::Mul, t, a, p.input(t, Access::Contiguous));
      auto top = p.reduce(ReduceOp::Max, product);
      p.row_output(top);
      p.output(p.op(EwOp::Sub, t, product, top));
      std::vector<Bytes> out = {Bytes(static_cast<std::size_t>(outer * item)), Bytes(shown.size())};
      const std::vector<const void*> in = {windowed ? operand.data() : shown.data(), other.data()};
      const std::vector<void*> to = {out[0].data(), out[1].data()};
      FusedKernel(p).run(in, to, outer, inner, false, windowed ? windows : std::vector<Window>());
      return out;
    };
    ASSERT_EQ(run(true), run(false)) << "round " << round << ", " << dtype_name(t) << ", rank " << rank;
  }
}

TEST(Windows, TakeNumbersOfTheirDtypeAlone) {
  FusedProgram p;
  EXPECT_THROW(p.window(DType::F32, p.input(DType::I32, Access::Scalar)), TypeError);
  EXPECT_THROW(p.window(DType::F32, p.input(DType::F32, Access::Contiguous)), TypeError);
}

}  // namespace
}  // namespace tessera::kernels
