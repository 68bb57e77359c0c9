// SPDX-License-Identifier: Apache-2.0
// Steps that compute: one kernel call a distinct combination of operand shards.
#include <algorithm>
#include <array>
#include <map>

#include "base/check.h"
#include "base/machine.h"
#include "base/strings.h"
#include "engines/cpu/adapters/kernel_table.h"
#include "engines/cpu/kernels/copy_kernels.h"
#include "engines/cpu/step_program.h"
#include "engines/cpu/steps/fixed_program.h"
#include "engines/cpu/steps/unit.h"
#include "ir/op_def.h"
#include "ops/control/calls.h"
#include "ops/ops.h"
#include "tessera/config.h"

namespace tessera::cpu {

namespace {

// Which kernel runs on which shards.
struct Work {
  std::vector<std::int32_t> in;           // works x operands: shard numbers
  std::vector<std::int32_t> out;          // works x results
  std::vector<std::int32_t> variant;      // by work; empty when there is one kernel
  std::vector<std::int32_t> of_position;  // of effects: the work of each mesh position of this process, else -1
  std::int64_t count = 0;
};

struct Variant {
  Kernel kernel;
  std::vector<std::int64_t> out_bytes;
  bool empty = false;  // no result has elements
};

auto copying(const std::vector<std::int64_t>& bytes) {
  return [bytes](const void* const* in, void* const* out) {
    for (std::size_t j = 0; j < bytes.size(); ++j) kernels::copy_bytes(out[j], in[j], bytes[j]);
  };
}

class ComputeStep final : public Step {
  // Where the operands and results of its works are: each work's operands, then its results.
  class Open final : public OpenStep {
   public:
    Open(const ComputeStep& step, Frame& frame) : step_(step), width_(step.reads.size() + step.writes.size()) {
      const Work& works = step.work_;
      const std::size_t operands = step.reads.size(), results = step.writes.size();
      for (std::size_t j = 0; j < results; ++j) frame.slots.own(at(step.writes[j])).resize(at(step.out_counts_[j]));
      if (const auto needed = width_ * at(works.count); needed > fixed_.size()) {
        dynamic_.resize(needed);
        pointers_ = dynamic_.data();
      }
      step.point_at_operands(frame, pointers_);
      // Otherwise results are new memory, for all works together.
      const bool one_by_one = !step.one_each_ || !frame.into.empty() || step.reuses(frame);
      for (std::int64_t k = 0; one_by_one && k < works.count; ++k) {
        step.make_results(frame, k, pointers_ + at(k) * width_ + operands, scratch_);
      }
      for (std::size_t j = 0; step.one_each_ && j < results; ++j) {
        ShardBuffers& shards = frame.slots.own(at(step.writes[j]));
        frame.run.memory.allocate(step.variants_[0].out_bytes[j], shards);
        for (std::int64_t k = 0; k < works.count; ++k) {
          pointers_[at(k) * width_ + operands + j] = shards[at(works.out[at(k) * results + j])]->data();
        }
      }
      idle_ = step.untaken(frame.run);
    }
    Open(const Open&) = delete;
    Open& operator=(const Open&) = delete;

    void work(std::int64_t k) const override {
      if (!idle_.empty() && idle_[at(k)]) return;
      const Variant& v = step_.variant(k);
      void** p = pointers_ + at(k) * width_;
      if (!v.empty) v.kernel.run(p, p + step_.reads.size());
    }

   private:
    const ComputeStep& step_;
    std::size_t width_;
    std::array<void*, 32> fixed_;
    std::vector<void*> dynamic_;
    void** pointers_ = fixed_.data();
    ShardBuffers scratch_;
    std::vector<bool> idle_;
  };

