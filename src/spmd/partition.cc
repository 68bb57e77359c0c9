// SPDX-License-Identifier: Apache-2.0
// Partitioning: every equation gets one split of its factors; operands that do not have it are resharded.
#include <algorithm>
#include <optional>
#include <unordered_map>
#include <utility>

#include "base/check.h"
#include "base/strings.h"
#include "ir/op_def.h"
#include "ir/pass.h"
#include "ops/collective/transfer_bytes.h"
#include "ops/control/subgraph_structure.h"
#include "ops/control/trip_count.h"
#include "ops/shape/sharding_groups.h"
#include "spmd/equations/aligned_interiors.h"
#include "spmd/equations/divided_equations.h"
#include "spmd/equations/halo_equations.h"
#include "spmd/equations/sections_apart.h"
#include "spmd/factor_candidates.h"
#include "spmd/factoring.h"
#include "spmd/late_completion.h"
#include "spmd/layouts/alternatives.h"
#include "spmd/loop_boundaries.h"
#include "spmd/lower_collectives.h"
#include "spmd/spmd.h"
#include "spmd/sums_wanted.h"
#include "spmd/value_versions.h"
#include "tessera/error.h"

namespace tessera::spmd {

namespace {

// One way to compute an equation.
struct Split {
  std::vector<ir::Layout> operands;
  std::vector<ir::Layout> results;
  const ir::Eqn* origin = nullptr;  ///< of what the results leave partial
  double bytes = 0;                 ///< moved, for operands and for results
  double before = 0;                ///< of these, for operands
  double cost = 0;                  ///< with what is computed
};

class Partitioner {
 public:
  /// `others`, where given, takes the alternatives that were seen.
  Partitioner(const ir::Module& m, const std::vector<ir::Layout>& wanted, Factorings& factorings, ChangeCosts& costs,
              std::vector<Alternative>* others = nullptr)
      : m_(m),
        g_(*m.graph),
        mesh_(*m.mesh),
        wanted_(wanted),
        factorings_(factorings),
        costs_(costs),
        others_(others),
        values_(g_, mesh_, builder_, costs),
        uses_(g_),
        sums_wanted_(spmd::sums_wanted(m)) {}

  ir::GraphPtr run() {
    std::vector<std::int64_t> moved;
    return run({}, moved);
  }
  /// Null where changes of layout go beyond the limits; `moved` is what they move up to each equation.
  ir::GraphPtr run(const Limits& limits, std::vector<std::int64_t>& moved) {
    const bool paced = limits.pace.size() == g_.eqns.size();
    moved.clear();
    builder_.set_mesh(m_.mesh);
    for (auto v : g_.inputs) values_.add(v, {wanted(v), builder_.input(g_.type(v))});
    for (const auto& e : g_.eqns) {
      if (e.op == &ops::def::sharding_constraint) {
        constrain(e);
      } else if (auto control = ops::control_of(e)) {
        add_control(e, *control);
      } else if (e.op == &ops::def::sharding_group) {
        add_member(e);
      } else if (!e.op->traits().collective || !add_manual(e, access_)) {
        add_equation(e);
      }
      const std::int64_t now = values_.moved();
      if (now > limits.most || (paced && now - limits.pace[moved.size()] > limits.behind)) return nullptr;
      moved.push_back(now);
    }
    ir::Values outputs;
    for (std::size_t i = 0; i < g_.outputs.size(); ++i) {
      ir::ValueId v = g_.outputs[i];
      const ir::Layout goal = m_.outputs[i].layout ? *m_.outputs[i].layout : visible(g_.type(v), wanted(v), m_);
      const Consumer consumer{nullptr, "output", i};
      outputs.push_back(provide(v, goal, consumer));
    }
    return ir::after_pass("partition", builder_.finish_shared(outputs));
  }

 private:
  const ir::Layout& wanted(ir::ValueId v) const { return wanted_[static_cast<std::size_t>(v)]; }
  AxisMask sums_wanted(ir::ValueId v) const { return sums_wanted_[static_cast<std::size_t>(v)]; }

