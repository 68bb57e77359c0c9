// SPDX-License-Identifier: Apache-2.0
#include "base/strings.h"
#include "program/promote.h"
#include "tessera/collectives.h"
#include "tessera/error.h"
#include "tessera/lax.h"
#include "tessera/ops.h"

namespace tessera {

namespace {

// Rows [from, to) of the neighbour `step` further (the sender's), or the constant beyond the ends.
Array neighbour(const Array& x, const AxisNames& axes, std::int64_t dim, std::int64_t from, std::int64_t to,
                std::int64_t step, const HaloOptions& o, const Loc& loc) {
  Array rows = lax::slice_in_dim(Operand(x, loc), from, to, 1, dim);
  std::int64_t n = axis_size(axes);
  PermutationPairs pairs;
  for (std::int64_t i = 0; i < n; ++i) {
    std::int64_t to_whom = i + step;
    if (o.edge == HaloEdge::periodic) {
      pairs.emplace_back(i, (to_whom + n) % n);
    } else if (to_whom >= 0 && to_whom < n) {
      pairs.emplace_back(i, to_whom);
    }
  }
  Array got = ppermute(rows, axes, pairs, loc);
  if (o.edge == HaloEdge::periodic || o.value == 0) return got;
  Array at_end = axis_index(axes, loc) == Array(static_cast<int>(step > 0 ? 0 : n - 1));
  return where(at_end, full(got.shape(), o.value, got.dtype()), got);
}

}  // namespace

Array halo_exchange(const Array& x, const AxisNames& axes, std::int64_t dim, const HaloOptions& o, const Loc& loc) {
  std::int64_t d = program::axis_of("halo_exchange", dim, x.ndim());
  std::int64_t n = x.shape(d);
  for (auto width : {o.before, o.after}) {
    if (width < 0 || width > n) {
      throw ValueError(str("halo_exchange: a halo of ", width, " rows for blocks of ", n, " along dimension ", d,
                           "; expected 0 to ", n));
    }
  }
  std::vector<Array> parts;
  if (o.before > 0) parts.push_back(neighbour(x, axes, d, n - o.before, n, 1, o, loc));
  parts.push_back(x);
  if (o.after > 0) parts.push_back(neighbour(x, axes, d, 0, o.after, -1, o, loc));
  return parts.size() == 1 ? x : lax::concatenate(parts, d, loc);
}

}  // namespace tessera
