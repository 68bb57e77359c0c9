// SPDX-License-Identifier: Apache-2.0
// Options of reductions, over dimensions of an array (tessera/ops.h) and over named axes (tessera/collectives.h).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tessera/dtype.h"
#include "tessera/shape.h"

namespace tessera {

/// Disjoint lists of positions along the axes of a collective; each group runs alone, in the order of its members.
using AxisIndexGroups = std::vector<std::vector<std::int64_t>>;

/// Options of reductions and of collectives.
struct ReduceOptions {
  // Of reductions over dimensions; collectives throw `ValueError` where they are set.
  MaybeDims axis = {};
  bool keepdims = false;
  std::optional<DType> dtype = std::nullopt;
  // Of collectives; reductions over dimensions throw `ValueError` where it is set.
  std::optional<AxisIndexGroups> axis_index_groups = std::nullopt;
};

}  // namespace tessera
