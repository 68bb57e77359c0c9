// SPDX-License-Identifier: Apache-2.0
// Steps that run nested programs: branches and loops. Nested programs have the layouts of their operands, so
// shards pass in and out as they are.
#include <algorithm>

#include "base/check.h"
#include "base/strings.h"
#include "engines/cpu/kernels/copy_kernels.h"
#include "engines/cpu/passes/unroll.h"
#include "engines/cpu/step_program.h"
#include "engines/cpu/steps/fixed_ops.h"
#include "engines/cpu/steps/fixed_program.h"
#include "ops/collective/manual.h"
#include "ops/define_op.h"
#include "ops/shared_attrs.h"
#include "tessera/error.h"

namespace tessera::cpu {

namespace {

using ProgramPtr = std::shared_ptr<const Program>;

// What all of them share: operands by value number, given away when nobody reads them later.
class NestedStep : public Step {
 public:
  NestedStep(const ir::Eqn& e) : name_(e.op->name()) {
    reads = e.in;
    writes = e.out;
    dies_.resize(reads.size());
  }
  void set_dying(const std::vector<bool>& dies) override {
    dies_ = dies;
    // A value that is several operands stays until the last of them has it.
    for (std::size_t i = 0; i < reads.size(); ++i) {
      for (std::size_t j = i + 1; j < reads.size(); ++j) {
        if (reads[i] == reads[j]) dies_[i] = false;
      }
    }
  }

 protected:
  ShardBuffers take(Frame& frame, std::size_t operand) const {
    auto v = at(reads[operand]);
    return dies_[operand] ? frame.slots.take(v) : frame.slots[v];
  }
  std::vector<ShardBuffers> take(Frame& frame, std::size_t first, std::size_t count) const {
    std::vector<ShardBuffers> out;
    for (std::size_t i = 0; i < count; ++i) out.push_back(take(frame, first + i));
    return out;
  }
  void give(Frame& frame, std::vector<ShardBuffers> results) const {
    for (std::size_t j = 0; j < writes.size(); ++j) frame.slots.own(at(writes[j])) = std::move(results[j]);
  }
  std::string nested(const std::string& what, const Program& p) const {
    std::string out = str("\n  ", what, ":\n");
    std::string text = p.text();
    for (std::size_t begin = 0; begin < text.size();) {
      std::size_t end = text.find('\n', begin);
      out += "    " + text.substr(begin, end - begin) + "\n";
      begin = end + 1;
    }
    return out;
  }

