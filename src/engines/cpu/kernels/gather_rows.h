// SPDX-License-Identifier: Apache-2.0
// Rows picked from and added to a table.
#pragma once

#include <cstdint>

#include "tessera/dtype.h"

namespace tessera::kernels {

/// What becomes of an index outside [0, table_rows).
enum class OutOfRange : std::uint8_t {
  Clamp,  // the nearest row
  Skip,   // gather: the row of `fill`, or zeros; scatter: nothing is written
};

/// out[i] = table[indices[i]] for `n` rows of `row_bytes` bytes. `index_dtype` is I32, I64, U32 or U64. `fill` is one
/// row for indices out of range under Skip; zeros when null. Throws `TypeError` for another index dtype.
void gather_rows(const void* table, std::int64_t table_rows, std::int64_t row_bytes, DType index_dtype,
                 const void* indices, std::int64_t n, OutOfRange mode, const void* fill, void* out);

enum class ScatterOp : std::uint8_t { Set, Add, Mul, Max, Min };

/// table[indices[i]] = op(table[indices[i]], updates[i]) for `n` rows of `row_size` elements of `dtype`, in the order
/// of i for equal indices whatever the number of threads. Throws `TypeError` for an index dtype as above,
/// `UnimplementedError` where the dtype lacks the operation.
void scatter_rows(ScatterOp op, DType dtype, void* table, std::int64_t table_rows, std::int64_t row_size,
                  DType index_dtype, const void* indices, std::int64_t n, OutOfRange mode, const void* updates);

}  // namespace tessera::kernels
