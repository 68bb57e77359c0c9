// SPDX-License-Identifier: Apache-2.0
// The step that puts a value under another layout. One rule for every collective: a shard of the result is assembled
// from the boxes that tiles of the source share with it, and axes over which the source is partial are reduced. Several
// values whose sums are one exchange have a step each, which begin and end together.
#include <algorithm>
#include <cstring>
#include <optional>

#include "base/check.h"
#include "base/machine.h"
#include "base/strings.h"
#include "base/verify_mode.h"
#include "core/strided_copy.h"
#include "engines/cpu/kernels/copy_kernels.h"
#include "engines/cpu/step_program.h"
#include "engines/cpu/steps/combine.h"
#include "engines/cpu/steps/process_sums.h"
#include "engines/cpu/steps/reshard_plan.h"
#include "engines/cpu/steps/reshard_routes.h"
#include "engines/cpu/steps/reshard_runs.h"
#include "engines/cpu/steps/source_readers.h"
#include "ir/op_def.h"
#include "ops/ops.h"
#include "ops/shared_attrs.h"
#include "tessera/config.h"

namespace tessera::cpu {

namespace {

char* element(void* data, const Dims& index, const Dims& strides) {
  return static_cast<char*>(data) + offset_of(index, strides);
}

class ReshardStep final : public ExchangeStep {
 public:
  using Source = runtime::Collectives::Source;

  ReshardStep(const ir::Graph& g, const ir::Eqn& e, Context& context)
      : plan_(g.type(e.in[0]), context.table(g.layout(e.in[0])), context.table(g.layout(e.out[0])), context,
              config().deterministic),
        itemsize_(dtype_size(g.type(e.in[0]).dtype)),
        self_(context.owners().self),
        distributed_(context.distributed()),
        name_(ops::to_string(ir::get<ops::Reshard>(e.attrs).kind)) {
    DType dtype = g.type(e.in[0]).dtype;
    if (plan_.reduces()) combiner_.emplace(plan_.source().layout.reduction, dtype);
    if (plan_.makes_partial()) identity_.emplace(plan_.target().layout.reduction, dtype);
    reads = e.in;
    writes = e.out;
    const auto& firsts = plan_.target().first_local;
    for (std::size_t k = 0; k < firsts.size(); ++k) {
      if (firsts[k] >= 0) targets_.push_back(static_cast<std::int32_t>(k));
    }
    part_item_ = itemsize_;
    if (distributed_ && plan_.reduces()) {
      staged_ = !config().deterministic && combiner_->wide() != dtype;
      if (staged_) part_item_ = dtype_size(combiner_->wide());
      if (!config().deterministic) sums_ = process_sums(plan_);
      across_.emplace(plan_.source().layout.reduction, staged_ ? combiner_->wide() : dtype);
    }
    runs_ = ReshardRuns::make(plan_, context, itemsize_);
    if (distributed_) {
      routes_.emplace(plan_, self_, summed_targets());
      if (!runs_) {
        routes_->remember();
        note_own_reads();
      }
    }
    crosses_ = !sums_.empty() || (routes_ && routes_->cross());
    auto largest = size_of(ir::tile_shape(g.type(e.out[0]).shape, g.layout(e.out[0]), context.mesh()));
    double bytes = static_cast<double>(largest) * static_cast<double>(itemsize_);
    stream_ = bytes * static_cast<double>(targets_.size()) > static_cast<double>(base::cache_bytes());
    // In verification mode small ones, too: so every test of them sees it.
    if ((stream_ || base::verifying()) && !runs_) readers_.note(plan_, targets_, self_, routes_ ? &*routes_ : nullptr);
    cost_ = 50 + 0.15 * bytes * static_cast<double>(1 + plan_.combined().size());
  }

  bool exchanges() const override { return crosses_; }
  void set_dying(const std::vector<bool>& dies) override { source_dies_ = dies[0]; }

  std::unique_ptr<UnderWay> begin(Frame& frame) const override { return begin(frame, true); }

