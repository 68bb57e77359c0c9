// SPDX-License-Identifier: Apache-2.0
// Manual regions in the middle of a jitted function: between the two calls a value is each device's own block.
//
//   auto f = jit([&](Array x) {
//     Array block = enable_manual_sharding(x, P("x", "y"), mesh);     // 8x8 over 2x4: blocks of 4x2
//     block = block / psum(sum(block), {"x", "y"});                   // per device; collectives name the mesh's axes
//     return disable_manual_sharding(block, P("x", "y"), {8, 8}, mesh);
//   });
//
// `shard_map` (tessera/shard_map.h) is the same for a whole function.
#pragma once

#include <optional>

#include "tessera/annotate.h"

namespace tessera {

/// `x` under the spec, as every device's block: the shape is that of a shard, ceil(extent / parts) per dimension; where
/// an extent does not divide, zeros follow the data. What is computed from it is per device until
/// `disable_manual_sharding`. `mesh`: `std::nullopt` uses the global mesh. Throws as `mark_sharding`, and `ValueError`
/// outside a traced function, without a mesh, and for a value that is manual already.
Array enable_manual_sharding(const Array& x, const PartitionSpec& partition_spec,
                             const std::optional<Mesh>& mesh = std::nullopt, const Loc& loc = Loc::current());

/// The blocks `x` as one array of `full_shape` under the spec. Throws as `mark_sharding`, and `ValueError` for a value
/// that is not manual, and for a full shape whose shards have another shape than `x`.
Array disable_manual_sharding(const Array& x, const PartitionSpec& partition_spec, const Shape& full_shape,
                              const std::optional<Mesh>& mesh = std::nullopt, const Loc& loc = Loc::current());

}  // namespace tessera
