// SPDX-License-Identifier: Apache-2.0
// Whole shards that a step of one process reads and another process holds.
#pragma once

#include <set>
#include <utility>
#include <vector>

#include "engines/cpu/step_program.h"

namespace tessera::cpu {

/// Every process builds the same list, from what all positions want, and so sends and receives in the same order.
class RemoteShards {
 public:
  /// The device at `position` reads shard `shard`, of `bytes` bytes, of a value with this table.
  void want(const LayoutTable& source, const Context& context, std::int64_t position, std::int32_t shard,
            std::int64_t bytes);
  bool empty() const { return transfers_.empty(); }
  /// Begins to fill the missing shards; null where this process neither sends nor receives.
  runtime::CommunicationPtr start(Run& run, const runtime::Collectives::Call& call, ShardBuffers& shards) const;

 private:
  struct Transfer {
    std::int32_t shard, provider, reader;
    std::int64_t bytes;
  };
  std::int32_t self_ = 0;
  std::set<std::pair<std::int32_t, std::int32_t>> known_;  // shard, reader
  std::vector<Transfer> transfers_;
};

}  // namespace tessera::cpu
