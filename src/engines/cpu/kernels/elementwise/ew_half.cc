// SPDX-License-Identifier: Apache-2.0
// f16 and bf16: blocks are widened to f32, the f32 kernel runs, the result is rounded back.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <utility>

#include "engines/cpu/kernels/elementwise/ew_find.h"

namespace tessera::kernels {

namespace {

constexpr std::int64_t kHalfBlock = 256;

template <DType H>
void run(EwFn fn, int arity, const void* a, const void* b, const void* c, void* out, bool widens, std::int64_t n) {
  alignas(64) float buffers[3][kHalfBlock];
  const void* operands[3] = {a, b, c};
  for (std::int64_t at = 0; at < n; at += kHalfBlock) {
    std::int64_t m = std::min(kHalfBlock, n - at);
    for (int i = 0; i < arity; ++i) {
      half_to_f32(H, static_cast<const std::uint16_t*>(operands[i]) + at, buffers[i], m);
    }
    if (widens) {  // the result is not a half: comparisons
      fn(buffers[0], buffers[1], buffers[2], static_cast<std::uint8_t*>(out) + at, m);
    } else {
      fn(buffers[0], buffers[1], buffers[2], buffers[0], m);
      f32_to_half(H, buffers[0], static_cast<std::uint16_t*>(out) + at, m);
    }
  }
}

// The f32 kernel is looked up again for every call: a switch, small beside a block.
template <EwOp Op, DType H>
void half_op(const void* a, const void* b, const void* c, void* out, std::int64_t n) {
  run<H>(find_f32(Op), ew_arity(Op), a, b, c, out, false, n);
}
template <EwOp Op, DType H>
void half_compare(const void* a, const void* b, const void* c, void* out, std::int64_t n) {
  run<H>(find_compare(Op, DType::F32), ew_arity(Op), a, b, c, out, true, n);
}

// The neighbour in the half's own spacing, not f32's.
template <DType H>
void half_nextafter(const void* a, const void* b, const void*, void* out, std::int64_t n) {
  const auto* x = static_cast<const std::uint16_t*>(a);
  const auto* y = static_cast<const std::uint16_t*>(b);
  auto* r = static_cast<std::uint16_t*>(out);
  for (std::int64_t i = 0; i < n; ++i) {
    float from, to;
    half_to_f32(H, x + i, &from, 1);
    half_to_f32(H, y + i, &to, 1);
    std::uint16_t sign = x[i] & 0x8000u;
    if (std::isnan(from) || std::isnan(to)) {
      r[i] = H == DType::BF16 ? 0x7fc0 : 0x7e00;
    } else if (from == to) {
      r[i] = y[i];
    } else if (from == 0) {
      r[i] = static_cast<std::uint16_t>((y[i] & 0x8000u) | 1u);
    } else {
      r[i] = static_cast<std::uint16_t>((from < to) == (sign == 0) ? x[i] + 1 : x[i] - 1);
    }
  }
}

template <DType H, std::size_t... I>
constexpr std::array<EwFn, sizeof...(I)> op_table(std::index_sequence<I...>) {
  return {half_op<static_cast<EwOp>(I), H>...};
}
template <DType H, std::size_t... I>
constexpr std::array<EwFn, sizeof...(I)> compare_table(std::index_sequence<I...>) {
  return {half_compare<static_cast<EwOp>(I), H>...};
}

template <DType H>
EwFn find(EwOp op, DType out) {
  constexpr auto kAll = std::make_index_sequence<static_cast<std::size_t>(kNumEwOps)>();
  static constexpr auto kOps = op_table<H>(kAll);
  static constexpr auto kCompares = compare_table<H>(kAll);
  auto i = static_cast<std::size_t>(op);
  if (out == DType::Bool) return find_compare(op, DType::F32) ? kCompares[i] : nullptr;
  if (op == EwOp::Nextafter) return half_nextafter<H>;
  return find_f32(op) ? kOps[i] : nullptr;
}

}  // namespace

EwFn find_half(EwOp op, DType in, DType out) {
  if (out != in && out != DType::Bool) return nullptr;
  return in == DType::F16 ? find<DType::F16>(op, out) : find<DType::BF16>(op, out);
}

}  // namespace tessera::kernels
