// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>

#include "tessera/sharding.h"

namespace tessera::detail {

/// `get_shard_indices_replica_ids` without its cache. `index_of` replaces the rule that gives the shard of a position.
/// Throws `StateError` when the number of distinct shards is not the product of extent / shard extent.
PlaceMap compute_shard_places(const Shape& global_shape, const Mesh& global_mesh, const PartitionSpec& mesh_axes,
                              const std::function<Index(std::int64_t)>& index_of = {});

}  // namespace tessera::detail
