// SPDX-License-Identifier: Apache-2.0
// What this room's sources may ask of shardings beyond the public interface.
#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "mesh/device_list.h"
#include "sharding/mesh_tiling.h"
#include "tessera/sharding.h"

namespace tessera::sharding {

struct Access {
  static std::shared_ptr<const mesh::DeviceList> device_list(const Sharding& s) { return s.device_list(); }
  static std::optional<MeshTiling> mesh_tiling(const Sharding& s, std::int64_t ndim) { return s.mesh_tiling(ndim); }
};

/// Throws `ValueError` naming `member` when the sharding lies over an abstract mesh.
void need_devices(const Sharding& s, std::string_view member);

/// Shape of a shard when `parts[d]` shards split dimension d. Throws `ValueError` naming `global_shape` for a bad
/// extent and, unless `uneven`, `IndivisibleError` with dimension, extent, number of parts, shape and all parts.
Shape split_shape(const Shape& global_shape, const Dims& parts, bool uneven, std::string_view function);

}  // namespace tessera::sharding
