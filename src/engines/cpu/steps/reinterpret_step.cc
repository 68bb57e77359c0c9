// SPDX-License-Identifier: Apache-2.0
// The step that gives shards to other positions, or numbers them for another layout. ShardBuffers are shared, not
// copied; only between processes do bytes move.
#include <algorithm>
#include <cstring>
#include <map>
#include <memory>

#include "base/check.h"
#include "base/strings.h"
#include "engines/cpu/step_program.h"
#include "engines/cpu/steps/fixed_program.h"
#include "engines/cpu/steps/remote.h"
#include "ir/op_def.h"
#include "ops/collective/manual.h"
#include "ops/ops.h"

namespace tessera::cpu {

namespace {

class ReinterpretStep final : public ExchangeStep {
 public:
  ReinterpretStep(const ir::Graph& g, const ir::Eqn& e, Context& context) {
    const auto& move = ir::get<ops::Reinterpret>(e.attrs);
    const Dims& source = move.source;
    name_ = !move.cause.empty() ? move.cause : source.empty() ? "reinterpret" : "permute";
    reads = e.in;
    writes = e.out;
    const auto& from = *context.table(g.layout(e.in[0]));
    const auto& to = *context.table(g.layout(e.out[0]));
    source_of_.assign(at(to.map.count), kAbsent);
    bytes_.assign(at(to.map.count), 0);
    auto shard_at = [&](std::int64_t position) -> std::int32_t {
      std::int64_t p = source.empty() ? position : source[at(position)];
      return p < 0 ? kZeros : from.map.of_position[at(p)];
    };
    bool same_size = even(g.type(e.out[0]).shape, g.layout(e.out[0]), context.mesh());
    std::int64_t shard_bytes = local_type(g.type(e.out[0]), g.layout(e.out[0]), context.mesh(), 0).nbytes();
    auto bytes_at = [&](std::int64_t p) {
      return same_size ? shard_bytes : local_type(g.type(e.out[0]), g.layout(e.out[0]), context.mesh(), p).nbytes();
    };
    for (std::size_t k = 0; k < source_of_.size(); ++k) {
      if (to.first_local[k] < 0) continue;
      source_of_[k] = shard_at(to.first_local[k]);
      bytes_[k] = bytes_at(to.first_local[k]);
    }
    if (!context.distributed()) return;
    for (std::int64_t p = 0; p < context.mesh().num_positions(); ++p) {
      if (std::int32_t shard = shard_at(p); shard >= 0) remote_.want(from, context, p, shard, bytes_at(p));
    }
  }

  bool exchanges() const override { return !remote_.empty(); }

  std::unique_ptr<UnderWay> begin(Frame& frame) const override {
    auto out = std::make_unique<Fetched>();
    if (remote_.empty()) return out;
    out->shards = frame.slots[at(reads[0])];
    out->messages = remote_.start(frame.run, call(frame.run, name_), out->shards);
    return out;
  }

  void end(Frame& frame, UnderWay& under_way) const override {
    auto& fetched = static_cast<Fetched&>(under_way);
    if (fetched.messages) fetched.messages->wait();
    const ShardBuffers& from = remote_.empty() ? frame.slots[at(reads[0])] : fetched.shards;
    ShardBuffers to(source_of_.size());
    std::map<std::int64_t, BufferPtr> zeros;  // by size: one buffer for all who get nothing
    for (std::size_t k = 0; k < to.size(); ++k) {
      if (source_of_[k] >= 0) {
        to[k] = from[at(source_of_[k])];
        TESSERA_CHECK(to[k] != nullptr, str(name_, ": shard ", source_of_[k], " is not here"));
      } else if (source_of_[k] == kZeros) {
        BufferPtr& z = zeros[bytes_[k]];
        if (!z) {
          z = frame.run.memory.allocate(bytes_[k]);
          if (bytes_[k] > 0) std::memset(z->data(), 0, at(bytes_[k]));
        }
        to[k] = z;
      }
    }
    frame.slots.own(at(writes[0])) = std::move(to);
  }

  bool fix(FixedBuilder& to) const override {
    const bool here = std::all_of(source_of_.begin(), source_of_.end(), [](std::int32_t s) { return s >= 0; });
    return here && to.alias(writes[0], reads[0], source_of_);
  }

  std::string label() const override { return str(name_, " (", source_of_.size(), " shards)"); }

 private:
  static constexpr std::int32_t kZeros = -1;
  static constexpr std::int32_t kAbsent = -2;  // no device of this process holds it

  struct Fetched final : UnderWay {
    ShardBuffers shards;  // with those that come
    runtime::CommunicationPtr messages;
  };

  std::string name_;
  std::vector<std::int32_t> source_of_;  // by target shard
  std::vector<std::int64_t> bytes_;      // by target shard
  RemoteShards remote_;
};

}  // namespace

StepPtr make_reinterpret_step(const ir::Graph& g, const ir::Eqn& e, Context& context) {
  if (e.op != &ops::def::reinterpret) return nullptr;
  return std::make_unique<ReinterpretStep>(g, e, context);
}

}  // namespace tessera::cpu
