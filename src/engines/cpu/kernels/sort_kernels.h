// SPDX-License-Identifier: Apache-2.0
// Stable sorts and largest elements along rows.
#pragma once

#include <cstdint>

#include "tessera/dtype.h"

namespace tessera::kernels {

/// Sorts each of `rows` rows of `n` contiguous elements in ascending order into `out` (which may be `in`). Stable, in
/// lax.sort's order: -0 equals 0, NaNs are equal to each other and last, complex numbers by real then imaginary part,
/// false before true. Equal elements keep their bits and their order. Any dtype.
void sort_rows(DType dtype, const void* in, void* out, std::int64_t rows, std::int64_t n);

/// Positions that sort each row: `in[permutation[0]] <= in[permutation[1]] <= ...`, stable. When `refine` is set,
/// `permutation` holds an order to begin with, which equal elements keep: to sort by several keys, sort by the last
/// first. n is at most 2^31 - 1.
void sort_permutation(DType dtype, const void* in, std::int32_t* permutation, bool refine, std::int64_t rows,
                      std::int64_t n);

/// The `k` largest elements of each row, largest first, and their positions; the first of equal elements first, 0
/// before -0, NaN largest of all. Real dtypes; throws `UnimplementedError` for complex ones. k <= n.
void top_k(DType dtype, const void* in, std::int64_t rows, std::int64_t n, std::int64_t k, void* values,
           std::int32_t* positions);

}  // namespace tessera::kernels
