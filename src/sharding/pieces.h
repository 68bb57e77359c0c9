// SPDX-License-Identifier: Apache-2.0
// Position in the device list -> piece of the array, by arithmetic where the sharding allows it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "sharding/access.h"

namespace tessera::sharding {

/// Number of pieces that a grid of `parts` over `global` has when equal (empty) ones count once.
struct Pieces {
  Shape global;
  Shape shard;  // the largest piece
  // A grid of parts: `grid` is true and positions map to part numbers by `digits` or, without iota form, by
  // `tile_list`.
  bool grid = true;
  Dims parts;
  std::int64_t num_devices = 0;
  std::vector<std::vector<Digit>> digits;
  std::vector<Digit> unused;  // replica digits in position order, when `by_digits`
  bool by_digits = true;
  std::vector<std::int32_t> tile_list;  // position -> tile
  // No grid (a user's kind): the pieces themselves.
  std::vector<Index> listed;

  std::int64_t num_tiles() const;
  std::int64_t part(std::int64_t position, std::size_t dim) const;
  std::int64_t tile(std::int64_t position) const;
  Slice slice(std::size_t dim, std::int64_t part) const;
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
};

/// Throws as `Sharding::shard_shape`, and `StateError` for a user's kind without an index map.
std::shared_ptr<const Pieces> make_pieces(const Sharding& s, const Shape& global_shape);
/// Pieces that are listed one by one, in the order of the device list.
std::shared_ptr<const Pieces> make_listed_pieces(std::vector<Index> indices, const Shape& global_shape);

}  // namespace tessera::sharding