  void constrain(const ir::Eqn& e) {
    ir::Layout goal = wanted(e.out[0]);
    goal.partial = resolve(ir::get<ops::ShardingConstraint>(e.attrs), m_).layout.partial;
    const Consumer consumer{&e, "operand", 0};
    if (const Version* sum = added_alike(e, goal)) {
      values_.add(e.out[0], *sum);
    } else if (goal.partial == 0 || values_.has(e.in[0], goal)) {
      Version now = values_.provide(e.in[0], goal, consumer);
      values_.add(e.out[0], now);
    } else {
      ir::Value now = enter_partial(e.in[0], goal, consumer);
      values_.add(e.out[0], {builder_.layout(now), now, &e});
    }
  }

  // A member of a sharding group, where somebody reads it.
  void add_member(const ir::Eqn& e) {
    const ir::ValueId v = e.out[0];
    if (uses_.of(v).empty() && !uses_.returned(v)) return;
    const Consumer consumer{&e, "operand", 0};
    values_.add(v, values_.provide(e.in[0], wanted(v), consumer));
  }

  // A constrained sum that is only added to others: completed where they have been added and that is constrained alike.
  const Version* added_alike(const ir::Eqn& constraint, const ir::Layout& goal) const {
    const Version* sum = values_.partial(constraint.in[0]);
    const bool open = sum && goal.partial == 0 && sum->layout.reduction == ir::Reduction::Sum &&
                      sum->layout.dims == goal.dims && only_added(wanted_, uses_, constraint.out[0]);
    return open ? sum : nullptr;
  }

  // --- one equation -------------------------------------------------------------------------------------------

  void add_equation(const ir::Eqn& e) {
    if (e.op == &ops::def::halo) return take_windows(e, types_of(g_, e.out));
    const Factoring& f = factorings_.of(e, m_);
    Split split = choose(e, f);
    if (!move_shards(e, split.cost)) emit(e, split);
    note_maker(e, f);
  }

  // Windows of an operand: its shards stay where they are.
  void take_windows(const ir::Eqn& e, ir::Types out) {
    ir::Layout goal{wanted(e.out[0]).dims};
    ir::Values operands;
    for (std::size_t k = 0; k < e.in.size(); ++k) {
      const ir::Layout& have = values_.of(e.in[k]).front().layout;
      ir::Layout from{have.partial == 0 ? have.dims : wanted(e.in[k]).dims};
      operands.push_back(provide(e.in[k], from, {&e, "operand", k}));
      goal.vary |= values_.vary(e.in[k]);
    }
    goal.vary &= ~goal.tiled();
    builder_.set_loc(e.loc);
    ir::Value moved = builder_.add_typed(ops::def::halo, operands, e.attrs, std::move(out))[0];
    values_.add(e.out[0], {goal, moved});
  }

  // --- elements that move along split dimensions --------------------------------------------------------------

  // Writes the equation as shards that take what they need from their neighbours, where that moves less than `limit`.
  bool move_shards(const ir::Eqn& e, double limit) {
    auto moves = moves_of(e, g_);
    if (!moves) return false;
    auto way = weigh_moves(e.out[0], *moves);
    if (auto direct = through_padding(*moves, g_, uses_.maker(e.in[0]))) {
      auto other = weigh_moves(e.out[0], *direct);
      if (other && (!way || other->cost <= way->cost)) {
        moves = std::move(direct);
        way = std::move(other);
      }
    }
    if (auto joined = through_slices(*moves, g_, [this](ir::ValueId v) { return uses_.maker_for_one(v); })) {
      auto other = weigh_moves(e.out[0], *joined);
      double saved = moved_for(*moves, *joined);
      if (other && other->cost <= (way ? std::min(way->cost, limit) : limit) + saved) {
        other->cost -= saved;
        moves = std::move(joined);
        way = std::move(other);
      }
    }
    if (!way || way->cost >= limit) return false;
    ir::Values operands;
    for (std::size_t k = 0; k < moves->operands.size(); ++k) {
      operands.push_back(provide(moves->operands[k], way->from[k], {&e, "operand", k}));
    }
    moves->halo.reason = str(e.op->name(), " along a split dimension needs elements of other shards");
    moves->halo.cause = std::string(e.op->name());
    builder_.set_loc(e.loc);
    ir::Value moved = builder_.add_typed(ops::def::halo, operands, ir::make_attrs(moves->halo), types_of(g_, e.out))[0];
    values_.add(e.out[0], {way->goal, moved});
    return true;
  }

