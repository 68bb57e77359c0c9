// SPDX-License-Identifier: Apache-2.0
// Sums and products of floats whose order depends on the length that is summed over and on nothing else: not on the
// other extents, the number of threads or the machine's caches. For the deterministic mode; slower than the others.
#pragma once

#include <cstdint>

#include "engines/cpu/kernels/products/gemm_leaf.h"
#include "engines/cpu/kernels/reduce_axes.h"

namespace tessera::kernels {

/// As `reduce`, for Sum and Prod of inexact dtypes. Elements r, r + 16, … are added up in blocks of 2,048, those
/// sixteen sums in a binary tree, and blocks in a binary tree.
void reduce_fixed(ReduceOp op, DType dtype, const void* in, void* out, std::int64_t outer, std::int64_t red,
                  std::int64_t inner);

/// F32, F64, C64 or C128: every element is summed along k alone, in blocks of 256.
void gemm_fixed(DType t, const GemmShape& s, const void* a, const void* b, void* c);

}  // namespace tessera::kernels