  // Without the sums over processes, where these are taken for several steps together.
  std::unique_ptr<UnderWay> begin(Frame& frame, bool with_sums) const {
    auto out = std::make_unique<Exchanged>();
    const ShardBuffers& from = frame.slots[at(reads[0])];
    for (const ProcessSum& sum : sums_) {
      if (with_sums && sum.has(self_)) out->sums.push_back(start_sum(frame.run, sum, from));
    }
    if (runs_) {
      out->messages = runs_->begin(frame.run, call(frame.run, name_), from, out->targets, manner());
    } else if (distributed_) {
      start_exchange(frame, from, *out);
    }
    return out;
  }

  // Sums of several steps that the same processes take of the same dtype go as one.
  bool sums_with(const ReshardStep& other) const {
    auto same = [](const ProcessSum& a, const ProcessSum& b) { return a.group == b.group; };
    return !sums_.empty() && std::equal(sums_.begin(), sums_.end(), other.sums_.begin(), other.sums_.end(), same) &&
           combiner_->dtype() == other.combiner_->dtype() && staged_ == other.staged_ &&
           plan_.source().layout.reduction == other.plan_.source().layout.reduction;
  }
  struct JointSum {
    BufferPtr sums;
    std::vector<std::pair<std::int32_t, std::int64_t>> slices;  // by step: target shard, elements
    runtime::CommunicationPtr communication;
  };
  static std::vector<JointSum> start_sums(Frame& frame, const std::vector<std::unique_ptr<ReshardStep>>& steps) {
    std::vector<JointSum> out;
    const ReshardStep& first = *steps[0];
    for (std::size_t i = 0; i < first.sums_.size(); ++i) {
      if (!first.sums_[i].has(first.self_)) continue;
      JointSum joint;
      std::int64_t total = 0;
      for (const auto& step : steps) {
        std::int32_t target = step->sums_[i].target;
        joint.slices.emplace_back(target, size_of(step->plan_.target_shape(target)));
        total += joint.slices.back().second;
      }
      BufferPtr parts = frame.run.memory.allocate(total * first.part_item_);
      joint.sums = frame.run.memory.allocate(total * first.part_item_);
      auto* to = static_cast<char*>(parts->data());
      for (std::size_t k = 0; k < steps.size(); ++k) {
        auto [target, n] = joint.slices[k];
        const Source part = steps[k]->own_part(frame.run, target, n, frame.slots[at(steps[k]->reads[0])]);
        if (n > 0) std::memcpy(to, part.data, at(n * first.part_item_));
        to += n * first.part_item_;
      }
      joint.communication = first.start_reduction(frame.run, first.sums_[i], {parts->data(), parts}, joint.sums, total);
      out.push_back(std::move(joint));
    }
    return out;
  }
  static void finish_sums(Frame& frame, std::vector<JointSum>& sums,
                          const std::vector<std::unique_ptr<UnderWay>>& steps) {
    for (JointSum& joint : sums) {
      joint.communication->wait();
      const auto* from = static_cast<const char*>(joint.sums->data());
      std::int64_t total = 0;
      for (auto [target, n] : joint.slices) total += n;
      std::int64_t item = total == 0 ? 0 : joint.sums->nbytes() / total;
      for (std::size_t k = 0; k < steps.size(); ++k) {
        auto [target, n] = joint.slices[k];
        BufferPtr sum = frame.run.memory.allocate(n * item);
        if (n > 0) std::memcpy(sum->data(), from, at(n * item));
        from += n * item;
        static_cast<Exchanged&>(*steps[k]).sums.push_back({target, std::move(sum), nullptr});
      }
    }
  }