  std::string name_;
  std::vector<bool> dies_;
};

bool communicates_over(const ir::Graph& g, ir::AxisMask axes);
bool communicates_over(const ir::Eqn& e, ir::AxisMask axes) {
  if (!e.attrs) return false;
  auto moves = [&](const Dims& over) {
    return std::any_of(over.begin(), over.end(), [&](std::int64_t a) { return axes >> a & 1; });
  };
  if (const auto* p = ir::get_if<ops::Reshard>(e.attrs)) return moves(p->axes);
  if (const auto* p = ir::get_if<ops::Reinterpret>(e.attrs)) return moves(p->axes);
  if (const auto* p = ir::get_if<ops::GroupExchange>(e.attrs)) return moves(p->axes);
  if (const auto* p = ir::get_if<ops::Call>(e.attrs)) return communicates_over(*p->body, axes);
  if (const auto* p = ir::get_if<ops::Scan>(e.attrs)) return communicates_over(*p->body, axes);
  if (const auto* p = ir::get_if<ops::While>(e.attrs)) {
    return communicates_over(*p->cond, axes) || communicates_over(*p->body, axes);
  }
  if (const auto* p = ir::get_if<ops::Cond>(e.attrs)) {
    return std::any_of(p->branches.begin(), p->branches.end(),
                       [&](const ir::GraphPtr& b) { return communicates_over(*b, axes); });
  }
  return false;
}
bool communicates_over(const ir::Graph& g, ir::AxisMask axes) {
  return std::any_of(g.eqns.begin(), g.eqns.end(), [&](const ir::Eqn& e) { return communicates_over(e, axes); });
}

// A predicate may differ between devices. All shards then go each way that one of them takes, and every device keeps
// what its own predicate chose.
class Predicate {
 public:
  Predicate(const ir::Graph& g, ir::ValueId v, const ir::Eqn& e, Context& context,
            const std::vector<ir::GraphPtr>& bodies, std::size_t ways)
      : ways_(static_cast<std::int64_t>(ways)),
        dtype_(g.type(v).dtype),
        table_(context.table(g.layout(v))),
        name_(str(e.op->name(), " at ", e.loc)) {
    axes_ = ir::axes_size(g.layout(v).distinct(), *g.mesh) == 1 ? 0 : g.layout(v).distinct();
    for (const auto& b : bodies) collective_ = collective_ || communicates_over(*b, axes_);
  }
  /// The way that each shard takes; -1 where no device of this process holds it that has come here. Throws when they
  /// differ and may not.
  std::vector<std::int64_t> read(const ShardBuffers& shards, const Run& run) const {
    std::vector<bool> asked(shards.size(), run.taken == nullptr);
    for (std::size_t p = 0; run.taken != nullptr && p < run.taken->size(); ++p) {
      if ((*run.taken)[p]) asked[at(table_->map.of_position[p])] = true;
    }
    std::vector<std::int64_t> out;
    bool differs = false;
    for (std::size_t k = 0; k < shards.size(); ++k) {
      const BufferPtr& b = shards[k];
      out.push_back(b && asked[k] ? std::clamp<std::int64_t>(decision(b->data(), dtype_), 0, ways_ - 1) : -1);
      if (out.back() < 0) continue;
      auto other = std::find_if(out.begin(), out.end(), [](std::int64_t w) { return w >= 0; });
      differs = differs || *other != out.back();
    }
    if (differs && collective_) {
      throw ValueError(str(name_, ": the predicate differs along a mesh axis over which the body communicates"));
    }
    return out;
  }

  /// Runs what the devices of way `w` alone choose; `ways` as read. Devices that did not come here stay out.
  template <class F>
  auto run_way(Run& run, const std::vector<std::int64_t>& ways, std::int64_t w, const F& nested) const {
    const std::vector<bool>* outer = run.taken;
    std::vector<bool> taken;
    for (auto shard : table_->map.of_position) {
      taken.push_back(ways[at(shard)] == w && (outer == nullptr || (*outer)[taken.size()]));
    }
    run.taken = &taken;
    auto results = nested();
    run.taken = outer;  // a run that throws ends with its error
    return results;
  }

  /// Shard of the predicate at the device that holds shard `k` of a result.
  std::int32_t of_shard(const LayoutTable& result, std::size_t k) const {
    return table_->map.of_position[at(result.first_local[k])];
  }

