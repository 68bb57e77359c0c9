// SPDX-License-Identifier: Apache-2.0
// Drawings for terminals: which device holds which shard of an array, and how devices are arranged in a mesh.
//
//   std::cout << visualize_array_sharding(NamedSharding(mesh, P("x", "y")), {8, 2});
//
//   ┌───────┬───────┐
//   │ CPU 0 │ CPU 1 │
//   ├───────┼───────┤
//   │ CPU 2 │ CPU 3 │
//   └───────┴───────┘
#pragma once

#include <cstdint>
#include <string>

#include "tessera/mesh.h"
#include "tessera/sharding.h"

namespace tessera {

/// Sizes of a drawing.
struct VisualizeOptions {
  /// Smallest and largest width of a cell; longer lists of devices are truncated with "…".
  std::int64_t min_width = 5;
  std::int64_t max_width = 40;
  /// Lines of a cell.
  std::int64_t height = 1;
  /// Most cells along one dimension; those in the middle of a longer one are left out and shown as one cell "…".
  std::int64_t max_cells = 16;
};

/// Draws a sharding of rank 1 or 2: one cell per shard, with all devices that hold it ("CPU 0,1"); empty shards are
/// left out. Throws `ValueError` for other ranks, and as `Sharding::shard_shape` for a shape that the sharding does not
/// split.
std::string visualize_array_sharding(const ShardingPtr& sharding, const Shape& global_shape,
                                     const VisualizeOptions& options = {}, const Loc& loc = Loc::current());

/// Draws devices at their mesh positions, with axis names and indices at the margins; one grid for each position along
/// the axes before the last two. Devices of other processes show their process ("CPU 4 p1").
std::string visualize_mesh(const Mesh& m, const VisualizeOptions& options = {}, const Loc& loc = Loc::current());

}  // namespace tessera