  struct MovedShards {
    std::vector<ir::Layout> from;
    ir::Layout goal;
    double cost = 0;
  };
  std::optional<MovedShards> weigh_moves(ir::ValueId result, const Moves& moves) const {
    MovedShards way;
    way.goal.dims = wanted(result).dims;
    ir::Types in = types_of(g_, moves.operands);
    const ir::Type& out = g_.type(result);
    way.cost = 0.125 * static_cast<double>(local_bytes(out, way.goal, mesh_));
    for (std::size_t k = 0; k < in.size(); ++k) {
      ir::ValueId v = moves.operands[k];
      way.goal.vary |= values_.vary(v);
      const ir::Layout& have = values_.of(v).front().layout;
      bool fill = k >= moves.halo.starts.size();
      way.from.push_back(fill ? ir::Layout{} : ir::Layout{have.partial == 0 ? have.dims : wanted(v).dims});
      // Every position can make such a value by itself, which moves nothing.
      constexpr std::int64_t kSmall = 1 << 20;
      bool makes = !fill && fresh(v) && in[k].nbytes() <= kSmall;
      if (makes && values_.vary(v) == 0) way.from.back() = ir::Layout::replicated(in[k].rank());
      way.cost += cost_of(v, way.from.back());
    }
    bool split = std::any_of(moves.dims.begin(), moves.dims.end(), [&](const MovedDim& m) {
      return !way.from[m.operand].dims[m.dimension].empty() || !way.goal.dims[m.dimension].empty();
    });
    if (!split) return std::nullopt;
    way.goal.vary &= ~way.goal.tiled();
    way.cost += static_cast<double>(halo_received(moves.halo, in, out, way.from, way.goal, mesh_));
    way.cost +=
        0.1 * static_cast<double>(local_bytes(out, way.goal, mesh_)) / static_cast<double>(dtype_size(out.dtype));
    return way;
  }

  // Bytes that were moved for operands that are not read then.
  double moved_for(const Moves& before, const Moves& after) const {
    double bytes = 0;
    for (std::size_t k = 0; k < before.operands.size(); ++k) {
      ir::ValueId v = before.operands[k];
      if (v == after.operands[k]) continue;
      for (const auto& e : builder_.graph().eqns) {
        if (e.out[0] == values_.of(v).front().value.id)
          bytes += static_cast<double>(ops::received(builder_.graph(), e));
      }
    }
    return bytes;
  }

  // --- values that cost less to make again than to move: made of nothing but scalars, or of little ------------------

  void note_maker(const ir::Eqn& e, const Factoring& f) {
    sources_.add(g_, e, f.rule());
    if (!repeatable(g_, e, f.rule())) return;
    constexpr std::int64_t kLess = 4;
    ir::ValueId v = e.out[0];
    if (sources_.of(v) <= g_.type(v).nbytes() / kLess) makers_.emplace(v, Maker{&e, &f});
  }
  bool fresh(ir::ValueId v) const { return sources_.of(v) == 0 && makers_.contains(v); }

  // What it costs to make a value as asked for: the bytes that move for what it is made of, and those that it is
  // written to; what is between them does not leave a fused block. Nothing where that cannot be or is not less than
  // `limit`; `steps` bounds the search.
  std::optional<double> cost_again(ir::ValueId v, const ir::Layout& goal, double limit, int& steps) const {
    auto it = makers_.find(v);
    if (it == makers_.end() || goal.partial != 0 || --steps < 0) return std::nullopt;
    const Maker& made = it->second;
    const ir::Eqn* e = made.eqn;
    const Factoring& f = *made.factoring;
    FactorAxes axes(f.num_factors());
    f.project(e->in.size(), goal.dims, axes);
    f.repair(axes);
    if (f.dims_of(e->in.size(), axes) != goal.dims) return std::nullopt;
    if (fresh(v)) return 0.0;
    if (values_.vary(v) != 0 || values_.partial(v) != nullptr) return std::nullopt;
    double sum = 0;
    for (std::size_t i = 0; i < e->in.size() && sum < limit; ++i) {
      ir::Layout need{f.dims_of(i, axes)};
      if (!values_.has(e->in[i], need)) return std::nullopt;
      auto moved = static_cast<double>(values_.cost(e->in[i], need));
      if (moved > 0) sum += cost_again(e->in[i], need, moved, steps).value_or(moved);
    }
    return sum < limit ? std::optional(sum) : std::nullopt;
  }
  std::optional<double> cost_again(ir::ValueId v, const ir::Layout& goal, std::int64_t limit) const {
    int steps = 32;
    auto most = static_cast<double>(limit);
    auto moved = cost_again(v, goal, most, steps);
    if (!moved || fresh(v)) return moved;
    double cost = *moved + 0.125 * static_cast<double>(local_bytes(g_.type(v), goal, mesh_));
    return cost < most ? std::optional(cost) : std::nullopt;
  }

