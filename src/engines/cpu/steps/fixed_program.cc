// SPDX-License-Identifier: Apache-2.0
#include "engines/cpu/steps/fixed_program.h"

#include <algorithm>
#include <functional>

#include "engines/cpu/chrome_trace.h"
#include "engines/cpu/kernels/copy_kernels.h"
#include "engines/cpu/steps/fixed_ops.h"

namespace tessera::cpu {

bool FixedProgram::serves(const Run& run) { return !tracing() && run.shake == 0 && run.taken == nullptr; }

// Pointers of a run: what is in the block, and constants.
std::vector<void*> FixedProgram::start(BufferPtr& block, Run& run) const {
  std::vector<void*> places(places_);
  if (bytes_ > 0) {
    block = run.memory.allocate(bytes_);
    auto* next = static_cast<std::byte*>(block->data());
    for (auto [place, bytes] : memory_) {
      places[place] = next;
      next += bytes;
    }
  }
  for (const auto& [place, constant] : constants_) places[place] = constant->data();
  return places;
}

void FixedProgram::run(Frame& frame, const std::vector<bool>& dies) const {
  BufferPtr block;
  std::vector<void*> places = start(block, frame.run);
  std::vector<BufferPtr> carried;
  bring_in(frame, dies, places, carried);
  run_all(ops_, places.data());
  bring_out(frame, places, carried);
}

std::vector<ShardBuffers> FixedProgram::run(const std::vector<const ShardBuffers*>& args, Run& run) const {
  BufferPtr block;
  std::vector<void*> places = start(block, run);
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    const ShardBuffers& shards = *args[i];
    for (std::size_t k = 0; k < shards.size(); ++k) places[inputs_[i].first + k] = shards[k]->data();
  }
  std::vector<ShardBuffers> made(made_.size());
  for (std::size_t j = 0; j < made.size(); ++j) made[j].resize(made_[j].bytes.size());
  ShardBuffers together;
  for (const Group& g : groups_) {
    together.resize(g.shards.size());
    run.memory.allocate(g.bytes, together);
    for (std::size_t n = 0; n < together.size(); ++n) {
      auto [j, k] = g.shards[n];
      places[made_[j].first + k] = together[n]->data();
      made[j][k] = std::move(together[n]);
    }
  }
  run_all(ops_, places.data());
  std::vector<ShardBuffers> results;
  results.reserve(outputs_.size());
  for (const Output& o : outputs_) {
    switch (o.kind) {
      case Output::Kind::Input:
        results.push_back(*args[o.number]);
        break;
      case Output::Kind::Known:
        results.push_back(known_[o.number]);
        break;
      case Output::Kind::Made:
        results.push_back(o.last ? std::move(made[o.number]) : made[o.number]);
        break;
    }
  }
  return results;
}

void FixedProgram::bring_in(Frame& frame, const std::vector<bool>& dies, std::vector<void*>& places,
                            std::vector<BufferPtr>& carried) const {
  for (const Port& p : reads_) {
    const ShardBuffers& shards = frame.slots[at(p.value)];
    for (std::size_t k = 0; k < shards.size(); ++k) places[p.first + k] = shards[k]->data();
  }
  for (const Port& p : carries_) {
    const bool given = p.once && dies[p.operand] && !frame.slots.borrowed(at(p.value));
    for (std::size_t k = 0; k < p.bytes.size(); ++k) {
      const BufferPtr& shard = frame.slots[at(p.value)][k];
      if (given && sole_owner(shard)) {
        carried.push_back(std::move(frame.slots.own(at(p.value))[k]));
      } else {
        carried.push_back(frame.run.memory.allocate(p.bytes[k]));
        kernels::copy_bytes(carried.back()->data(), shard->data(), p.bytes[k]);
      }
      places[p.first + k] = carried.back()->data();
    }
  }
  for (const Port& p : stacks_) {
    ShardBuffers& shards = frame.slots.own(at(p.value));
    shards.resize(p.bytes.size());
    for (std::size_t k = 0; k < shards.size(); ++k) {
      shards[k] = frame.run.memory.allocate(p.bytes[k]);
      places[p.first + k] = shards[k]->data();
    }
  }
}

// What is carried is in an operand's memory in the end, or in the block.
void FixedProgram::bring_out(Frame& frame, const std::vector<void*>& places, std::vector<BufferPtr>& carried) const {
  auto address = [](const BufferPtr& b) { return b->data(); };
  std::sort(carried.begin(), carried.end(),
            [&](const auto& a, const auto& b) { return std::less<>()(address(a), address(b)); });
  for (const Port& p : carried_) {
    ShardBuffers& shards = frame.slots.own(at(p.value));
    shards.resize(p.bytes.size());
    for (std::size_t k = 0; k < shards.size(); ++k) {
      void* data = places[p.first + k];
      auto held = std::partition_point(carried.begin(), carried.end(),
                                       [&](const BufferPtr& b) { return std::less<>()(address(b), data); });
      if (p.bytes[k] > 0 && held != carried.end() && address(*held) == data) {
        shards[k] = *held;
      } else {
        shards[k] = frame.run.memory.allocate(p.bytes[k]);
        kernels::copy_bytes(shards[k]->data(), data, p.bytes[k]);
      }
    }
  }
}

}  // namespace tessera::cpu
