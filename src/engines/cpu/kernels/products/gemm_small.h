// SPDX-License-Identifier: Apache-2.0
// Products of matrices that are so small, or so narrow, that a library's call costs more than it gains.
#pragma once

#include <cstdint>

#include "engines/cpu/kernels/products/gemm_leaf.h"
#include "tessera/dtype.h"

namespace tessera::kernels {

/// Products that follow each other through memory, a stride apart in each operand (0 shares one matrix).
struct GemmBatch {
  std::int64_t count, stride_a, stride_b, stride_c;
};

/// Whether `gemm_small` has the dtype and room for the shape, and is the faster one. That depends on the shape alone,
/// so that a batch has the same sums however it is cut.
bool suits_small(DType t, const GemmShape& s);
/// Nanoseconds that one product of a shape that suits takes, more or less.
double small_cost(DType t, const GemmShape& s);

/// F32 or F64, where that `suits_small`, on the calling thread. Every element is summed along k from the first product
/// to the last. With `add` the sums are added to c.
void gemm_small(DType t, const GemmShape& s, const GemmBatch& batch, const void* a, const void* b, void* c, bool add);

}  // namespace tessera::kernels
