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

/// A table of one value a tile, computed when read: a placement over a million devices holds no million indices. Tiles
/// of the same block follow each other by as many as there are blocks.
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
  TileTable(std::shared_ptr<const ShardGrid> shard_grid, std::int64_t addends)
      : shard_grid_(std::move(shard_grid)), blocks_(shard_grid_->num_tiles()), addends_(addends) {}
  T operator[](std::size_t tile) const {
    auto t = static_cast<std::int64_t>(tile);
    return ((*shard_grid_).*At)(addends_ == 1 ? t : t % blocks_);
  }
  std::size_t size() const { return static_cast<std::size_t>(blocks_ * addends_); }
  Iterator begin() const { return {this, 0}; }
  Iterator end() const { return {this, size()}; }

 private:
  std::shared_ptr<const ShardGrid> shard_grid_;
  std::int64_t blocks_ = 0;
  std::int64_t addends_ = 1;
};

/// Where every device's shard of an array of one shape lies. Of an unreduced array each block has as many tiles as
/// there are addends of it, the number of the addend being the slowest: the numbering of `runtime::shard_numbering`.
struct Placement {
  std::shared_ptr<const DeviceList> devices;
  Shape global_shape;
  Shape shard_shape;  // of the largest shard
  std::int64_t num_tiles = 0;
  std::int64_t addends = 1;           // tiles of one block, whose sum it is
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
