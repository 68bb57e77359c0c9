// SPDX-License-Identifier: Apache-2.0
// Matrix products.
#pragma once

#include <cstdint>

#include "tessera/dtype.h"

namespace tessera::kernels {

/// c[i] = op(a[i]) op(b[i]) for i < batch, row-major: op(a) is m x k, op(b) k x n, c m x n. Without `trans_a`, row r of
/// a starts at element r * lda; with it, a is stored k x m and its row r starts there. Batch item i starts `stride_*`
/// elements after item i - 1 (0 shares one matrix). Any dtypes: inputs of dtype `in`, sums in `out`, but f16 and bf16
/// results are summed in f32, and Bool is or of ands. Integer sums wrap. k = 0 gives zeros.
/// `add`: the products are added to what c holds; F32 from F32 alone, and not in a fixed order.
/// `fixed_order`: every element is summed in an order that depends on k alone (kernels/fixed_order.h).
void gemm(DType in, DType out, bool trans_a, bool trans_b, std::int64_t batch, std::int64_t m, std::int64_t n,
          std::int64_t k, const void* a, std::int64_t lda, std::int64_t stride_a, const void* b, std::int64_t ldb,
          std::int64_t stride_b, void* c, std::int64_t ldc, std::int64_t stride_c, bool fixed_order = false,
          bool add = false);

}  // namespace tessera::kernels
