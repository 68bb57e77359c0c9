// SPDX-License-Identifier: Apache-2.0
// Which shards of a resharded value each shard of the result is made of, so that a source that nobody else reads goes
// shard by shard while the result is made: both are never there whole.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "engines/cpu/steps/reshard_plan.h"
#include "engines/cpu/steps/reshard_routes.h"

namespace tessera::cpu {

class SourceReaders {
 public:
  /// For these shards of the result, as process `self` makes them; `routes` is null where there is no other. Nothing is
  /// noted where there would be too many pairs of shards.
  void note(const ReshardPlan& plan, std::span<const std::int32_t> targets, std::int32_t self,
            const ReshardRoutes* routes);

  /// By shard of the source, how many of the results that are still to be made read it.
  using Counts = std::vector<std::atomic<std::int32_t>>;
  /// Of a source of `shards` shards, for these results; empty where nothing is noted.
  Counts of(std::span<const std::int32_t> open, std::size_t shards) const;
  /// Empties the handles of those that result `k` was the last to read. For different results from several threads.
  void drop_read(std::int32_t k, Counts& unread, ShardBuffers& source) const;

 private:
  std::vector<std::vector<std::int32_t>> sources_;  // by shard of the result, ascending
};

}  // namespace tessera::cpu