  void end(Frame& frame, UnderWay& under_way) const override {
    const ShardBuffers& from = frame.slots[at(reads[0])];
    auto& exchanged = static_cast<Exchanged&>(under_way);
    if (exchanged.messages) exchanged.messages->wait();
    if (runs_) {
      runs_->end(frame.run, from, exchanged.targets, manner());
      frame.slots.own(at(writes[0])) = std::move(exchanged.targets);
      return;
    }
    ShardBuffers to(plan_.target().first_local.size());
    for (RunningSum& sum : exchanged.sums) to[at(sum.target)] = finish_sum(frame.run, sum);
    std::vector<std::int32_t> open;
    for (auto k : targets_) {
      if (!to[at(k)]) to[at(k)] = shared(k, from);
      if (!to[at(k)]) open.push_back(k);
    }
    if (source_dies_) drop_unread(frame);
    SourceReaders::Counts unread = readers_of(frame, open);
    // What came from other processes goes shard by shard, as the shards of the result are made.
    Received& received = exchanged.received;
    received.resize(to.size());
    spread(static_cast<std::int64_t>(open.size()), cost_, [&](std::int64_t i) {
      std::size_t k = at(open[at(i)]);
      BufferPtr made = frame.run.memory.allocate(size_of(plan_.target_shape(open[at(i)])) * itemsize_);
      assemble(frame.run, open[at(i)], from, received[k], made->data());
      to[k] = std::move(made);
      received[k].clear();
      if (!unread.empty()) readers_.drop_read(open[at(i)], unread, frame.slots.own(at(reads[0])));
    });
    frame.slots.own(at(writes[0])) = std::move(to);
  }

  std::string label() const override {
    return str("reshard.", name_, " (", plan_.source().map.count, " -> ", plan_.target().map.count, " shards)");
  }
  double cost() const override { return cost_ * static_cast<double>(targets_.size()); }

 private:
  // By target shard: blocks that other processes sent, in the order in which its boxes and terms ask for them.
  using Received = std::vector<ShardBuffers>;

  struct RunningSum {
    std::int32_t target;
    BufferPtr sum;
    runtime::CommunicationPtr communication;
  };
  struct Exchanged final : UnderWay {
    ShardBuffers targets;  // of the result, where all is made of runs
    Received received;
    std::vector<RunningSum> sums;
    runtime::CommunicationPtr messages;
  };
  ReshardRuns::Manner manner() const { return {combiner_ ? &*combiner_ : nullptr, cost_, stream_}; }

  // Shards of the source of which this process makes shards of the result.
  void note_own_reads() {
    read_here_.resize(plan_.source().first_local.size());
    for (auto k : targets_) {
      if (plan_.is_identity(k) || routes_->summed(k)) continue;
      routes_->for_each_box(k, [&](const Box&, std::span<const Term> terms) {
        for (const auto& term : terms) {
          if (term.provider != self_) continue;
          for (auto shard : term.shards) read_here_[at(shard)] = true;
        }
      });
    }
  }
  // Of a source that nobody else reads, what went to other processes alone.
  void drop_unread(Frame& frame) const {
    const std::size_t v = at(reads[0]);
    if (read_here_.empty() || frame.slots.borrowed(v)) return;
    ShardBuffers& from = frame.slots.own(v);
    for (std::size_t shard = 0; shard < from.size(); ++shard) {
      if (!read_here_[shard]) from[shard] = nullptr;
    }
  }
  // By shard, how many shards of the result are still to be made of a source that nobody else reads; empty where it
  // stays.
  SourceReaders::Counts readers_of(const Frame& frame, std::span<const std::int32_t> open) const {
    const std::size_t v = at(reads[0]);
    if (!source_dies_ || frame.slots.borrowed(v)) return {};
    return readers_.of(open, frame.slots[v].size());
  }
  BufferPtr shared(std::int32_t k, const ShardBuffers& from) const {
    if (plan_.reduces() || plan_.is_identity(k)) return nullptr;
    std::int32_t source = plan_.equal_source(k);
    return source < 0 ? nullptr : from[at(source)];
  }

  // The box as rows of a shard of such strides, where it is that, and of rows that are long enough to be added one by
  // one.
  std::optional<Combiner::Rows> rows_of(const Box& box, const Dims& strides) const {
    constexpr std::int64_t kShortest = 256;  // bytes
    Combiner::Rows rows{1, 1, 0};
    std::size_t d = box.extent.size();
    while (d-- > 0) {
      rows.length *= box.extent[d];
      if (box.extent[d] != box.source_shape[d]) break;
    }
    for (std::size_t k = 0; k < d; ++k) {
      if (box.extent[k] == 1) continue;
      if (rows.count > 1) return std::nullopt;
      rows.count = box.extent[k];
      rows.stride = strides[k];
    }
    return rows.length * itemsize_ < kShortest ? std::nullopt : std::optional(rows);
  }

