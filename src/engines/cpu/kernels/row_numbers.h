// SPDX-License-Identifier: Apache-2.0
// Which row of a table each row of the windows of a gather or scatter is.
#pragma once

#include <cstdint>
#include <vector>

#include "tessera/dtype.h"
#include "tessera/shape.h"

namespace tessera::kernels {

/// Rows of windows, row-major over `dims`, as rows of a table: a sum of strides and of indices read from an array.
struct RowNumbers {
  struct Dim {
    std::int64_t size = 1;
    std::int64_t index_step = 0;  ///< elements of the index array from one position to the next
    std::int64_t row_step = 0;    ///< rows of the table
  };
  /// One index: where it is beside the first one of its window, the greatest one in range, rows for each unit.
  struct Component {
    std::int64_t offset = 0;
    std::int64_t last = 0;
    std::int64_t row_step = 0;
  };
  std::vector<Dim> dims;  ///< outermost first
  std::vector<Component> components;
  bool drop = false;  ///< an index out of range drops the row; otherwise it counts as the nearest one in range
  DType index_dtype = DType::I32;

  /// Takes neighbouring dimensions for one where both steps allow it. Throws `TypeError` unless indices are integers.
  void simplify();
  std::int64_t size() const;
  /// rows[i] is the table's row of row `begin + i` of the windows, for i < end - begin; -1 where it is dropped.
  /// Needs `simplify` first.
  void find(const void* indices, std::int64_t begin, std::int64_t end, std::int64_t* rows) const;
};

}  // namespace tessera::kernels
