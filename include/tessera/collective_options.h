// SPDX-License-Identifier: Apache-2.0
// Options of the collectives over named axes (tessera/collectives.h).
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "tessera/reduce_options.h"

namespace tessera {

/// Groups and form of `all_to_all`.
struct AllToAllOptions {
  std::optional<AxisIndexGroups> axis_index_groups = {};
  bool tiled = false;
};
/// How the result of a gather is typed in a map that checks varying types.
enum class GatherTo { varying, invarying, reduced };
/// What `pcast` types a value as.
enum class CastTo { varying, reduced, unreduced };
/// Groups and form of `all_gather`: `tiled` joins the blocks along `axis`, else they are stacked there.
struct AllGatherOptions {
  std::optional<AxisIndexGroups> axis_index_groups = {};
  std::int64_t axis = 0;
  bool tiled = false;
  GatherTo to = GatherTo::varying;
};
/// Groups and form of `psum_scatter`: `tiled` keeps the dimension that is split, else it has one element per device and
/// goes.
struct PsumScatterOptions {
  std::int64_t scatter_dimension = 0;
  std::optional<AxisIndexGroups> axis_index_groups = {};
  bool tiled = false;
};
/// (source, destination) positions along the axes.
using PermutationPairs = std::vector<std::pair<std::int64_t, std::int64_t>>;

}  // namespace tessera