  // The box of these shards, reduced, as contiguous memory: `to` (when not null), or a shard itself, or `scratch`. In
  // programs over processes it has the dtype in which sums are carried: there the last stage rounds, once.
  const void* block(Run& run, const ShardBuffers& from, std::span<const std::int32_t> shards, const Box& box, void* to,
                    BufferPtr& scratch) const {
    std::int64_t n = size_of(box.extent);
    Dims strides = core::contiguous_strides(box.source_shape, itemsize_);
    bool direct = is_one_run(box.extent, box.source_shape);
    const auto rows = direct || staged_ || shards.size() == 1 ? std::nullopt : rows_of(box, strides);
    std::vector<const void*> blocks;
    ShardBuffers copies;
    for (auto shard : shards) {
      const BufferPtr& b = from[at(shard)];
      TESSERA_CHECK(b != nullptr, str("reshard: shard ", shard, " is not here"));
      const char* start = element(b->data(), box.in_source, strides);
      if (!direct && !rows) {
        copies.push_back(run.memory.allocate(n * itemsize_));
        kernels::copy_strided(copies.back()->data(), core::contiguous_strides(box.extent, itemsize_), start, strides,
                              box.extent, itemsize_);
        start = static_cast<const char*>(copies.back()->data());
      }
      blocks.push_back(start);
    }
    if (blocks.size() == 1 && !staged_) {
      if (!direct) scratch = copies[0];
      return blocks[0];
    }
    if (to == nullptr) {
      scratch = run.memory.allocate(n * part_item_);
      to = scratch->data();
    }
    if (staged_) {
      combiner_->combine_partly(blocks, to, n);
    } else if (rows) {
      combiner_->combine(blocks, to, *rows);
    } else {
      combiner_->combine(blocks, to, n);
    }
    return to;
  }

  // The same in memory of its own, or a shard's.
  Source contiguous(Run& run, const ShardBuffers& from, std::span<const std::int32_t> shards, const Box& box) const {
    BufferPtr scratch;
    const void* data = block(run, from, shards, box, nullptr, scratch);
    return {data, scratch ? scratch : from[at(shards[0])]};
  }

  void assemble(Run& run, std::int32_t k, const ShardBuffers& from, const ShardBuffers& received, void* to) const {
    Shape shape = plan_.target_shape(k);
    if (plan_.is_identity(k)) return identity_->fill_identity(to, size_of(shape));
    if (plan_.keeps_tiles()) identity_->fill_identity(to, size_of(shape));
    Dims strides = core::contiguous_strides(shape, itemsize_);
    std::size_t next = 0;
    // A box that comes to be in the tile, or as a block of its own.
    auto place = [&](const Box& box, const void* result) {
      void* start = element(to, box.in_target, strides);
      if (result == start) return;
      kernels::copy_strided(start, strides, result, core::contiguous_strides(box.extent, itemsize_), box.extent,
                            itemsize_, stream_);
    };
    auto whole = [&](const Box& box) {
      return is_one_run(box.extent, shape) ? element(to, box.in_target, strides) : nullptr;
    };
    if (distributed_) {
      return routes_->for_each_box(k, [&](const Box& box, std::span<const Term> terms) {
        BufferPtr scratch;
        place(box, combined_terms(run, box, terms, from, received, next, whole(box), scratch));
      });
    }
    std::vector<std::int32_t> shards(plan_.combined().size());
    plan_.for_each_box(k, [&](const Box& box) {
      if (!plan_.reduces()) {
        const BufferPtr& source = from[at(box.shard)];
        TESSERA_CHECK(source != nullptr, str("reshard: shard ", box.shard, " is not here"));
        Dims source_strides = core::contiguous_strides(box.source_shape, itemsize_);
        return kernels::copy_strided(element(to, box.in_target, strides), strides,
                                     element(source->data(), box.in_source, source_strides), source_strides, box.extent,
                                     itemsize_, stream_);
      }
      for (std::size_t i = 0; i < shards.size(); ++i) {
        shards[i] = static_cast<std::int32_t>(box.shard) + plan_.combined()[i];
      }
      BufferPtr scratch;
      place(box, block(run, from, shards, box, whole(box), scratch));
    });
  }

