// SPDX-License-Identifier: Apache-2.0
// Kernels that fused programs put in the place of several steps; f32 only.
#pragma once

#include <cstdint>

#include "engines/cpu/kernels/elementwise/elementwise_kernels.h"

namespace tessera::kernels {

/// (a first b) second c, or with `left` false c second (a first b). Of operands whose bit is set in `scalars` only the
/// first element is read. Null for other ops than Add, Sub and Mul, and where a and b are both such operands.
EwFn find_joined(EwOp first, EwOp second, bool left, int scalars);

/// a op b where one of the two is such an operand; null for other ops than Add, Sub, Mul and Div.
EwFn find_scalar_operand(EwOp op, int scalars);

/// Row r of `out` is row r of `a` op b[r]; `out` may be `a`. Null for other ops than Add, Sub, Mul and Div.
using EwRowFn = void (*)(const void* a, const void* b, void* out, std::int64_t rows, std::int64_t cols);
EwRowFn find_row_operand(EwOp op);

}  // namespace tessera::kernels
