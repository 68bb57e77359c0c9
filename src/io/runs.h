// SPDX-License-Identifier: Apache-2.0
// Blocks of stored arrays as runs of consecutive bytes.
#pragma once

#include <cstdint>

#include "tessera/shape.h"

namespace tessera::io {

/// Calls `run(from, to, n)` for every longest run of `n` bytes that is consecutive in both arrays, in ascending order
/// of `from`: the block of `shape` that begins at `start` of an array of `from_strides` goes to an array of
/// `to_strides`, both in bytes and row-major. The block has elements.
template <class F>
void for_each_run(const Dims& start, const Shape& shape, const Dims& from_strides, const Dims& to_strides,
                  std::int64_t item, const F& run) {
  std::size_t outer = shape.size();
  std::int64_t n = item;
  while (outer > 0 && to_strides[outer - 1] == n && from_strides[outer - 1] == n) n *= shape[--outer];
  Dims at(outer, 0);
  for (bool more = true; more;) {
    std::int64_t from = 0;
    std::int64_t to = 0;
    for (std::size_t d = 0; d < shape.size(); ++d) {
      from += (start[d] + (d < outer ? at[d] : 0)) * from_strides[d];
      if (d < outer) to += at[d] * to_strides[d];
    }
    run(static_cast<std::uint64_t>(from), to, static_cast<std::uint64_t>(n));
    more = false;
    for (std::size_t d = outer; d-- > 0 && !more;) {
      more = ++at[d] < shape[d];
      if (!more) at[d] = 0;
    }
  }
}

}  // namespace tessera::io