  // Own and received parts of a box, combined.
  const void* combined_terms(Run& run, const Box& box, std::span<const Term> terms, const ShardBuffers& from,
                             const ShardBuffers& received, std::size_t& next, void* to, BufferPtr& scratch) const {
    std::vector<const void*> blocks;
    ShardBuffers keep;
    for (const auto& term : terms) {
      if (term.provider == self_) {
        blocks.push_back(block(run, from, term.shards, box, nullptr, keep.emplace_back()));
      } else {
        blocks.push_back(received[next++]->data());
      }
    }
    if (blocks.size() == 1 && !staged_) {
      scratch = keep.empty() ? nullptr : keep[0];
      return blocks[0];
    }
    std::int64_t n = size_of(box.extent);
    if (to == nullptr) {
      scratch = run.memory.allocate(n * itemsize_);
      to = scratch->data();
    }
    if (staged_) {
      combiner_->combine_wide(blocks, to, n);
    } else {
      combiner_->combine(blocks, to, n);
    }
    return to;
  }

  // --- sums over the processes that want them ---------------------------------------------------------------------

  // What this process has of a target shard, as one block.
  RunningSum start_sum(Run& run, const ProcessSum& sum, const ShardBuffers& from) const {
    const std::int64_t n = size_of(plan_.target_shape(sum.target));
    RunningSum out{sum.target, run.memory.allocate(n * part_item_), nullptr};
    out.communication = start_reduction(run, sum, own_part(run, sum.target, n, from), out.sum, n);
    return out;
  }

  runtime::CommunicationPtr start_reduction(Run& run, const ProcessSum& sum, const Source& part, const BufferPtr& to,
                                            std::int64_t n) const {
    runtime::Collectives::Reducer reducer{staged_ ? combiner_->wide() : combiner_->dtype(),
                                          plan_.source().layout.reduction,
                                          [this](std::span<const void* const> blocks, void* to, std::int64_t count) {
                                            across_->combine(blocks, to, count);
                                          }};
    TESSERA_CHECK(run.collectives != nullptr, "a program that spans processes needs a transport");
    return run.collectives->start_all_reduce(call(run, name_), sum.group, part, {to->data(), to}, n, reducer);
  }

  Source own_part(Run& run, std::int32_t target, std::int64_t n, const ShardBuffers& from) const {
    Shape shape = plan_.target_shape(target);
    Dims strides = core::contiguous_strides(shape, part_item_);
    BufferPtr part;
    Source whole(nullptr);
    routes_->for_each_box(target, [&](const Box& box, std::span<const Term> terms) {
      for (const auto& term : terms) {
        if (term.provider != self_) continue;
        BufferPtr scratch;
        if (box.extent == shape) {
          whole = contiguous(run, from, term.shards, box);
          return;
        }
        if (!part) part = run.memory.allocate(n * part_item_);
        void* start = element(part->data(), box.in_target, strides);
        const void* result =
            block(run, from, term.shards, box, is_one_run(box.extent, shape) ? start : nullptr, scratch);
        if (result == start) continue;
        kernels::copy_strided(start, strides, result, core::contiguous_strides(box.extent, part_item_), box.extent,
                              part_item_);
      }
    });
    return whole.data == nullptr && part ? Source(part->data(), part) : whole;
  }

  BufferPtr finish_sum(Run& run, RunningSum& sum) const {
    if (sum.communication) sum.communication->wait();
    if (!staged_) return std::move(sum.sum);
    const std::int64_t n = sum.sum->nbytes() / part_item_;
    BufferPtr rounded = run.memory.allocate(n * itemsize_);
    const void* block = sum.sum->data();
    combiner_->combine_wide({&block, 1}, rounded->data(), n);
    return rounded;
  }