 public:
  ComputeStep(std::string name, bool serial, Work work, std::vector<Variant> variants,
              std::vector<std::int64_t> out_counts)
      : serial_(serial),
        name_(std::move(name)),
        work_(std::move(work)),
        variants_(std::move(variants)),
        out_counts_(std::move(out_counts)) {
    for (const auto& v : variants_) cost_ = std::max(cost_, v.kernel.cost);
    shares_ = !variants_.empty() &&
              std::all_of(variants_.begin(), variants_.end(), [](const Variant& v) { return v.kernel.shares; });
    // ShardBuffers of different shapes may differ in this: a row of one element needs no transposing.
    for (auto& v : variants_) {
      if (!shares_ && v.kernel.shares) v.kernel.run = copying(v.out_bytes);
    }
    one_each_ = variants_.size() == 1 && !shares_;
    for (std::size_t j = 0; j < out_counts_.size(); ++j) {
      std::vector<bool> made(at(out_counts_[j]));
      for (std::int64_t k = 0; k < work_.count; ++k) made[at(work_.out[at(k) * out_counts_.size() + j])] = true;
      one_each_ =
          one_each_ && out_counts_[j] == work_.count && std::find(made.begin(), made.end(), false) == made.end();
    }
  }

  void run(Frame& frame) const override {
    if (shares_) return share(frame);
    const Open open(*this, frame);
    if (serial_) {
      for (std::int64_t k = 0; k < work_.count; ++k) open.work(k);
    } else {
      spread(work_.count, cost_, [&](std::int64_t k) { open.work(k); });
    }
  }

  // Effects keep their order, and those of one device for all are no works.
  std::optional<Works> works(std::size_t most) const override {
    if (serial_ || !work_.of_position.empty() || at(work_.count) > most) return std::nullopt;
    Works out{.list = {}, .shared = {}, .cost = cost_};
    const std::size_t operands = reads.size(), results = writes.size();
    std::vector<std::vector<bool>> made;
    for (auto n : out_counts_) made.emplace_back(at(n));
    for (std::size_t k = 0; k < at(work_.count); ++k) {
      Works::Work work;
      for (std::size_t i = 0; i < operands; ++i) work.reads.push_back({reads[i], work_.in[k * operands + i]});
      for (std::size_t j = 0; j < results; ++j) {
        const std::int32_t shard = work_.out[k * results + j];
        if (shares_) {
          out.shared.push_back({{writes[j], shard}, work.reads[j]});
        } else if (!made[j][at(shard)]) {
          made[j][at(shard)] = true;
          work.writes.push_back({writes[j], shard});
        }
      }
      if (!shares_) out.list.push_back(std::move(work));
    }
    return out;
  }

  std::unique_ptr<OpenStep> open(Frame& frame) const override {
    if (!shares_) return std::make_unique<Open>(*this, frame);
    share(frame);
    return nullptr;
  }

  bool fix(FixedBuilder& to) const override {
    const std::size_t operands = reads.size(), results = writes.size();
    if (shares_) {
      for (std::size_t j = 0; j < results; ++j) {
        std::vector<std::int32_t> shard_of(at(out_counts_[j]), -1);
        for (std::size_t k = 0; k < at(work_.count); ++k) {
          shard_of[at(work_.out[k * results + j])] = work_.in[k * operands + j];
        }
        if (!to.alias(writes[j], reads[j], shard_of)) return false;
      }
      return true;
    }
    // Effects happen where devices chose them, functions of the host when their iteration comes.
    if (serial_ || !work_.of_position.empty() || worth_spreading(work_.count, cost_)) return false;
    for (std::size_t j = 0; j < results; ++j) {
      std::vector<bool> made(at(work_.count));
      if (out_counts_[j] != work_.count) return false;
      for (std::size_t k = 0; k < made.size(); ++k) made[at(work_.out[k * results + j])] = true;
      if (std::find(made.begin(), made.end(), false) != made.end()) return false;
    }
    std::vector<FixedCall> calls;
    for (std::size_t k = 0; k < at(work_.count); ++k) {
      const Variant& v = variant(static_cast<std::int64_t>(k));
      calls.push_back({v.empty ? nullptr : &v.kernel.run,
                       v.kernel.in_place,
                       {work_.in.data() + k * operands, operands},
                       {work_.out.data() + k * results, results},
                       v.out_bytes});
    }
    return to.calls(*this, calls);
  }

