// SPDX-License-Identifier: Apache-2.0
#include "engines/cpu/steps/remote.h"

#include <algorithm>

#include "base/check.h"

namespace tessera::cpu {

void RemotePieces::want(const LayoutTable& source, const Context& context, std::int64_t position, std::int32_t piece,
                        std::int64_t bytes) {
  self_ = context.owners().self;
  std::int32_t reader = context.owners().process_of[at(position)];
  const auto& holders = source.holders[at(piece)];
  if (std::binary_search(holders.begin(), holders.end(), reader)) return;
  if (!known_.emplace(piece, reader).second) return;
  std::int32_t provider = context.owners().process_of[at(source.map.first_position[at(piece)])];
  transfers_.push_back({piece, provider, reader, bytes});
}

void RemotePieces::fetch(Run& run, Pieces& pieces) const {
  std::vector<runtime::Collectives::Message> sends;
  std::vector<runtime::Collectives::Receipt> receipts;
  for (const auto& t : transfers_) {
    if (t.provider == self_) {
      const BufferPtr& b = pieces[at(t.piece)];
      TESSERA_CHECK(b != nullptr, "a piece to send is not here");
      sends.push_back({t.reader, b->data(), t.bytes});
    }
  }
  for (const auto& t : transfers_) {
    if (t.reader != self_) continue;
    pieces[at(t.piece)] = run.memory.allocate(t.bytes);
    receipts.push_back({t.provider, pieces[at(t.piece)]->data(), t.bytes});
  }
  if (sends.empty() && receipts.empty()) return;
  TESSERA_CHECK(run.collectives != nullptr, "a program that spans processes needs a transport");
  run.collectives->exchange(run.tag, sends, receipts);
}

}  // namespace tessera::cpu
