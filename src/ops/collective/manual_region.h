// SPDX-License-Identifier: Apache-2.0
// Manual regions that begin and end in the middle of a function (enable_manual_sharding, disable_manual_sharding).
// While a function is traced they are marks: `full_to_shard`, `mark_manual`, `shard_to_full`. When its graph is
// complete the equations between the marks become bodies of `shard_map`, so no other part of the library meets the
// marks.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ops/collective/collectives.h"
#include "ops/shared_attrs.h"

namespace tessera::ops {

// Not in ops.def: no rule, kernel or test over the registry ever meets them.
namespace def {
extern const ir::OpDef& full_to_shard;
extern const ir::OpDef& mark_manual;
extern const ir::OpDef& shard_to_full;
}  // namespace def

/// Attributes of both boundaries. `dims`: by dimension of the full value the mesh axes that cut it, major first.
struct RegionBoundary {
  Dims mesh_sizes;
  Names mesh_names;
  Dims devices;
  std::vector<Dims> dims;
  std::string sharding;  ///< of the result, as HLO text: "{manual}" inside
  static constexpr auto fields =
      std::tuple{field("mesh_sizes", &RegionBoundary::mesh_sizes), field("mesh_names", &RegionBoundary::mesh_names),
                 field("devices", &RegionBoundary::devices), field("dims", &RegionBoundary::dims),
                 field("sharding", &RegionBoundary::sharding)};
  std::int64_t parts(std::size_t dim) const;
  bool same_mesh(const RegionBoundary& other) const;
};
/// "{manual}" on a computed block.
struct ManualMark {
  std::string sharding = "{manual}";
  static constexpr auto fields = std::tuple{field("sharding", &ManualMark::sharding)};
};

/// The boundary through which a value became manual: of the region that its computation lies in. Null for a global one.
const RegionBoundary* region_of(const ir::Graph& g, ir::ValueId v);

/// The graph with each connected set of manual equations as one shard_map; itself where there are none. Throws
/// `ValueError` for an output that is still manual and for an equation over two meshes.
GraphPtr group_manual_regions(const GraphPtr& g);

}  // namespace tessera::ops