  std::string label() const override {
    bool fast = std::all_of(variants_.begin(), variants_.end(), [](const Variant& v) { return v.kernel.fast; });
    return str(name_, " (", work_.count, work_.count == 1 ? " shard" : " shards",
               shares_ ? ", shared"
               : fast  ? ""
                       : ", reference",
               ")");
  }
  double cost() const override { return shares_ ? 0 : cost_ * static_cast<double>(work_.count); }

  void set_dying(const std::vector<bool>& dies) override {
    // Memory can go from an operand to the result only where one computation alone reads the shard.
    reusable_.assign(reads.size(), false);
    for (std::size_t i = 0; i < reads.size(); ++i) {
      if (!dies[i] || writes.empty()) continue;
      std::vector<std::int32_t> shards;
      for (std::int64_t k = 0; k < work_.count; ++k) shards.push_back(work_.in[at(k) * reads.size() + i]);
      std::sort(shards.begin(), shards.end());
      reusable_[i] = std::adjacent_find(shards.begin(), shards.end()) == shards.end();
    }
  }

 private:
  const Variant& variant(std::int64_t k) const {
    return variants_[work_.variant.empty() ? 0 : at(work_.variant[at(k)])];
  }

  // Whether an operand's memory may go to a result: one's that is the program's own.
  bool reuses(const Frame& frame) const {
    for (std::size_t i = 0; i < reusable_.size(); ++i) {
      if (reusable_[i] && !frame.slots.borrowed(at(reads[i]))) return true;
    }
    return false;
  }

  // By work: true where no device that chose this program does it; empty where all are done.
  std::vector<bool> untaken(const Run& run) const {
    if (run.taken == nullptr || work_.of_position.empty()) return {};
    std::vector<bool> out(at(work_.count), true);
    for (std::size_t p = 0; p < work_.of_position.size(); ++p) {
      if (work_.of_position[p] >= 0 && (*run.taken)[p]) out[at(work_.of_position[p])] = false;
    }
    return out;
  }

  // Each work's pointers are its operands', then its results'.
  void point_at_operands(const Frame& frame, void** pointers) const {
    std::size_t operands = reads.size();
    std::size_t width = operands + writes.size();
    for (std::size_t i = 0; i < operands; ++i) {
      const ShardBuffers& shards = frame.slots[at(reads[i])];
      for (std::size_t k = 0; k < at(work_.count); ++k) {
        const BufferPtr& b = shards[at(work_.in[k * operands + i])];
        TESSERA_CHECK(b != nullptr, str(name_, ": operand ", i, " lacks a shard"));
        pointers[k * width + i] = b->data();
      }
    }
  }

  // The results of work k, but those that are made for all works together.
  void make_results(Frame& frame, std::int64_t k, void** pointers, ShardBuffers& scratch) const {
    const Variant& v = variant(k);
    for (std::size_t j = 0; j < writes.size(); ++j) {
      BufferPtr& result = frame.slots.own(at(writes[j]))[at(work_.out[at(k) * writes.size() + j])];
      // A result that several computations give (equal by its layout) is kept from the first one.
      bool extra = result != nullptr;
      BufferPtr b = extra ? nullptr : wanted(frame, k, j, v.out_bytes[j]);
      if (!b && !extra && v.kernel.in_place != 0) b = reuse(frame, k, v.kernel.in_place, v.out_bytes[j]);
      if (!b && one_each_) continue;
      if (!b) b = frame.run.memory.allocate(v.out_bytes[j]);
      pointers[j] = b->data();
      (extra ? scratch.emplace_back() : result) = std::move(b);
    }
  }

