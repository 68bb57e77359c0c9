// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "mesh/device_list.h"
#include "sharding/distinct_shards.h"

namespace tessera::sharding {

struct IndexMapState {
  IndexMapState(const Sharding& s, const Shape& shape, bool local_only = false)
      : list(Access::device_list(s)), shard_grid(make_shard_grid(s, shape)), local_only(local_only) {}
  IndexMapState(const Sharding& s, ShardGrid grid) : list(Access::device_list(s)), shard_grid(std::move(grid)) {}

  std::shared_ptr<const mesh::DeviceList> list;
  ShardGrid shard_grid;
  bool local_only = false;

  std::size_t size() const { return local_only ? list->local_positions.size() : list->size(); }
  /// Position in the device list of the i-th entry. Throws `IndexError`.
  std::int64_t position(std::size_t i) const;
  std::int32_t replica(std::int64_t position) const;

 private:
  mutable std::once_flag once_;
  mutable std::vector<std::int32_t> replicas_;
};

}  // namespace tessera::sharding