  // Sends what other processes need of this one's shards and receives what its own results need of theirs. Sender and
  // receiver walk target shards, boxes and terms in the same order.
  void start_exchange(Frame& frame, const ShardBuffers& from, Exchanged& out) const {
    std::vector<runtime::Collectives::Message> sends;
    std::vector<runtime::Collectives::Receipt> receipts;
    out.received.resize(plan_.target().holders.size());
    routes_->for_each_move([&](const ReshardRoutes::Move& m) {
      std::int64_t bytes = size_of(m.box.extent) * part_item_;
      if (m.reader == self_) {
        ShardBuffers& received = out.received[m.target];
        received.push_back(frame.run.memory.allocate(bytes));
        receipts.push_back({m.term.provider, received.back()->data(), bytes, received.back()});
      } else {
        Source data = contiguous(frame.run, from, m.term.shards, m.box);
        sends.push_back({m.reader, data.data, bytes, std::move(data.owner)});
      }
    });
    if (sends.empty() && receipts.empty()) return;
    TESSERA_CHECK(frame.run.collectives != nullptr, "a program that spans processes needs a transport");
    out.messages = frame.run.collectives->start_exchange(call(frame.run, name_), sends, receipts);
  }

  std::vector<bool> summed_targets() const {
    std::vector<bool> out(plan_.target().holders.size());
    for (const ProcessSum& s : sums_) out[at(s.target)] = true;
    return out;
  }

  ReshardPlan plan_;
  std::optional<ReshardRoutes> routes_;  // of a program over processes
  std::optional<Combiner> combiner_;
  std::optional<Combiner> identity_;
  std::optional<Combiner> across_;  // of what processes have made of their own shards
  bool staged_ = false;             // which is wider than the result
  std::vector<ProcessSum> sums_;
  std::int64_t itemsize_;
  std::int64_t part_item_ = 0;
  std::int32_t self_;
  bool distributed_;
  bool crosses_ = false;  // processes exchange something
  std::string name_;
  std::vector<std::int32_t> targets_;        // shards of the result that this process holds
  std::unique_ptr<const ReshardRuns> runs_;  // null where shards are worked out in each run
  SourceReaders readers_;                    // of large values
  std::vector<bool> read_here_;              // by shard of the source; empty: all may be
  bool source_dies_ = false;
  double cost_ = 0;
  bool stream_ = false;  // all results together leave the caches
};

class JointReshardStep final : public ExchangeStep {
 public:
  JointReshardStep(const ir::Graph& g, const ir::Eqn& e, Context& context) {
    reads = e.in;
    writes = e.out;
    for (std::size_t i = 0; i < e.in.size(); ++i) {
      steps_.push_back(std::make_unique<ReshardStep>(g, ir::Eqn{e.op, e.attrs, {e.in[i]}, {e.out[i]}, e.loc}, context));
      steps_.back()->loc = e.loc;
    }
    packed_ = std::all_of(steps_.begin(), steps_.end(), [&](const auto& s) { return steps_[0]->sums_with(*s); });
  }

  bool exchanges() const override {
    return std::any_of(steps_.begin(), steps_.end(), [](const auto& s) { return s->exchanges(); });
  }

  std::unique_ptr<UnderWay> begin(Frame& frame) const override {
    auto out = std::make_unique<AllUnderWay>();
    for (const auto& s : steps_) out->steps.push_back(s->begin(frame, !packed_));
    if (packed_) out->sums = ReshardStep::start_sums(frame, steps_);
    return out;
  }

  void end(Frame& frame, UnderWay& under_way) const override {
    auto& all = static_cast<AllUnderWay&>(under_way);
    ReshardStep::finish_sums(frame, all.sums, all.steps);
    for (std::size_t i = 0; i < steps_.size(); ++i) steps_[i]->end(frame, *all.steps[i]);
  }

  std::string label() const override { return str(steps_[0]->label(), " and ", steps_.size() - 1, " more"); }
  double cost() const override {
    double sum = 0;
    for (const auto& s : steps_) sum += s->cost();
    return sum;
  }

 private:
  struct AllUnderWay final : UnderWay {
    std::vector<std::unique_ptr<UnderWay>> steps;
    std::vector<ReshardStep::JointSum> sums;
  };

  std::vector<std::unique_ptr<ReshardStep>> steps_;
  bool packed_ = false;
};

}  // namespace

StepPtr make_reshard_step(const ir::Graph& g, const ir::Eqn& e, Context& context) {
  if (e.op != &ops::def::reshard) return nullptr;
  if (e.in.size() > 1) return std::make_unique<JointReshardStep>(g, e, context);
  return std::make_unique<ReshardStep>(g, e, context);
}

}  // namespace tessera::cpu