  // The memory in which the shard is wanted, if any.
  BufferPtr wanted(const Frame& frame, std::int64_t k, std::size_t j, std::int64_t nbytes) const {
    if (frame.into.empty() || frame.into[at(writes[j])].empty()) return nullptr;
    const BufferPtr& b = frame.into[at(writes[j])][at(work_.out[at(k) * writes.size() + j])];
    return b && b->nbytes() == nbytes ? b : nullptr;
  }

  BufferPtr reuse(Frame& frame, std::int64_t k, std::uint64_t operands, std::int64_t nbytes) const {
    for (std::size_t i = 0; i < reads.size() && i < 64; ++i) {
      if (!reusable_[i] || !(operands >> i & 1) || frame.slots.borrowed(at(reads[i]))) continue;
      BufferPtr& b = frame.slots.own(at(reads[i]))[at(work_.in[at(k) * reads.size() + i])];
      if (b && b->nbytes() == nbytes && sole_owner(b)) return std::move(b);
    }
    return nullptr;
  }

  void share(Frame& frame) const {
    for (std::size_t j = 0; j < writes.size(); ++j) {
      const ShardBuffers& from = frame.slots[at(reads[j])];
      ShardBuffers& to = frame.slots.own(at(writes[j]));
      to.resize(at(out_counts_[j]));
      for (std::int64_t k = 0; k < work_.count; ++k) {
        to[at(work_.out[at(k) * writes.size() + j])] = from[at(work_.in[at(k) * reads.size() + j])];
      }
    }
  }

  bool serial_;
  std::string name_;
  Work work_;
  std::vector<Variant> variants_;
  std::vector<std::int64_t> out_counts_;
  std::vector<bool> reusable_;
  bool shares_ = false;
  bool one_each_ = false;  // one kernel, and every shard of every result is made by one work
  double cost_ = 0;
};

// Results that are known at compile time.
class ConstantStep final : public Step {
 public:
  ConstantStep(std::string name, std::vector<ShardBuffers> values)
      : name_(std::move(name)), values_(std::move(values)) {}
  void run(Frame& frame) const override {
    for (std::size_t j = 0; j < writes.size(); ++j) frame.slots.borrow(at(writes[j]), values_[j]);
  }
  std::optional<Works> works(std::size_t) const override { return Works(); }
  std::unique_ptr<OpenStep> open(Frame& frame) const override {
    run(frame);
    return nullptr;
  }
  bool fix(FixedBuilder& to) const override {
    for (std::size_t j = 0; j < writes.size(); ++j) {
      if (!to.known(writes[j], values_[j])) return false;
    }
    return true;
  }
  std::string label() const override { return name_ + " (known)"; }

