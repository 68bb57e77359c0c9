// SPDX-License-Identifier: Apache-2.0
// The loops under reduce.h and the row reductions of fused.h. All accumulate in `accumulator_dtype`.
#pragma once

#include <cstdint>

#include "engines/cpu/kernels/reduce_axes.h"

namespace tessera::kernels {

/// f32 for the half types, else the dtype itself.
constexpr DType accumulator_dtype(DType t) { return t == DType::F16 || t == DType::BF16 ? DType::F32 : t; }

/// out[r] = op over the `cols` contiguous elements of row r; rows follow each other without gaps.
using RowReduceFn = void (*)(const void* in, void* out, std::int64_t rows, std::int64_t cols);
/// acc[j] = op(acc[j], in[r * stride + j]) for j < cols and all `rows` rows. Strides in elements.
using ColReduceFn = void (*)(void* acc, const void* in, std::int64_t rows, std::int64_t cols, std::int64_t stride);

struct ReduceFns {
  RowReduceFn row = nullptr;  // input of the dtype, output of the accumulator dtype
  ColReduceFn col = nullptr;
};

/// Both null when the combination does not exist.
ReduceFns find_reduce(ReduceOp op, DType dtype);

}  // namespace tessera::kernels