  double cost_of(ir::ValueId v, const ir::Layout& goal) const {
    if (!values_.has(v, goal)) return cost_of(v, ir::Layout{goal.dims});  // it becomes a sum for nothing
    std::int64_t bytes = values_.cost(v, goal);
    return bytes == 0 ? 0 : cost_again(v, goal, bytes).value_or(static_cast<double>(bytes));
  }

  ir::Value provide(ir::ValueId v, const ir::Layout& goal, const Consumer& consumer) {
    if (!values_.has(v, goal)) return enter_partial(v, goal, consumer);
    std::int64_t bytes = values_.cost(v, goal);
    if (bytes > 0 && cost_again(v, goal, bytes)) {
      const Maker& made = makers_.at(v);
      const Factoring& f = *made.factoring;
      FactorAxes axes(f.num_factors());
      f.project(made.eqn->in.size(), goal.dims, axes);
      emit(*made.eqn, weigh(*made.eqn, f, axes));
    }
    return values_.provide(v, goal, consumer).value;
  }

  Split choose(const ir::Eqn& e, const Factoring& f) {
    std::vector<Hint> hints;
    hints.reserve(2 * e.in.size() + e.out.size());
    for (std::size_t i = 0; i < e.in.size(); ++i) {
      const ir::Layout& want = wanted(e.in[i]);
      const ir::Layout& have = values_.of(e.in[i]).front().layout;
      auto weight = g_.type(e.in[i]).nbytes();
      hints.push_back({i, &have.dims, weight});
      if (want.dims != have.dims) hints.push_back({i, &want.dims, weight});
    }
    for (std::size_t i = 0; i < e.out.size(); ++i) {
      hints.push_back({e.in.size() + i, &wanted(e.out[i]).dims, g_.type(e.out[i]).nbytes()});
    }
    Candidates found = candidates(f, hints, mesh_);
    std::vector<Split> splits;
    splits.reserve(found.ways.size() + found.settled.size());
    std::size_t best = 0;
    for (const auto& axes : found.ways) {
      splits.push_back(weigh(e, f, axes));
      if (splits.back().cost < splits[best].cost) best = splits.size() - 1;
    }
    // Nobody asked for these: they are for what they save, not for what a position computes less.
    for (const auto& axes : found.settled) {
      splits.push_back(weigh(e, f, axes));
      const Split& s = splits.back();
      if (s.bytes <= splits[best].bytes && s.cost < splits[best].cost) best = splits.size() - 1;
    }
    const double bytes = splits[best].bytes;
    const std::size_t asked = found.ways.size();
    if (others_ != nullptr && bytes > 0) {
      for (std::size_t k = 0; k < asked; ++k) note_alternative(e, splits[k], bytes);
      for (const auto& axes : elsewhere(f, hints, found.ways[0], mesh_)) note_alternative(e, weigh(e, f, axes), bytes);
      for (std::size_t k = asked; k < splits.size(); ++k) note_alternative(e, splits[k], bytes);
    }
    const FactorAxes& way = best < asked ? found.ways[best] : found.settled[best - asked];
    Split chosen = with_sums_as_shards(e, f, way, std::move(splits[best]));
    return with_joined_sums(e, f, found.ways[0], std::move(chosen));
  }

