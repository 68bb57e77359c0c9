// SPDX-License-Identifier: Apache-2.0
#include "engines/cpu/steps/remote.h"

#include <algorithm>

#include "base/check.h"

namespace tessera::cpu {

void RemoteShards::want(const LayoutTable& source, const Context& context, std::int64_t position, std::int32_t shard,
                        std::int64_t bytes) {
  self_ = context.owners().self;
  std::int32_t reader = context.owners().process_of[at(position)];
  const auto& holders = source.holders[at(shard)];
  if (std::binary_search(holders.begin(), holders.end(), reader)) return;
  if (!known_.emplace(shard, reader).second) return;
  std::int32_t provider = context.owners().process_of[at(source.map.first_position[at(shard)])];
  transfers_.push_back({shard, provider, reader, bytes});
}

runtime::CommunicationPtr RemoteShards::start(Run& run, const runtime::Collectives::Call& call,
                                              ShardBuffers& shards) const {
  std::vector<runtime::Collectives::Message> sends;
  std::vector<runtime::Collectives::Receipt> receipts;
  for (const auto& t : transfers_) {
    if (t.provider == self_) {
      const BufferPtr& b = shards[at(t.shard)];
      TESSERA_CHECK(b != nullptr, "a shard to send is not here");
      sends.push_back({t.reader, b->data(), t.bytes, b});
    }
  }
  for (const auto& t : transfers_) {
    if (t.reader != self_) continue;
    BufferPtr& shard = shards[at(t.shard)];
    shard = run.memory.allocate(t.bytes);
    receipts.push_back({t.provider, shard->data(), t.bytes, shard});
  }
  if (sends.empty() && receipts.empty()) return nullptr;
  TESSERA_CHECK(run.collectives != nullptr, "a program that spans processes needs a transport");
  return run.collectives->start_exchange(call, sends, receipts);
}

}  // namespace tessera::cpu
