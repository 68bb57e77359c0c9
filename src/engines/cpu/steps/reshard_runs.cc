// SPDX-License-Identifier: Apache-2.0
#include "engines/cpu/steps/reshard_runs.h"

#include "base/check.h"
#include "base/strings.h"
#include "core/strided_copy.h"
#include "engines/cpu/kernels/copy_kernels.h"

namespace tessera::cpu {

namespace {

constexpr std::size_t kMostParts = 1 << 15;

std::int64_t offset(const Dims& index, const Shape& tile, std::int64_t itemsize) {
  return offset_of(index, core::contiguous_strides(tile, itemsize));
}

}  // namespace

std::unique_ptr<const ReshardRuns> ReshardRuns::make(const ReshardPlan& plan, const Context& context,
                                                     std::int64_t itemsize) {
  if (plan.keeps_tiles() || (context.distributed() && plan.reduces())) return nullptr;
  std::unique_ptr<ReshardRuns> out(new ReshardRuns(plan, itemsize, context.owners().self));
  const auto& firsts = plan.target().first_local;
  out->shards_ = firsts.size();
  for (std::size_t k = 0; k < firsts.size(); ++k) {
    const auto target = static_cast<std::int32_t>(k);
    if (firsts[k] >= 0 && (plan.is_identity(target) || !out->add_target(plan, target))) return nullptr;
    if (context.distributed() && !plan.is_identity(target) && !out->add_messages(plan, target)) return nullptr;
  }
  return out;
}

bool ReshardRuns::add_target(const ReshardPlan& plan, std::int32_t k) {
  Target& t = targets_.emplace_back();
  t.shard = k;
  Shape shape = plan.target_shape(k);
  t.bytes = size_of(shape) * itemsize_;
  if (!plan.reduces()) {
    std::int32_t equal = plan.equal_source(k);
    if (equal >= 0 && plan.source().first_local[at(equal)] >= 0) t.shared = equal;
  }
  if (t.shared >= 0) return true;
  bool good = true;
  plan.for_each_box(k, [&](const Box& box) {
    good = good && is_one_run(box.extent, shape) && ++count_ <= kMostParts;
    if (!good || plan.source().first_local[at(box.shard)] < 0) return;
    good = is_one_run(box.extent, box.source_shape);
    t.parts.push_back({static_cast<std::int32_t>(box.shard), offset(box.in_target, shape, itemsize_),
                       offset(box.in_source, box.source_shape, itemsize_), size_of(box.extent)});
  });
  return good;
}

// What process `self_` sends for, or receives into, shard `k` of the result.
bool ReshardRuns::add_messages(const ReshardPlan& plan, std::int32_t k) {
  bool good = true;
  Shape shape = plan.target_shape(k);
  plan.for_each_box(k, [&](const Box& box) {
    if (!good) return;
    const std::int64_t bytes = size_of(box.extent) * itemsize_;
    for (auto reader : plan.target().holders[at(k)]) {
      const Term term = plan.terms(box, reader)[0];
      if (reader == term.provider || (reader != self_ && term.provider != self_)) continue;
      good = good && ++count_ <= kMostParts;
      if (!good) return;
      if (reader == self_) {
        targets_.back().receives = true;
        receipts_.push_back({term.provider, targets_.size() - 1, offset(box.in_target, shape, itemsize_), bytes});
      } else {
        good = is_one_run(box.extent, box.source_shape);
        sends_.push_back({reader, term.shards[0], offset(box.in_source, box.source_shape, itemsize_), bytes});
      }
    }
  });
  return good;
}

runtime::CommunicationPtr ReshardRuns::begin(Run& run, const runtime::Collectives::Call& call, const ShardBuffers& from,
                                             ShardBuffers& to, const Manner& manner) const {
  to.resize(shards_);
  if (sends_.empty() && receipts_.empty()) return nullptr;
  for (const Target& t : targets_) {
    if (t.receives) to[at(t.shard)] = run.memory.allocate(t.bytes);
  }
  std::vector<runtime::Collectives::Message> sends;
  std::vector<runtime::Collectives::Receipt> receipts;
  sends.reserve(sends_.size());
  receipts.reserve(receipts_.size());
  for (const Outgoing& m : sends_) {
    const BufferPtr& b = from[at(m.shard)];
    TESSERA_CHECK(b != nullptr, str("reshard: shard ", m.shard, " is not here"));
    sends.push_back({m.reader, static_cast<const char*>(b->data()) + m.from, m.bytes, b});
  }
  for (const Incoming& m : receipts_) {
    const BufferPtr& shard = to[at(targets_[m.target].shard)];
    receipts.push_back({m.provider, static_cast<char*>(shard->data()) + m.to, m.bytes, shard});
  }
  TESSERA_CHECK(run.collectives != nullptr, "a program that spans processes needs a transport");
  auto under_way = run.collectives->start_exchange(call, sends, receipts);
  // This process's own parts of what it receives, while the others' come.
  std::vector<const Target*> receiving;
  for (const Target& t : targets_) {
    if (t.receives && !t.parts.empty()) receiving.push_back(&t);
  }
  fill(receiving, from, to, manner);
  return under_way;
}

void ReshardRuns::end(Run& run, const ShardBuffers& from, ShardBuffers& to, const Manner& manner) const {
  std::vector<const Target*> open;
  for (const Target& t : targets_) {
    BufferPtr& shard = to[at(t.shard)];
    if (t.shared >= 0) {
      shard = from[at(t.shared)];
      continue;
    }
    if (!shard) shard = run.memory.allocate(t.bytes);
    if (!t.receives && !t.parts.empty()) open.push_back(&t);
  }
  fill(open, from, to, manner);
}

void ReshardRuns::fill(const std::vector<const Target*>& targets, const ShardBuffers& from, const ShardBuffers& to,
                       const Manner& manner) const {
  spread(std::ssize(targets), manner.cost, [&](std::int64_t i) {
    const Target& t = *targets[at(i)];
    auto* out = static_cast<char*>(to[at(t.shard)]->data());
    std::vector<const void*> blocks;
    for (const Part& part : t.parts) {
      blocks.clear();
      for (auto offset : combined_) {
        const BufferPtr& b = from[at(part.shard + offset)];
        TESSERA_CHECK(b != nullptr, str("reshard: shard ", part.shard + offset, " is not here"));
        blocks.push_back(static_cast<const char*>(b->data()) + part.from);
      }
      if (blocks.size() == 1) {
        kernels::copy_bytes(out + part.to, blocks[0], part.elements * itemsize_, manner.stream);
      } else {
        manner.combiner->combine(blocks, out + part.to, part.elements);
      }
    }
  });
}

}  // namespace tessera::cpu
