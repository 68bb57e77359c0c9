// SPDX-License-Identifier: Apache-2.0
// Position in the device list -> shard of the array, by arithmetic where the sharding allows it.
#pragma once

#include <boost/container/small_vector.hpp>
#include <cstdint>
#include <vector>

#include "sharding/access.h"

namespace tessera::sharding {

/// The shards of one global shape. Few allocations: it is made anew for every shape that is asked for.
struct ShardGrid {
  struct Dim {
    std::int64_t extent;
    std::int64_t shard;  // of the largest shard
    std::int64_t parts = 1;
    std::uint32_t first = 0, last = 0;  // its digits: [first, last) of `digits`

    void read_slice(std::int64_t part, Slice& to) const;
  };
  boost::container::small_vector<Dim, 4> dims;
  // A grid of parts: `grid` is true and positions map to part numbers by `digits` or, without iota form, by
  // `tile_list`.
  bool grid = true;
  bool by_digits = true;
  std::int64_t num_devices = 0;
  boost::container::small_vector<Digit, 4> digits;  // of all dimensions, then those of replicas in position order
  std::uint32_t first_unused = 0;
  std::vector<std::int32_t> tile_list;  // position -> tile
  // No grid (a user's kind): the shards themselves.
  std::vector<Index> listed;

  std::int64_t num_tiles() const;
  std::int64_t part(std::int64_t position, std::size_t dim) const;
  Shape shard_shape() const;
  std::int64_t tile(std::int64_t position) const;
  Index index_at(std::int64_t position) const;
  void read_index(std::int64_t position, Index& to) const;
  Index tile_index(std::int64_t tile) const;
  Shape tile_shape(std::int64_t tile) const;
  /// Parts of a dimension that differ: empty ones count once.
  std::int64_t distinct_parts(std::size_t dim) const;
  /// Replica number by arithmetic; only where `replicas_by_digits`.
  std::int32_t replica_at(std::int64_t position) const;
  bool replicas_by_digits() const;
  /// Replica numbers by counting, for every position.
  std::vector<std::int32_t> count_replicas() const;

 private:
  std::int64_t number(std::int64_t position, std::uint32_t first, std::uint32_t last) const;
};

/// Throws as `Sharding::shard_shape`, and `StateError` for a user's kind without an index map.
ShardGrid make_shard_grid(const Sharding& s, const Shape& global_shape);
/// Shards that are listed one by one, in the order of the device list.
ShardGrid make_listed_shard_grid(std::vector<Index> indices, const Shape& global_shape);

}  // namespace tessera::sharding
