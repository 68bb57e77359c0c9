// SPDX-License-Identifier: Apache-2.0
#include "engines/cpu/steps/source_readers.h"

#include <algorithm>

namespace tessera::cpu {

void SourceReaders::note(const ReshardPlan& plan, std::span<const std::int32_t> targets, std::int32_t self,
                         const ReshardRoutes* routes) {
  constexpr std::size_t kMostPairs = 1 << 15;
  sources_.resize(plan.target().first_local.size());
  std::size_t pairs = 0;
  for (auto k : targets) {
    if (plan.is_identity(k) || (routes != nullptr && routes->summed(k))) continue;
    std::vector<std::int32_t>& read = sources_[at(k)];
    if (routes != nullptr) {
      routes->for_each_box(k, [&](const Box&, std::span<const Term> terms) {
        for (const auto& term : terms) {
          if (term.provider == self) read.insert(read.end(), term.shards.begin(), term.shards.end());
        }
      });
    } else {
      plan.for_each_box(k, [&](const Box& box) {
        for (auto offset : plan.combined()) read.push_back(static_cast<std::int32_t>(box.shard) + offset);
      });
    }
    std::sort(read.begin(), read.end());
    read.erase(std::unique(read.begin(), read.end()), read.end());
    pairs += read.size();
    if (pairs > kMostPairs) return sources_.clear();
  }
}

SourceReaders::Counts SourceReaders::of(std::span<const std::int32_t> open, std::size_t shards) const {
  if (sources_.empty()) return {};
  Counts out(shards);
  for (auto k : open) {
    for (auto shard : sources_[at(k)]) ++out[at(shard)];
  }
  return out;
}

void SourceReaders::drop_read(std::int32_t k, Counts& unread, ShardBuffers& source) const {
  for (auto shard : sources_[at(k)]) {
    if (--unread[at(shard)] == 0) source[at(shard)] = nullptr;
  }
}

}  // namespace tessera::cpu
