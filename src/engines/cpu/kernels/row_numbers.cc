// SPDX-License-Identifier: Apache-2.0
#include "engines/cpu/kernels/row_numbers.h"

#include <algorithm>

#include "base/strings.h"
#include "core/with_type.h"
#include "tessera/error.h"

namespace tessera::kernels {

namespace {

// Positions 0..n-1 of one dimension whose first window row has `row` as its row but for the indices.
template <class I>
void find_line(const RowNumbers& p, const RowNumbers::Dim& dim, const I* index, std::int64_t row, std::int64_t n,
               std::int64_t* rows) {
  if (p.components.size() == 1 && dim.index_step != 0) {
    const RowNumbers::Component c = p.components[0];
    index += c.offset;
    if (p.plain() && p.drop) {  // half of the time of the loop with steps
      for (std::int64_t i = 0; i < n; ++i) {
        const std::int64_t at = wide_index(index[i]);
        rows[i] = outside(at, c.last) ? -1 : row + at;
      }
    } else if (p.plain()) {
      for (std::int64_t i = 0; i < n; ++i) rows[i] = row + std::clamp<std::int64_t>(wide_index(index[i]), 0, c.last);
    } else if (p.drop) {
      for (std::int64_t i = 0; i < n; ++i) {
        const std::int64_t at = wide_index(index[i * dim.index_step]);
        rows[i] = outside(at, c.last) ? -1 : row + i * dim.row_step + at * c.row_step;
      }
    } else {
      for (std::int64_t i = 0; i < n; ++i) {
        const std::int64_t at = std::clamp<std::int64_t>(wide_index(index[i * dim.index_step]), 0, c.last);
        rows[i] = row + i * dim.row_step + at * c.row_step;
      }
    }
    return;
  }
  auto of_window = [&](const I* first) {
    std::int64_t sum = 0;
    for (const RowNumbers::Component& c : p.components) {
      const std::int64_t at = wide_index(first[c.offset]);
      if (p.drop && outside(at, c.last)) return std::int64_t{-1};
      sum += std::clamp<std::int64_t>(at, 0, c.last) * c.row_step;
    }
    return sum;
  };
  std::int64_t sum = n > 0 ? of_window(index) : 0;
  for (std::int64_t i = 0; i < n; ++i) {
    if (dim.index_step != 0) sum = of_window(index + i * dim.index_step);
    rows[i] = sum < 0 ? -1 : row + i * dim.row_step + sum;
  }
}

template <class I>
void find_rows(const RowNumbers& p, const I* indices, std::int64_t begin, std::int64_t end, std::int64_t* rows) {
  p.for_each_stretch(begin, end, [&](std::int64_t index, std::int64_t row, std::int64_t n) {
    find_line(p, p.dims.back(), indices + index, row, n, rows);
    rows += n;
  });
}

}  // namespace

void RowNumbers::simplify() {
  if (!is_integer(index_dtype)) {
    throw TypeError(str("RowNumbers: index_dtype = ", dtype_name(index_dtype), "; expected a dtype of integers"));
  }
  std::vector<Dim> merged;
  for (const Dim& d : dims) {
    if (d.size == 1) continue;
    if (!merged.empty() && merged.back().index_step == d.size * d.index_step &&
        merged.back().row_step == d.size * d.row_step) {
      merged.back() = {merged.back().size * d.size, d.index_step, d.row_step};
    } else {
      merged.push_back(d);
    }
  }
  if (merged.empty()) merged.emplace_back();
  dims = std::move(merged);
}

std::int64_t RowNumbers::size() const {
  std::int64_t n = 1;
  for (const Dim& d : dims) n *= d.size;
  return n;
}

void RowNumbers::find(const void* indices, std::int64_t begin, std::int64_t end, std::int64_t* rows) const {
  core::with_type(index_dtype, [&]<class T>() {
    if constexpr (std::is_integral_v<T>) find_rows(*this, static_cast<const T*>(indices), begin, end, rows);
  });
}

}  // namespace tessera::kernels
