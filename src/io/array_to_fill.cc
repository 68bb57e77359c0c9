// SPDX-License-Identifier: Apache-2.0
#include "io/array_to_fill.h"

#include <cstring>
#include <utility>

#include "array/array_stats.h"
#include "runtime/engine.h"

namespace tessera::io {

ArrayToFill::ArrayToFill(const ir::Type& type, const ShardingPtr& sharding, bool committed)
    : type_(type), sharding_(sharding), committed_(committed) {
  const auto place = arrays::look_up(sharding, type.shape);
  storage_->shard_buffers.resize(static_cast<std::size_t>(place->num_tiles));
  for (auto p : place->devices->local_positions) {
    const auto tile = static_cast<std::size_t>(place->tile_of[static_cast<std::size_t>(p)]);
    auto& buffer = storage_->shard_buffers[tile];
    if (buffer) continue;
    BlockMemory b{{}, place->tile_shape[tile]};
    for (const Slice& s : place->tile_index[tile]) b.start.push_back(s.start.value_or(0));
    buffer = runtime::runtime_of(place->devices->client).memory->allocate(size_of(b.shape) * dtype_size(type.dtype));
    b.to = static_cast<char*>(buffer->data());
    if (tile < place->tile_index.size() / static_cast<std::size_t>(place->addends)) {
      blocks_.push_back(std::move(b));
    } else if (buffer->nbytes() > 0) {
      std::memset(buffer->data(), 0, static_cast<std::size_t>(buffer->nbytes()));
    }
  }
}

Array ArrayToFill::finish() const { return arrays::make(type_, sharding_, storage_, committed_); }

}  // namespace tessera::io
