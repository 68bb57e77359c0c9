// SPDX-License-Identifier: Apache-2.0
// Which row of a table each row of the windows of a gather or scatter is.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>
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
  /// Whether each position of the innermost dimension has one index, the next one's follows it, and it counts rows.
  bool plain() const {
    return components.size() == 1 && components[0].row_step == 1 && dims.back().index_step == 1 &&
           dims.back().row_step == 0;
  }
  /// Calls `f(index, row, n)` for the stretches of positions along the innermost dimension: where the indices of the
  /// first one begin, and its row but for them.
  template <class F>
  void for_each_stretch(std::int64_t begin, std::int64_t end, const F& f) const {
    std::vector<std::int64_t> position(dims.size());
    std::int64_t rest = begin;
    std::int64_t index = 0, row = 0;
    for (std::size_t d = dims.size(); d-- > 0; rest /= dims[d].size) {
      position[d] = rest % dims[d].size;
      index += position[d] * dims[d].index_step;
      row += position[d] * dims[d].row_step;
    }
    const Dim& inner = dims.back();
    while (begin < end) {
      const std::int64_t n = std::min(inner.size - position.back(), end - begin);
      f(index, row, n);
      begin += n;
      index -= position.back() * inner.index_step;
      row -= position.back() * inner.row_step;
      position.back() = 0;
      for (std::size_t d = dims.size() - 1; d-- > 0;) {
        const Dim& dim = dims[d];
        index += dim.index_step;
        row += dim.row_step;
        if (++position[d] < dim.size) break;
        index -= dim.size * dim.index_step;
        row -= dim.size * dim.row_step;
        position[d] = 0;
      }
    }
  }
};

/// Indices of 64 unsigned bits beyond those of int64 are as far out of range as any.
template <class I>
std::int64_t wide_index(I index) {
  if constexpr (std::is_same_v<I, std::uint64_t>) {
    return static_cast<std::int64_t>(std::min(index, std::uint64_t{1} << 62));
  } else {
    return static_cast<std::int64_t>(index);
  }
}
inline bool outside(std::int64_t index, std::int64_t last) {
  return static_cast<std::uint64_t>(index) > static_cast<std::uint64_t>(last);
}

}  // namespace tessera::kernels
