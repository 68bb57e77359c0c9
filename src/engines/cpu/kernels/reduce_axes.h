// SPDX-License-Identifier: Apache-2.0
// Reductions, positions of extremes and running totals along the middle of [outer, red, inner].
#pragma once

#include <cstdint>

#include "tessera/dtype.h"

namespace tessera::kernels {

enum class ReduceOp : std::uint8_t { Sum, Prod, Max, Min, And, Or };

/// out[o, i] = op over r of in[o, r, i]; the identity of `op` when `red` is 0. Contiguous, row-major.
/// Every dtype with Sum, Prod; real dtypes with Max, Min (NaN wins); integers and Bool with And, Or (bitwise). On Bool,
/// Sum and Max are or, Prod and Min are and. Floats add pairwise over blocks whose size does not depend on the number
/// of threads, so results are reproducible; f16 and bf16 accumulate in f32. Throws `UnimplementedError` otherwise.
void reduce(ReduceOp op, DType dtype, const void* in, void* out, std::int64_t outer, std::int64_t red,
            std::int64_t inner);

/// Writes the element that `reduce` gives for `red` = 0 (one element of `dtype`).
void reduce_identity(ReduceOp op, DType dtype, void* out);

/// Position along `red` of the first largest (smallest) element, as I32 or I64; the first NaN wins. Real dtypes, Bool.
/// `red` is at least 1. Throws `UnimplementedError` for other dtypes.
void arg_reduce(bool largest, DType dtype, DType index_dtype, const void* in, void* out, std::int64_t outer,
                std::int64_t red, std::int64_t inner);

enum class ScanOp : std::uint8_t { Sum, Prod, Max, Min, LogSumExp };

/// Running totals along `red`, from the first element or, when `reverse`, from the last. LogSumExp takes float dtypes,
/// Max and Min real dtypes, Sum and Prod all but Bool. Throws `UnimplementedError` otherwise.
void cumulative(ScanOp op, DType dtype, bool reverse, const void* in, void* out, std::int64_t outer, std::int64_t red,
                std::int64_t inner);

}  // namespace tessera::kernels
