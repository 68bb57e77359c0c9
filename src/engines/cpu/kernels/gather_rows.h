// SPDX-License-Identifier: Apache-2.0
// Rows picked from and added to a table.
#pragma once

#include <cstdint>

#include "engines/cpu/kernels/row_numbers.h"
#include "tessera/dtype.h"

namespace tessera::kernels {

/// out[i] = table[rows[i]] for every row of `rows`, of `row_bytes` bytes each. `fill` is one row for those that are
/// dropped; zeros when null.
void gather_rows(const void* table, std::int64_t row_bytes, const RowNumbers& rows, const void* indices,
                 const void* fill, void* out);

enum class ScatterOp : std::uint8_t { Set, Add, Mul, Max, Min };

/// table[rows[i]] = op(table[rows[i]], updates[i]) for every row of `rows`, of `row_size` elements of `dtype`, in the
/// order of i for equal ones whatever the number of threads. `table_rows` are all that the table has. Throws
/// `UnimplementedError` where the dtype lacks the operation.
void scatter_rows(ScatterOp op, DType dtype, void* table, std::int64_t table_rows, std::int64_t row_size,
                  const RowNumbers& rows, const void* indices, const void* updates);

}  // namespace tessera::kernels
