// SPDX-License-Identifier: Apache-2.0
// Counters of the caches that placement and index maps go through.
#pragma once

#include <cstdint>

namespace tessera {

/// Uses of one of the library's caches since the program began.
struct CacheStats {
  std::int64_t hits = 0;
  std::int64_t misses = 0;
  std::int64_t entries = 0;
  bool operator==(const CacheStats&) const = default;
};

/// The library's caches.
enum class CacheId {
  LocalMesh,     ///< `Mesh::local_mesh`
  ShardIndices,  ///< `get_shard_indices`
  ShardPlaces,   ///< `get_shard_indices_replica_ids`
  ShardShape,    ///< `get_shard_shape`
  IndicesMap,    ///< `Sharding::devices_indices_map` and its addressable part
  Placement,     ///< the common form that arrays and programs use
};
/// Count of `CacheId`.
inline constexpr int kNumCaches = 6;

/// Counters of one cache.
CacheStats cache_stats(CacheId id);
/// Sum over the three functions `get_shard_indices`, `get_shard_indices_replica_ids` and `get_shard_shape`.
CacheStats cache_stats();
/// Empties every cache and zeroes its counters.
void clear_caches();
/// How often a set for membership tests was built from a list of devices.
std::int64_t device_sets_built();

}  // namespace tessera