 private:
  std::int64_t ways_;
  DType dtype_;
  std::shared_ptr<const LayoutTable> table_;
  std::string name_;
  ir::AxisMask axes_;
  bool collective_ = false;
};

class CondStep final : public NestedStep {
 public:
  CondStep(const ir::Graph& g, const ir::Eqn& e, Context& context)
      : NestedStep(e),
        predicate_(g, e.in[0], e, context, ir::get<ops::Cond>(e.attrs).branches,
                   ir::get<ops::Cond>(e.attrs).branches.size()) {
    for (const auto& branch : ir::get<ops::Cond>(e.attrs).branches) {
      branches_.push_back(Program::compile(branch, context));
    }
    for (auto v : e.out) results_.push_back(context.table(g.layout(v)));
  }
  void run(Frame& frame) const override {
    auto which = predicate_.read(frame.slots[at(reads[0])], frame.run);
    auto one = *std::max_element(which.begin(), which.end());
    if (one < 0) {  // no device of this process takes part
      for (std::size_t j = 0; j < writes.size(); ++j)
        frame.slots.own(at(writes[j])).resize(results_[j]->first_local.size());
      return;
    }
    if (std::all_of(which.begin(), which.end(), [&](std::int64_t w) { return w < 0 || w == one; })) {
      return give(frame, branches_[at(one)]->run(take(frame, 1, reads.size() - 1), frame.run));
    }
    std::vector<std::vector<ShardBuffers>> of_branch(branches_.size());
    for (auto w : which) {
      if (w < 0 || !of_branch[at(w)].empty()) continue;
      std::vector<ShardBuffers> args;
      for (std::size_t i = 1; i < reads.size(); ++i) args.push_back(frame.slots[at(reads[i])]);
      of_branch[at(w)] =
          predicate_.run_way(frame.run, which, w, [&] { return branches_[at(w)]->run(std::move(args), frame.run); });
    }
    std::vector<ShardBuffers> chosen;
    for (std::size_t j = 0; j < writes.size(); ++j) {
      auto& shards = chosen.emplace_back(results_[j]->first_local.size());
      for (std::size_t k = 0; k < shards.size(); ++k) {
        if (results_[j]->first_local[k] < 0) continue;
        auto way = which[at(predicate_.of_shard(*results_[j], k))];
        shards[k] = of_branch[at(way < 0 ? one : way)][j][k];  // below 0: nobody reads it
      }
    }
    give(frame, std::move(chosen));
  }
  bool fix(FixedBuilder& to) const override { return to.branches(*this, branches_); }
  std::string label() const override {
    std::string out = name_;
    for (const auto& b : branches_) out += nested("branch", *b);
    return out;
  }
  double cost() const override {
    double most = 0;
    for (const auto& b : branches_) most = std::max(most, b->cost());
    return most;
  }

 private:
  Predicate predicate_;
  std::vector<ProgramPtr> branches_;
  std::vector<std::shared_ptr<const LayoutTable>> results_;
};

class WhileStep final : public NestedStep {
 public:
  WhileStep(const ir::Graph& g, const ir::Eqn& e, Context& context)
      : NestedStep(e), predicate_(*graph(e).cond, graph(e).cond->outputs[0], e, context, {graph(e).body}, 2) {
    const auto& p = graph(e);
    cond_consts_ = at(p.cond_consts);
    body_consts_ = at(p.body_consts);
    cond_ = Program::compile(p.cond, context);
    body_ = Program::compile(p.body, context);
    for (auto v : p.body->outputs) carries_.push_back(context.table(p.body->layout(v)));
    fixed_ = FixedProgram::of_loop(g, *this, context);
  }
  void run(Frame& frame) const override {
    if (fixed_ && FixedProgram::serves(frame.run)) return fixed_->run(frame, dies_);
    auto cond_consts = take(frame, 0, cond_consts_);
    auto body_consts = take(frame, cond_consts_, body_consts_);
    std::size_t first = cond_consts_ + body_consts_;
    auto carry = take(frame, first, reads.size() - first);
    bool all = true;
    for (std::vector<std::int64_t> go_on;;) {
      auto args = cond_consts;
      args.insert(args.end(), carry.begin(), carry.end());
      auto decide = [&] { return cond_->run(std::move(args), frame.run); };
      go_on = predicate_.read((all ? decide() : predicate_.run_way(frame.run, go_on, 1, decide))[0], frame.run);
      bool some = std::find(go_on.begin(), go_on.end(), 1) != go_on.end();
      all = std::find(go_on.begin(), go_on.end(), 0) == go_on.end();
      if (!some) break;
      args = body_consts;
      if (all) {
        for (auto& c : carry) args.push_back(std::move(c));
        carry = body_->run(std::move(args), frame.run);
      } else {
        args.insert(args.end(), carry.begin(), carry.end());
        auto next = [&] { return body_->run(std::move(args), frame.run); };
        advance(carry, predicate_.run_way(frame.run, go_on, 1, next), go_on);
      }
    }
    give(frame, std::move(carry));
  }
  bool fix(FixedBuilder& to) const override { return to.while_loop(*this, cond_consts_, body_consts_, *cond_, *body_); }
  std::string label() const override {
    return str(name_, fixed_ ? str("\n  ", kLaidOut) : "", nested("cond", *cond_), nested("body", *body_));
  }
  // How often it runs is not known: too often to hold up the caller.
  double cost() const override { return 1e6 + body_->cost(); }

