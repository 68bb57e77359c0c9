// SPDX-License-Identifier: Apache-2.0
// Options of reductions, over dimensions of an array (tessera/ops.h) and over named axes (tessera/collectives.h).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tessera/dtype.h"
#include "tessera/operand.h"
#include "tessera/shape.h"
#include "tessera/sharding_arg.h"

namespace tessera {

/// Disjoint lists of positions along the axes of a collective; each group runs alone, in the order of its members.
using AxisIndexGroups = std::vector<std::vector<std::int64_t>>;

/// Options of reductions and of collectives.
struct ReduceOptions {
  // Of reductions over dimensions; collectives throw `ValueError` where they are set.
  MaybeDims axis = {};
  bool keepdims = false;
  std::optional<DType> dtype = std::nullopt;
  /// A scalar that takes part in every result: what a reduction of no elements gives. Of `sum`, `prod`, `max`, `min`
  /// and those of them that leave NaN out; the others throw `ValueError`.
  std::optional<Operand> initial = std::nullopt;
  /// Bools that broadcast to the array: the elements that take part. `max` and `min` need `initial` beside it. Averages
  /// divide by the count of what takes part. `ptp` and `count_nonzero` throw `ValueError`.
  std::optional<Operand> where = std::nullopt;
  // Of collectives; reductions over dimensions throw `ValueError` where it is set.
  std::optional<AxisIndexGroups> axis_index_groups = std::nullopt;
  /// Of `sum` alone, as in `PlaceOptions`; the others throw `ValueError` where it is given. Unreduced axes must be
  /// those of summed dimensions, or be unreduced in the operand, else `ShardingTypeError`.
  ShardingArg out_sharding = {};
};

}  // namespace tessera
