// SPDX-License-Identifier: Apache-2.0
// Element-wise kernels: one function per (op, dtype) over contiguous elements, for the best instruction set present.
#pragma once

#include <cstdint>
#include <iterator>
#include <vector>

#include "tessera/dtype.h"

namespace tessera::kernels {

/// Semantics follow XLA's CPU: integer x / 0 is -1 and x % 0 is x, shifts by the width or more give 0 (or the sign),
/// max and min propagate NaN, float to integer saturates with NaN giving 0, anything to bool is `!= 0`.
enum class EwOp : std::uint8_t {
#define TESSERA_EW(kernel, arity, op) kernel,
#include "engines/cpu/kernels/elementwise/ew_kernels.def"
};
inline constexpr int kEwArities[] = {
#define TESSERA_EW(kernel, arity, op) arity,
#include "engines/cpu/kernels/elementwise/ew_kernels.def"
};
inline constexpr int kNumEwOps = static_cast<int>(std::size(kEwArities));

/// Operands that `op` reads: 1, 2 or 3.
constexpr int ew_arity(EwOp op) { return kEwArities[static_cast<int>(op)]; }

/// `n` elements of each operand, contiguous, to `n` elements of `out`. Operands that the op does not read may be null.
/// `out` may be one of the operands when their elements have the same size; otherwise nothing overlaps.
using EwFn = void (*)(const void* a, const void* b, const void* c, void* out, std::int64_t n);

/// The kernel of `op` for data operands of `in_dtype` (for Select, the values chosen from) and results of `out_dtype`;
/// null when that combination does not exist. Comparisons and IsFinite give Bool, Abs, Real and Imag of complex the
/// real dtype, Complex takes the real dtype, Convert takes any pair, everything else gives `in_dtype`.
/// Bool elements are bytes 0 or 1.
EwFn ew_find(EwOp op, DType in_dtype, DType out_dtype);

constexpr bool is_half(DType t) { return t == DType::F16 || t == DType::BF16; }

/// `n` elements of F16 or BF16 as F32.
std::vector<float> widen_halves(DType half, const void* in, std::int64_t n);

}  // namespace tessera::kernels