 private:
  static const ops::While& graph(const ir::Eqn& e) { return ir::get<ops::While>(e.attrs); }

  // Devices that have ended keep their carry.
  void advance(std::vector<ShardBuffers>& carry, const std::vector<ShardBuffers>& next,
               const std::vector<std::int64_t>& go_on) const {
    for (std::size_t j = 0; j < carry.size(); ++j) {
      for (std::size_t k = 0; k < carry[j].size(); ++k) {
        if (carries_[j]->first_local[k] < 0) continue;
        if (go_on[at(predicate_.of_shard(*carries_[j], k))] == 1) carry[j][k] = next[j][k];
      }
    }
  }

  Predicate predicate_;
  std::size_t cond_consts_;
  std::size_t body_consts_;
  ProgramPtr cond_;
  ProgramPtr body_;
  std::vector<std::shared_ptr<const LayoutTable>> carries_;
  std::unique_ptr<FixedProgram> fixed_;  // null where the loop has no such form
};

// Slices of stacked operands are views; slices of stacked results are computed where they belong.
class ScanStep final : public NestedStep {
 public:
  ScanStep(const ir::Graph& g, const ir::Eqn& e, Context& context) : NestedStep(e) {
    const auto& p = ir::get<ops::Scan>(e.attrs);
    length_ = p.length;
    reverse_ = p.reverse;
    consts_ = at(p.num_consts);
    carry_ = at(p.num_carry);
    body_ = Program::compile(p.body, context);
    if (body_->exchanges() && length_ > 1) unroll(*p.body, context);
    for (std::size_t i = consts_ + carry_; i < e.in.size(); ++i) check_whole(g, e, e.in[i]);
    for (std::size_t j = carry_; j < e.out.size(); ++j) {
      check_whole(g, e, e.out[j]);
      const auto& table = context.table(g.layout(e.out[j]));
      Stack stack;
      for (auto p : table->first_local) {
        const auto& type = g.type(e.out[j]);
        stack.bytes.push_back(p < 0 ? -1 : local_type(type, g.layout(e.out[j]), context.mesh(), p).nbytes());
      }
      stacks_.push_back(std::move(stack));
    }
    fixed_ = FixedProgram::of_loop(g, *this, context);
  }

  void run(Frame& frame) const override {
    if (fixed_ && FixedProgram::serves(frame.run)) return fixed_->run(frame, dies_);
    auto consts = take(frame, 0, consts_);
    auto carry = take(frame, consts_, carry_);
    std::size_t first = consts_ + carry_;
    auto stacked_in = take(frame, first, reads.size() - first);
    std::vector<ShardBuffers> stacked_out;
    for (const auto& stack : stacks_) {
      auto& shards = stacked_out.emplace_back(stack.bytes.size());
      for (std::size_t k = 0; k < shards.size(); ++k) {
        if (stack.bytes[k] >= 0) shards[k] = frame.run.memory.allocate(stack.bytes[k]);
      }
    }
    for (std::int64_t n = 0; n < length_;) {
      const std::int64_t times = row_ != nullptr && n + in_a_row_ <= length_ ? in_a_row_ : 1;
      auto args = consts;
      for (auto& c : carry) args.push_back(std::move(c));
      std::vector<ShardBuffers> into(carry_);
      for (std::int64_t end = n + times; n < end; ++n) {
        const std::int64_t i = reverse_ ? length_ - 1 - n : n;
        for (const auto& s : stacked_in) args.push_back(slice(s, i));
        for (const auto& s : stacked_out) into.push_back(slice(s, i));
      }
      auto results = (times > 1 ? row_ : body_)->run(std::move(args), frame.run, into);
      for (std::size_t j = carry_; j < results.size(); ++j) keep(results[j], into[j]);
      results.resize(carry_);
      carry = std::move(results);
    }
    for (auto& s : stacked_out) carry.push_back(std::move(s));
    give(frame, std::move(carry));
  }
  bool fix(FixedBuilder& to) const override { return to.scan(*this, consts_, carry_, length_, reverse_, *body_); }
  std::string label() const override {
    const std::string row = row_ == nullptr ? "" : nested(str("body, ", in_a_row_, " in a row"), *row_);
    return str(name_, " (", length_, " times)", fixed_ ? str("\n  ", kLaidOut) : "", row, nested("body", *body_));
  }
  double cost() const override { return body_->cost() * static_cast<double>(length_); }

