// SPDX-License-Identifier: Apache-2.0
// Numbering of the distinct shards of a value.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "ir/graph.h"
#include "runtime/buffer.h"

namespace tessera::runtime {

/// ShardBuffers are numbered in mixed radix over: the `vary` axes (ascending), the `partial` axes (ascending), then the
/// axes of each dimension in order, major first; the first is the slowest. For a layout that only tiles, a shard's
/// number is its row-major tile number, as in sharding::Placement.
struct ShardNumbering {
  std::int64_t count = 1;
  std::vector<std::int32_t> of_position;     ///< mesh position -> shard
  std::vector<std::int32_t> first_position;  ///< shard -> lowest position that holds it
};
ShardNumbering shard_numbering(const ir::Layout& layout, const ir::MeshAxes& mesh);
/// First global element and extents of the tile that mesh position `p` holds.
struct Tile {
  Dims offset;
  Shape shape;
};
Tile tile_at(const Shape& global, const ir::Layout& layout, const ir::MeshAxes& mesh, std::int64_t p);

/// Layouts of a program's inputs and outputs.
struct PortLayouts {
  std::vector<ir::Layout> in, out;
};
PortLayouts port_layouts(const ir::Graph& partitioned);

/// Buffers of a value, by shard; null where no device of this process holds the shard.
using ShardBuffers = std::vector<BufferPtr>;

}  // namespace tessera::runtime