 private:
  std::string name_;
  std::vector<ShardBuffers> values_;
};

// Effects happen once a device, in mesh order, unless one device acts for all; everything else once a distinct value.
Work plan_work(const ir::Graph& g, const Unit& unit, Context& context, std::vector<std::int32_t>& positions) {
  Work work;
  auto devices = context.mesh().num_positions();
  if (unit.effect) work.of_position.assign(at(devices), -1);
  if (unit.effect && !unit.once) {
    for (std::int32_t p = 0; p < devices; ++p) {
      if (!context.local(p)) continue;
      work.of_position[at(p)] = static_cast<std::int32_t>(positions.size());
      positions.push_back(p);
    }
  } else {
    ir::AxisMask mask = 0;
    for (auto v : unit.out.empty() ? unit.in : unit.out) mask |= g.layout(v).distinct();
    const auto& distinct = context.combinations(mask);
    for (std::size_t c = 0; c < distinct->first_local.size(); ++c) {
      if (distinct->first_local[c] < 0) continue;
      for (std::size_t p = 0; p < work.of_position.size(); ++p) {
        if (distinct->map.of_position[p] == static_cast<std::int32_t>(c)) {
          work.of_position[p] = static_cast<std::int32_t>(positions.size());
        }
      }
      positions.push_back(distinct->first_local[c]);
    }
  }
  work.count = static_cast<std::int64_t>(positions.size());
  auto shards = [&](const std::vector<ir::ValueId>& values, std::vector<std::int32_t>& to) {
    to.resize(positions.size() * values.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto& map = context.table(g.layout(values[i]))->map;
      for (std::size_t k = 0; k < positions.size(); ++k) {
        to[k * values.size() + i] = map.of_position[at(positions[k])];
      }
    }
  };
  shards(unit.in, work.in);
  shards(unit.out, work.out);
  return work;
}

struct Local {
  ir::Types in;
  ir::Types out;
  std::vector<Dims> in_offsets;
  std::vector<Dims> out_offsets;
};
Local local_at(const ir::Graph& g, const Unit& unit, const Context& context, std::int32_t position) {
  Local l;
  auto side = [&](const std::vector<ir::ValueId>& values, ir::Types& types, std::vector<Dims>& offsets) {
    for (auto v : values) {
      auto tile = runtime::tile_at(g.type(v).shape, g.layout(v), context.mesh(), position);
      types.push_back({g.type(v).dtype, std::move(tile.shape), g.type(v).weak});
      offsets.push_back(std::move(tile.offset));
    }
  };
  side(unit.in, l.in, l.in_offsets);
  side(unit.out, l.out, l.out_offsets);
  return l;
}

Variant make_variant(const Unit& unit, const Local& l, const ir::Attrs& attrs) {
  Variant v;
  v.kernel = unit.kernel(l.in, l.out, attrs);
  v.empty = !unit.effect;
  for (const auto& t : l.out) {
    v.out_bytes.push_back(t.nbytes());
    v.empty = v.empty && t.size() == 0;
  }
  return v;
}

// One variant for each different set of local types and attributes.
std::vector<Variant> make_variants(const ir::Graph& g, const Unit& unit, const Context& context,
                                   const std::vector<std::int32_t>& positions, Work& work) {
  if (positions.empty()) return {};
  bool all_even = true;
  for (const auto* side : {&unit.in, &unit.out}) {
    for (auto v : *side) all_even = all_even && even(g.type(v).shape, g.layout(v), context.mesh());
  }
  std::vector<Variant> variants;
  if (all_even && !unit.follows_offsets()) {
    Local l = local_at(g, unit, context, positions[0]);
    variants.push_back(make_variant(unit, l, unit.remapped(l.in, l.out, l.in_offsets, l.out_offsets)));
    return variants;
  }
  std::map<std::pair<std::vector<Shape>, std::size_t>, std::vector<std::pair<ir::Attrs, std::int32_t>>> known;
  for (auto p : positions) {
    Local l = local_at(g, unit, context, p);
    ir::Attrs attrs = unit.remapped(l.in, l.out, l.in_offsets, l.out_offsets);
    std::vector<Shape> shapes;
    for (const auto* side : {&l.in, &l.out}) {
      for (const auto& t : *side) shapes.push_back(t.shape);
    }
    auto& bucket = known[{std::move(shapes), ir::hash_of(attrs)}];
    auto it = std::find_if(bucket.begin(), bucket.end(), [&](const auto& e) { return ir::equal(e.first, attrs); });
    if (it == bucket.end()) {
      variants.push_back(make_variant(unit, l, attrs));
      bucket.emplace_back(attrs, static_cast<std::int32_t>(variants.size()) - 1);
      it = bucket.end() - 1;
    }
    work.variant.push_back(it->second);
  }
  if (variants.size() == 1) work.variant.clear();
  return variants;
}

// Constants are worked out now; large ones that a kernel can make (iota) would only hold memory.
StepPtr constant_step(const ComputeStep& step, std::size_t values, Context& context) {
  Run run{*context.memory()};
  Frame frame{run, Slots(values), {}};
  step.run(frame);
  std::vector<ShardBuffers> results;
  for (auto v : step.writes) results.push_back(frame.slots[at(v)]);
  auto known = std::make_unique<ConstantStep>(step.label(), std::move(results));
  known->writes = step.writes;
  return known;
}

// What a step makes for all devices comes before what reads it: from the cache's size on it is gone from there by then.
void store_around_caches(std::vector<Variant>& variants, std::int64_t works) {
  for (auto& v : variants) {
    double bytes = 0;  // which may be more than can be had
    for (auto n : v.out_bytes) bytes += static_cast<double>(n) * static_cast<double>(works);
    if (v.kernel.stream && bytes >= static_cast<double>(base::cache_bytes())) v.kernel.run = v.kernel.stream;
  }
}

}  // namespace

StepPtr make_unit_step(const ir::Graph& g, const Unit& unit, Context& context) {
  std::vector<std::int32_t> positions;
  Work work = plan_work(g, unit, context, positions);
  auto variants = make_variants(g, unit, context, positions, work);
  store_around_caches(variants, work.count);
  std::vector<std::int64_t> out_counts;
  for (auto v : unit.out) out_counts.push_back(context.table(g.layout(v))->map.count);
  std::int64_t bytes = 0;
  for (const auto& v : variants) {
    for (auto n : v.out_bytes) bytes += n;
  }
  auto step = std::make_unique<ComputeStep>(unit.name(), unit.serial, std::move(work), std::move(variants),
                                            std::move(out_counts));
  step->reads = unit.in;
  step->writes = unit.out;
  step->set_dying(std::vector<bool>(unit.in.size()));
  constexpr std::int64_t kSmall = 4096;
  bool known = unit.in.empty() && !unit.effect && (bytes <= kSmall || unit.name() == "constant");
  return known ? constant_step(*step, g.num_values(), context) : std::move(step);
}

namespace {
class EqnUnit final : public Unit {
 public:
  explicit EqnUnit(const ir::Graph& g, const ir::Eqn& e) : g_(g), e_(e) {
    in = e.in;
    out = e.out;
    effect = e.op->traits().effect;
    // Functions of the host may be the user's, who expects no threads.
    const auto* callback = e.attrs ? ir::get_if<ops::Callback>(e.attrs) : nullptr;
    serial = effect || (callback != nullptr && callback->batch_dims == 0);
    once = callback != nullptr && callback->once;
  }
  std::string name() const override { return std::string(e_.op->name()); }
  // Asking each of thousands of shards takes time, and these two are most of all equations that have a remap.
  bool follows_offsets() const override {
    return e_.op->remaps() && e_.op != &ops::def::reshape && e_.op != &ops::def::broadcast_in_dim;
  }
  ir::Attrs remapped(ir::TypeSpan local_in, ir::TypeSpan local_out, std::span<const Dims> in_offsets,
                     std::span<const Dims> out_offsets) const override {
    if (!e_.op->remaps()) return e_.attrs;
    ir::Types global_in;
    ir::Types global_out;
    for (auto v : e_.in) global_in.push_back(g_.type(v));
    for (auto v : e_.out) global_out.push_back(g_.type(v));
    return e_.op->remap({global_in, global_out, local_in, local_out, in_offsets, out_offsets}, e_.attrs);
  }
  Kernel kernel(ir::TypeSpan local_in, ir::TypeSpan local_out, const ir::Attrs& attrs) const override {
    return KernelTable::get().find({*e_.op, attrs, local_in, local_out, config().deterministic});
  }

 private:
  const ir::Graph& g_;
  const ir::Eqn& e_;
};
}  // namespace

StepPtr make_compute_step(const ir::Graph& g, const ir::Eqn& e, Context& context) {
  return make_unit_step(g, EqnUnit(g, e), context);
}

}  // namespace tessera::cpu