 private:
  struct Stack {
    std::vector<std::int64_t> bytes;  // by shard; -1 where this process does not hold it
  };

  // So that an exchange goes on beside the computation of the next iteration, or begins beside that of the one before.
  void unroll(const ir::Graph& body, Context& context) {
    constexpr std::size_t kMost = 2000;  // equations
    const bool nests = std::any_of(body.eqns.begin(), body.eqns.end(),
                                   [](const ir::Eqn& e) { return !e.op->subgraphs(e.attrs).empty(); });
    in_a_row_ = std::min<std::int64_t>(length_, body.eqns.size() > kMost / 4 ? 2 : 4);
    if (nests || body.eqns.size() > kMost / 2) return;
    row_ = Program::compile(unrolled(body, consts_, carry_, at(in_a_row_)), context);
  }

  static void check_whole(const ir::Graph& g, const ir::Eqn& e, ir::ValueId v) {
    TESSERA_CHECK(g.layout(v).dims[0].empty(),
                  str(e.op->name(), " at ", e.loc, ": dimension 0 of a stacked value is split"));
  }
  ShardBuffers slice(const ShardBuffers& stacked, std::int64_t i) const {
    ShardBuffers out(stacked.size());
    for (std::size_t k = 0; k < stacked.size(); ++k) {
      if (!stacked[k]) continue;
      std::int64_t bytes = stacked[k]->nbytes() / length_;
      std::shared_ptr<void> start(stacked[k], static_cast<char*>(stacked[k]->data()) + i * bytes);
      out[k] = std::make_shared<runtime::Buffer>(std::move(start), bytes);
    }
    return out;
  }
  // Results that are somewhere else (a constant, an operand, the carry) are copied to their place.
  static void keep(const ShardBuffers& result, const ShardBuffers& place) {
    for (std::size_t k = 0; k < place.size(); ++k) {
      if (!place[k] || place[k]->data() == result[k]->data()) continue;
      kernels::copy_bytes(place[k]->data(), result[k]->data(), place[k]->nbytes());
    }
  }

  std::int64_t length_ = 0;
  bool reverse_ = false;
  std::size_t consts_ = 0;
  std::size_t carry_ = 0;
  ProgramPtr body_;
  std::int64_t in_a_row_ = 1;
  ProgramPtr row_;  // so many iterations; null where each is run alone
  std::vector<Stack> stacks_;
  std::unique_ptr<FixedProgram> fixed_;  // null where the loop has no such form
};

}  // namespace

StepPtr make_control_step(const ir::Graph& g, const ir::Eqn& e, Context& context) {
  if (!e.attrs) return nullptr;
  if (ir::get_if<ops::Cond>(e.attrs) != nullptr) return std::make_unique<CondStep>(g, e, context);
  if (ir::get_if<ops::While>(e.attrs) != nullptr) return std::make_unique<WhileStep>(g, e, context);
  if (ir::get_if<ops::Scan>(e.attrs) != nullptr) return std::make_unique<ScanStep>(g, e, context);
  return nullptr;
}

}  // namespace tessera::cpu