  // A sum that passes through a product and is completed behind it: where that moves less, it is completed before, as
  // shards along a dimension that the result keeps.
  Split with_sums_as_shards(const ir::Eqn& e, const Factoring& f, const FactorAxes& way, Split best) const {
    AxisMask passed = 0;
    for (const auto& l : best.operands) passed |= l.partial;
    if (passed == 0 || e.out.size() != 1) return best;
    const double bytes = best.bytes + late_.completed_later(e.out[0], passed & late_.stays(e.out[0]), wanted_);
    std::optional<Split> least;
    for (std::size_t a = 0; a < mesh_.sizes.size(); ++a) {
      const auto axis = static_cast<std::uint8_t>(a);
      for (std::size_t n = 0; n < way.size() && passed & bit(axis); ++n) {
        if (f.rule().factors[n].kind != ir::Factor::Kind::Pass) continue;
        FactorAxes other = way;
        other[n].push_back(axis);
        if (!f.splittable(static_cast<int>(n), ir::parts(other[n], mesh_))) continue;
        f.repair(other);
        Split s = weigh(e, f, other);
        if (s.bytes < (least ? least->bytes : bytes)) least = std::move(s);
      }
    }
    return least ? std::move(*least) : std::move(best);
  }

  // Not split by axes over which operands are sums that are completed with another one, though results are wanted so.
  Split with_joined_sums(const ir::Eqn& e, const Factoring& f, FactorAxes way, Split best) const {
    const Version* sum = e.in.empty() || e.out.size() != 1 ? nullptr : values_.partial(e.in[0]);
    if (sum == nullptr || best.bytes == 0) return best;
    auto alike = [&](ir::ValueId v) {
      const Version* other = values_.partial(v);
      return other != nullptr && other->layout.partial == sum->layout.partial;
    };
    const bool added = e.op == &ops::def::add && std::ranges::all_of(e.in, alike);
    if (!added && !late_.joins(e.out[0], sum->layout, wanted_)) return best;
    for (auto& axes : way) ir::drop_axes(axes, sum->layout.partial);
    f.repair(way);
    Split s = weigh(e, f, way);
    return s.bytes < best.bytes ? std::move(s) : std::move(best);
  }

  // Results as one way makes them, where they are wanted otherwise and its operands move less than `bytes`.
  void note_alternative(const ir::Eqn& e, const Split& way, double bytes) {
    Alternative other{&e, {}, bytes - way.before};
    bool differs = false;
    for (std::size_t i = 0; i < e.out.size(); ++i) {
      if (way.results[i].partial != 0) return;
      differs = differs || way.results[i].dims != wanted(e.out[i]).dims;
      other.results.push_back({e.out[i], ir::Layout{way.results[i].dims}});
    }
    if (differs && other.saved > 0) others_->push_back(std::move(other));
  }

  Split weigh(const ir::Eqn& e, const Factoring& f, const FactorAxes& axes) const {
    Split s;
    AxisMask passed = 0;
    std::vector<bool> passes = late_.passing(e, f, axes, passed);
    AxisMask vary = 0;
    s.operands.reserve(e.in.size());
    s.results.reserve(e.out.size());
    for (std::size_t i = 0; i < e.in.size(); ++i) {
      ir::Layout need;
      need.dims = f.dims_of(i, axes);
      if (!passes.empty() && passes[i]) {
        need.partial = passed;
        if (const Version* p = values_.partial(e.in[i])) s.origin = p->origin;
      }
      bool again = false;  // moved for an earlier operand
      for (std::size_t j = 0; j < i; ++j) again = again || (e.in[j] == e.in[i] && s.operands[j] == need);
      if (!again) s.bytes += cost_of(e.in[i], need);
      vary |= values_.vary(e.in[i]);
      s.operands.push_back(std::move(need));
    }
    s.before = s.bytes;
    ir::Layout common;
    common.partial = passed;
    double work = 0.1;
    for (std::size_t n = 0; n < axes.size(); ++n) {
      const auto& factor = f.rule().factors[n];
      work *= static_cast<double>(factor.size) / static_cast<double>(ir::parts(axes[n], mesh_));
      if (factor.kind != ir::Factor::Kind::Reduce || axes[n].empty()) continue;
      common.partial |= mask_of(axes[n]);
      common.reduction = factor.reduction;
      s.origin = &e;
    }
    for (std::size_t i = 0; i < e.out.size(); ++i) {
      ir::Layout made = common;
      made.dims = f.dims_of(e.in.size() + i, axes);
      made.vary = vary & ~(made.tiled() | made.partial);
      const ir::Type& type = g_.type(e.out[i]);
      ir::Layout goal;
      goal.dims = wanted(e.out[i]).dims;
      if (made.reduction == ir::Reduction::Sum) goal.partial = made.partial & late_.stays(e.out[i]);
      if (made.partial != 0 && late_.joins(e.out[i], made, wanted_)) {
        goal.partial = made.partial;
        for (auto& axes : goal.dims) ir::drop_axes(axes, made.partial);
      }
      s.bytes += static_cast<double>(costs_.of(type, made, goal, mesh_));
      s.cost += 0.125 * static_cast<double>(local_bytes(type, made, mesh_));
      s.results.push_back(std::move(made));
    }
    // Bytes moved come first; beyond them, what each position computes.
    s.cost += s.bytes + work;
    return s;
  }

