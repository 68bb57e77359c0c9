// SPDX-License-Identifier: Apache-2.0
// Which source shards make a shard of a resharded value. All is arithmetic on shard numbers: tables of pairs would have
// millions of entries on thousands of devices. Every process computes the same answers, so nobody asks anybody.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "engines/cpu/context.h"

namespace tessera::cpu {

/// What one source tile shares with a target tile.
struct Box {
  Shape extent;
  Dims in_source;          ///< first element, counted in the source tile
  Dims in_target;          ///< first element, counted in the target tile
  Shape source_shape;      ///< of the source tile
  std::int64_t shard = 0;  ///< source shard; with a reduction the first of them
};

/// True when the box is one run of the tile's memory: only the outermost dimension that has more than one element is
/// cut.
bool is_one_run(const Shape& box, const Shape& tile);

/// Bytes from a tile's first element to the one at `index`.
std::int64_t offset_of(const Dims& index, const Dims& strides);

/// Source shards that one process reduces (or just has) for a box of a target shard that another one needs.
struct Term {
  std::int32_t provider = 0;
  std::vector<std::int32_t> shards;
};

class ReshardPlan {
 public:
  ReshardPlan(const ir::Type& type, std::shared_ptr<const LayoutTable> source,
              std::shared_ptr<const LayoutTable> target, const Context& context, bool deterministic);

  const LayoutTable& source() const { return *source_; }
  const LayoutTable& target() const { return *target_; }
  /// Offsets from a box's shard to all shards that are reduced; {0} without reduction.
  const std::vector<std::int32_t>& combined() const { return combined_; }
  bool reduces() const { return combined_.size() > 1; }
  /// True when the target is partial where the source is not: one position of an axis then keeps the value and the
  /// others hold the identity of the reduction; along an axis that splits the source each position keeps its own tile.
  bool makes_partial() const { return identity_axes_ != 0 || keeps_tiles(); }
  /// True when boxes leave elements out, which are the identity.
  bool keeps_tiles() const { return !own_.empty(); }
  bool is_identity(std::int32_t target) const;

  Shape target_shape(std::int32_t target) const;
  Shape source_shape(std::int32_t source) const;
  /// The one source shard with the same elements as the target shard, or -1. Not for reductions.
  std::int32_t equal_source(std::int32_t target) const;
  void for_each_box(std::int32_t target, const std::function<void(const Box&)>& body) const;
  /// Who supplies what for a box when process `reader` needs it; in the order in which the parts are combined.
  std::vector<Term> terms(const Box& box, std::int32_t reader) const;

 private:
  struct Span {  // along one dimension
    std::int64_t begin, end;
    std::int64_t first_tile, last_tile;
  };
  std::vector<Span> spans(std::int32_t target) const;
  std::int64_t base_shard(std::int32_t target) const;
  std::int32_t owner(std::int32_t source_shard) const;
  bool is_own(const Dims& tile, std::int64_t position) const;

  // An axis that splits the source and becomes partial: the digit of tiles of `dim` that a position's own has.
  struct OwnTile {
    std::size_t axis, dim;
    std::int64_t stride;
  };
  Shape global_;
  std::shared_ptr<const LayoutTable> source_;
  std::shared_ptr<const LayoutTable> target_;
  ir::MeshAxes mesh_;
  std::vector<std::int32_t> process_of_;
  std::vector<std::int64_t> strides_;
  bool deterministic_;
  ir::AxisMask kept_ = 0;  // axes along which a target shard reads its own coordinate's source shard
  ir::AxisMask identity_axes_ = 0;
  std::vector<OwnTile> own_;
  std::vector<std::int32_t> combined_;
  std::vector<std::int64_t> source_parts_;
  std::vector<std::int64_t> target_parts_;
};

}  // namespace tessera::cpu
