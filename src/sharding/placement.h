// SPDX-License-Identifier: Apache-2.0
// The common form of all shardings that arrays, partitioning and the runtime work with.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "mesh/device_list.h"
#include "sharding/distinct_shards.h"
#include "sharding/mesh_tiling.h"
#include "tessera/sharding.h"

namespace tessera::sharding {

using mesh::DeviceList;

/// The interned device list. Throws `ValueError` over an abstract mesh.
std::shared_ptr<const DeviceList> device_list(const Sharding& s);

/// A table of one value a tile, computed when read: a placement over a million devices holds no million indices.
template <class T, T (ShardGrid::*At)(std::int64_t) const>
class TileTable {
 public:
  class Iterator {
   public:
    Iterator(const TileTable* table, std::size_t i) : table_(table), i_(i) {}
    T operator*() const { return (*table_)[i_]; }
    Iterator& operator++() {
      ++i_;
      return *this;
    }
    bool operator==(const Iterator&) const = default;

   private:
    const TileTable* table_;
    std::size_t i_;
  };
  TileTable() = default;
  explicit TileTable(std::shared_ptr<const ShardGrid> shard_grid) : shard_grid_(std::move(shard_grid)) {}
  T operator[](std::size_t tile) const { return ((*shard_grid_).*At)(static_cast<std::int64_t>(tile)); }
  std::size_t size() const { return static_cast<std::size_t>(shard_grid_->num_tiles()); }
  Iterator begin() const { return {this, 0}; }
  Iterator end() const { return {this, size()}; }

 private:
  std::shared_ptr<const ShardGrid> shard_grid_;
};

/// Where every device's shard of an array of one shape lies.
struct Placement {
  std::shared_ptr<const DeviceList> devices;
  Shape global_shape;
  Shape shard_shape;  // of the largest shard
  std::int64_t num_tiles = 0;
  std::vector<std::int32_t> tile_of;  // device position -> tile, row-major over the part numbers
  TileTable<Index, &ShardGrid::tile_index> tile_index;
  TileTable<Shape, &ShardGrid::tile_shape> tile_shape;  // true extents: uneven shards are shorter or empty
  std::vector<std::int32_t> replica_id;                 // by position; equal (empty) shards count as one
  std::vector<std::int32_t> first_position;             // tile -> lowest position
  std::vector<std::int32_t> parts;  // per dimension; empty for a user's kind, whose tiles form no grid
  std::shared_ptr<const ShardGrid> shard_grid;
};

/// Cached; equal shardings and shapes give the same object. Throws as `Sharding::devices_indices_map`.
std::shared_ptr<const Placement> placement(const ShardingPtr& s, const Shape& global_shape);

}  // namespace tessera::sharding