  void emit(const ir::Eqn& e, const Split& s) {
    ir::Values in;
    for (std::size_t i = 0; i < e.in.size(); ++i) {
      in.push_back(provide(e.in[i], s.operands[i], {&e, "operand", i}));
    }
    builder_.set_loc(e.loc);
    ir::Values results = builder_.add_typed(*e.op, in, e.attrs, types_of(g_, e.out));
    for (std::size_t i = 0; i < results.size(); ++i) {
      values_.add(e.out[i], {s.results[i], results[i], s.results[i].partial ? s.origin : nullptr});
      bool begins = s.origin == &e && s.results[i].reduction == ir::Reduction::Sum;
      if (AxisMask axes = begins ? s.results[i].partial : 0) {
        for (auto v : left_partial(g_, mesh_, wanted_, uses_, e.out[i], axes, costs_)) {
          late_.leave(v, axes);
        }
      }
    }
  }

  // --- sub-graphs -------------------------------------------------------------------------------------------------

  Boundary boundary(const ir::Eqn& e, const ops::Control& control) const;
  bool sum_after(const ops::Control& control, std::vector<ir::GraphPtr>& graphs, Boundary& boundary) const;
  void gather_before(const ir::Eqn& e, const ops::Control& control, std::vector<ir::GraphPtr>& graphs,
                     Boundary& boundary);
  ir::Value enter_partial(ir::ValueId v, const ir::Layout& goal, const Consumer& consumer);
  void add_control(const ir::Eqn& e, const ops::Control& control);

  const ir::Module& m_;
  const ir::Graph& g_;
  const ir::MeshAxes& mesh_;
  const std::vector<ir::Layout>& wanted_;
  Factorings& factorings_;
  ChangeCosts& costs_;
  std::vector<Alternative>* others_;
  ir::Builder builder_;
  VersionTable values_;
  GraphUses uses_;
  std::vector<AxisMask> sums_wanted_;  ///< by value
  LateCompletion late_{g_, mesh_, values_, uses_, sums_wanted_, costs_};
  SourceBytes sources_{g_};
  struct Maker {
    const ir::Eqn* eqn;
    const Factoring* factoring;
  };
  std::unordered_map<ir::ValueId, Maker> makers_;
  PartitionAccess access_{g_,
                          mesh_,
                          builder_,
                          [this](ir::ValueId v) -> const ir::Layout& { return wanted(v); },
                          [this](const ir::Eqn& e, std::size_t i, const ir::Layout& goal) {
                            return provide(e.in[i], goal, {&e, "operand", i});
                          },
                          [this](ir::ValueId v, Version version) { values_.add(v, std::move(version)); }};
};

Boundary Partitioner::boundary(const ir::Eqn& e, const ops::Control& control) const {
  Boundary out;
  for (auto v : e.in) out.in.push_back(ir::Layout{wanted(v).dims});
  for (auto v : e.out) out.out.push_back(ir::Layout{wanted(v).dims});
  for (auto i : control.scalars) out.in[i].dims.assign(out.in[i].dims.size(), {});
  for (auto [operand, result] : control.carried) out.in[operand].dims = out.out[result].dims;
  for (const auto& body : control.bodies) {
    for (const auto& t : body.inputs) {
      if (t.stacked) out.in[t.outer].dims[0].clear();
    }
    for (const auto& t : body.outputs) {
      if (t.stacked) out.out[t.outer].dims[0].clear();
    }
  }
  std::vector<AxisMask> vary;
  for (auto v : e.in) vary.push_back(values_.vary(v));
  VaryBoundary masks = vary_boundary(m_, e, control, vary);
  for (std::size_t i = 0; i < e.in.size(); ++i) out.in[i].vary = masks.in[i] & ~out.in[i].tiled();
  for (std::size_t i = 0; i < e.out.size(); ++i) out.out[i].vary = masks.out[i] & ~out.out[i].tiled();
  for (auto [operand, result] : control.carried) out.in[operand].vary = out.out[result].vary;
  std::vector<AxisMask> wanted_sums;
  for (auto v : e.out) wanted_sums.push_back(sums_wanted(v));
  keep_sums(m_, control, wanted_sums, out);
  return out;
}

// Sums that a loop takes over positions in every round only to add them up are taken once, after it.
bool Partitioner::sum_after(const ops::Control& control, std::vector<ir::GraphPtr>& graphs, Boundary& boundary) const {
  std::optional<Boundary> other = summed_after(control, graphs, boundary);
  if (!other) return false;
  auto bytes = [](const std::vector<ir::GraphPtr>& all) {
    std::int64_t sum = 0;
    for (const auto& g : all) sum += comm_plan(*g).bytes_per_device();
    return sum;
  };
  // Where variables are given partial, the body may prefer a split that completes them in every round: that costs more.
  std::vector<ir::GraphPtr> again = partition_bodies(m_, control, *other);
  if (bytes(again) >= bytes(graphs)) return false;
  boundary = *std::move(other);
  graphs = std::move(again);
  return true;
}

// Slices that the rounds of a loop take of a split value, one after the other, move as much as the value, and where
// each is a sum over positions, twice as much.
void Partitioner::gather_before(const ir::Eqn& e, const ops::Control& control, std::vector<ir::GraphPtr>& graphs,
                                Boundary& boundary) {
  const std::int64_t rounds = control.times >= 0 ? control.times : ops::trip_count(g_, e).value_or(-1);
  std::optional<Boundary> other = rounds < 0 ? std::nullopt : gathered_before(control, boundary);
  if (!other) return;
  auto price = [&](const std::vector<ir::GraphPtr>& all, const Boundary& at) {
    Price sum;
    for (const auto& g : all) {
      const Price one = price_of(*g);
      sum.bytes += rounds * one.bytes;
      sum.largest = std::max(sum.largest, one.largest);
    }
    for (std::size_t i = 0; i < e.in.size(); ++i) sum.bytes += values_.cost(e.in[i], at.in[i]);
    return sum;
  };
  std::vector<ir::GraphPtr> again = partition_bodies(m_, control, *other);
  if (!less(price(again, *other), price(graphs, boundary))) return;
  boundary = *std::move(other);
  graphs = std::move(again);
}

// A value that is complete over axes of a goal as a sum over them: one position keeps it, the others have zeros. Along
// an axis that splits it each keeps its own tile among zeros.
ir::Value Partitioner::enter_partial(ir::ValueId v, const ir::Layout& goal, const Consumer& consumer) {
  ir::Layout before = goal;
  before.partial = 0;
  const ir::Layout& have = values_.of(v).front().layout;
  if (have.reduction == goal.reduction) before.partial = have.partial & goal.partial;
  if (tiles_stay(g_.type(v).shape, have, goal, goal.partial & ~before.partial, mesh_)) before.dims = have.dims;
  ir::Value x = provide(v, before, consumer);
  bool loop = consumer.eqn != nullptr && ops::control_of(*consumer.eqn);
  ops::Reshard p{ops::Reshard::Kind::Slice, {}, str(consumer.role, " ", consumer.number, " is taken as a sum"), {}};
  p.cause = consumer.eqn ? std::string(consumer.eqn->op->name()) : "return";
  if (loop) p.reason = "a sum over positions is taken after the loop";
  const ir::Type& type = g_.type(v);
  ir::Value out = builder_.add_typed(ops::def::reshard, ir::ValueSpan(&x, 1), ir::make_attrs(std::move(p)), {type})[0];
  ir::Layout to = goal;
  to.vary = (goal.vary | builder_.layout(x).vary) & ~(to.tiled() | to.partial);
  builder_.set_layout(out, to);
  return out;
}

// The layouts at the boundary of a sub-graph are those of the values outside; a loop variable has one layout
// throughout.
void Partitioner::add_control(const ir::Eqn& e, const ops::Control& control) {
  Boundary at = boundary(e, control);
  std::vector<ir::GraphPtr> graphs = partition_bodies(m_, control, at);
  // Another boundary may change what a body wants, so this need not settle; twice is enough to gain.
  for (int round = 0; round < 2 && hoist(control, graphs, at); ++round) graphs = partition_bodies(m_, control, at);
  gather_before(e, control, graphs, at);
  sum_after(control, graphs, at);
  ir::Values operands;
  for (std::size_t i = 0; i < e.in.size(); ++i) {
    Consumer consumer{&e, "operand", i};
    operands.push_back(provide(e.in[i], at.in[i], consumer));
  }
  builder_.set_loc(e.loc);
  ir::Values results = builder_.add_typed(*e.op, operands, ops::with_bodies(e, graphs), types_of(g_, e.out));
  for (std::size_t i = 0; i < results.size(); ++i) {
    values_.add(e.out[i], {at.out[i], results[i], at.out[i].partial ? &e : nullptr});
  }
}

}  // namespace

namespace {

// Of programs on one mesh.
Pricing price_alone(ChangeCosts& costs) {
  return [&costs](const ir::Module& m, const std::vector<ir::Layout>& layouts) {
    Factorings factorings;
    return price_of(*Partitioner(m, layouts, factorings, costs).run());
  };
}

Price joined_price(const ir::GraphPtr& g) { return price_of(*join_exchanges(g)); }

// The program written in other ways, each as far as it moves less: the inner parts of stencils where the whole arrays
// are, the sections of dimensions apart.
ir::GraphPtr written_otherwise(ir::GraphPtr best, ir::Module m, std::vector<ir::Layout> layouts, Trial& trial) {
  if (!best || !m.divides) return best;
  for (auto* write : {align_interiors, with_sections_apart}) {
    auto written = write(m, layouts);
    if (!written) continue;
    ir::Module other = m;
    other.graph = written->graph;
    Factorings factorings;
    ir::GraphPtr graph = Partitioner(other, written->layouts, factorings, trial.costs).run();
    if (!less(joined_price(graph), joined_price(best))) continue;
    best = std::move(graph);
    m = std::move(other);
    layouts = std::move(written->layouts);
  }
  return best;
}

ir::GraphPtr undivided(const ir::Module& m, const std::vector<ir::Layout>& layouts, Trial& trial) {
  Partitioner partitioner(m, layouts, trial.factorings, trial.costs, &trial.others.emplace());
  return partitioner.run(trial.limits, trial.moved);
}

ir::GraphPtr partition_apart(const ir::Module& m, const std::vector<ir::Layout>& layouts, Trial& trial) {
  trial.others.reset();
  auto divided = divide_equations(m, layouts, price_alone(trial.costs));
  if (!divided) return written_otherwise(undivided(m, layouts, trial), m, layouts, trial);
  ir::Module changed = m;
  changed.graph = divided->graph;
  Factorings factorings;
  ir::GraphPtr out = Partitioner(changed, divided->layouts, factorings, trial.costs).run(trial.limits, trial.moved);
  out = written_otherwise(std::move(out), changed, divided->layouts, trial);
  if (!divided->by_rules) return out;
  // An equation by itself is not the program: where what follows makes up for it, nothing is divided.
  changed.divides = false;
  changed.graph = m.graph;
  trial.moved.clear();
  ir::GraphPtr whole = written_otherwise(partition_apart(changed, layouts, trial), m, layouts, trial);
  if (!out || !whole) return out ? out : whole;
  return less(joined_price(whole), joined_price(out)) ? whole : out;
}

}  // namespace

std::vector<Alternative> alternatives(const ir::Module& m, const std::vector<ir::Layout>& layouts, Trial& trial) {
  if (!trial.others) undivided(m, layouts, trial);
  std::vector<Alternative> out = *trial.others;
  for (auto& other : left_elsewhere(m, layouts, price_alone(trial.costs))) out.push_back(std::move(other));
  return out;
}

ir::GraphPtr partition(const ir::Module& m, const std::vector<ir::Layout>& layouts, Trial& trial) {
  ir::GraphPtr apart = partition_apart(m, layouts, trial);
  return apart ? ir::after_pass("join_exchanges", join_exchanges(apart)) : nullptr;
}

ir::GraphPtr partition_apart(const ir::Module& m, const std::vector<ir::Layout>& layouts) {
  Trial trial;
  return partition_apart(m, layouts, trial);
}

ir::GraphPtr partition(const ir::Module& m, const std::vector<ir::Layout>& layouts) {
  Trial trial;
  return partition(m, layouts, trial);
}

}  // namespace tessera::spmd
