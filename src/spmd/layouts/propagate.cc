// SPDX-License-Identifier: Apache-2.0
// Sharding propagation; docs/propagation.md describes the rules with examples.
#include <algorithm>
#include <deque>
#include <map>
#include <utility>

#include "base/check.h"
#include "base/strings.h"
#include "ir/op_def.h"
#include "ops/collective/manual.h"
#include "ops/control/subgraph_structure.h"
#include "ops/shape/sharding_groups.h"
#include "spmd/equations/gathers_in_order.h"
#include "spmd/equations/halo_equations.h"
#include "spmd/equations/sorted_heads.h"
#include "spmd/equations/whole_factors.h"
#include "spmd/equations/window_equations.h"
#include "spmd/factoring.h"
#include "spmd/spmd.h"

namespace tessera::spmd {

namespace {

using Slot = std::int32_t;  ///< a value of the graph or of one of its sub-graphs, each instance on its own

struct State {
  DimAxes dims;
  std::vector<bool> closed;  ///< by dimension: may not grow
  AxisMask used = 0;
  std::int64_t sources = 0;  ///< bytes of what the value is made of (`SourceBytes`)
};

// An equation, an output or a tie between a value inside a sub-graph and one outside: whatever relates axes of values.
struct Node {
  const Factoring& factoring;
  std::vector<Slot> tensors;         ///< operands, then results
  std::vector<std::int64_t> weight;  ///< bytes of each tensor: whose axes win
  std::vector<std::size_t> order;    ///< tensors by falling weight
  int round = 0;
  bool dirty = true;
};

}  // namespace

class Propagation::Impl {
 public:
  Impl(const ir::Module& m, Factorings* factorings)
      : m_(m), factorings_(factorings != nullptr ? *factorings : own_factorings_) {
    const ir::Graph& g = *m_.graph;
    slots_ = enter(g);
    add_equations(g, slots_);
    input_given_.resize(g.inputs.size());
    output_given_.resize(g.outputs.size());
    take_ports();
  }

  void take_ports() {
    const ir::Graph& g = *m_.graph;
    for (std::size_t i = 0; i < g.inputs.size(); ++i) {
      const auto& layout = m_.inputs[i].layout;
      if (!layout || input_given_[i]) continue;
      input_given_[i] = true;
      fix_also(slots_[static_cast<std::size_t>(g.inputs[i])], *layout);
    }
    add_outputs(g, slots_);
    connect();
  }

  std::vector<ir::Layout> run(std::span<const FixedLayout> fixed) {
    std::vector<State> begin = states_;
    for (const auto& f : fixed) {
      fix_also(slots_[static_cast<std::size_t>(f.value)], f.layout);
    }
    for (Node& n : nodes_) n.dirty = true;
    for (int round = 0; round < 2; ++round) {
      while (sweep(round, true) | sweep(round, false)) {
      }
    }
    std::vector<ir::Layout> out = results();
    states_ = std::move(begin);
    return out;
  }

 private:
  std::vector<Slot> enter(const ir::Graph& g) {
    std::vector<Slot> slots;
    slots.reserve(g.num_values());
    for (const auto& type : g.types) slots.push_back(fresh(type));
    return slots;
  }
  Slot fresh(const ir::Type& type) {
    auto rank = static_cast<std::size_t>(type.rank());
    states_.push_back({DimAxes(rank), std::vector<bool>(rank), 0, type.nbytes()});
    return static_cast<Slot>(states_.size()) - 1;
  }
  State& state(Slot s) { return states_[static_cast<std::size_t>(s)]; }

  void fix(Slot slot, const ir::Layout& layout, const std::vector<bool>& open) {
    State& s = state(slot);
    s.dims = layout.dims;
    s.used = mask_of(layout.dims) | layout.partial;
    for (std::size_t d = 0; d < s.dims.size(); ++d) s.closed[d] = open.empty() || !open[d];
  }

  // Axes that the value may not take otherwise stay out of reach.
  void fix_also(Slot slot, const ir::Layout& layout) {
    const AxisMask used = state(slot).used;
    fix(slot, layout, {});
    state(slot).used |= used;
  }

  void add_node(ir::FactorRule rule, const ir::Types& in, const ir::Types& out, std::vector<Slot> tensors, int round,
                bool shifted = false) {
    ties_.emplace_back(std::move(rule), in, out, m_, shifted);
    add_node(ties_.back(), in, out, std::move(tensors), round);
  }
  void add_node(const Factoring& factoring, const ir::Types& in, const ir::Types& out, std::vector<Slot> tensors,
                int round) {
    Node n{factoring, std::move(tensors), {}, {}, round};
    for (const auto& t : in) n.weight.push_back(t.nbytes());
    for (const auto& t : out) n.weight.push_back(t.nbytes());
    for (std::size_t t = 0; t < n.tensors.size(); ++t) n.order.push_back(t);
    // Among tensors of one size, those that can be made of less under any layout give way.
    auto rank = [&](std::size_t t) { return std::pair(n.weight[t], state(n.tensors[t]).sources); };
    std::stable_sort(n.order.begin(), n.order.end(), [&](std::size_t a, std::size_t b) { return rank(a) > rank(b); });
    nodes_.push_back(std::move(n));
  }

  // The same value under another number; `drop` says that the outer one has a further dimension 0, which stays whole.
  void tie(const ir::Type& outer, Slot outer_slot, const ir::Type& inner, Slot inner_slot, bool drop) {
    ir::FactorRule rule;
    rule.operands.emplace_back();
    rule.results.emplace_back();
    if (drop) rule.operands[0].emplace_back();
    for (auto extent : inner.shape) {
      int f = rule.add(extent);
      rule.operands[0].push_back({f});
      rule.results[0].push_back({f});
    }
    add_node(std::move(rule), {outer}, {inner}, {outer_slot, inner_slot}, 0);
  }

  // Members of a group take each other's axes; values of another shape are in another group.
  void add_member(std::int64_t group, const ir::Type& type, Slot slot) {
    auto [first, is_new] = groups_.try_emplace({group, type.shape}, type, slot);
    if (!is_new) tie(first->second.first, first->second.second, type, slot, false);
  }

  void add_equations(const ir::Graph& g, const std::vector<Slot>& slots) {
    SourceBytes sources(g);
    for (const auto& e : g.eqns) {
      if (add_control(g, e, slots)) continue;
      ir::Types in = types_of(g, e.in);
      ir::Types out = types_of(g, e.out);
      std::vector<Slot> tensors;
      for (auto v : e.in) tensors.push_back(slots[static_cast<std::size_t>(v)]);
      for (auto v : e.out) tensors.push_back(slots[static_cast<std::size_t>(v)]);
      if (const auto* p = ir::get_if<ops::ShardingConstraint>(e.attrs)) {
        Constraint c = resolve(*p, m_);
        fix(tensors[1], c.layout, c.open);
        state(tensors[1]).used |= c.replicated;
      }
      if (const auto* p = ir::get_if<ops::ShardingGroup>(e.attrs)) add_member(p->group, out[0], tensors[1]);
      ir::FactorRule rule = e.op->factors(in, out, e.attrs);
      sources.add(g, e, rule);
      for (auto v : e.out) state(slots[static_cast<std::size_t>(v)]).sources = sources.of(v);
      if (const auto* p = ir::get_if<ops::ManualSpec>(e.attrs)) boundary(e, *p, in, tensors);
      int round = e.op->traits().elementwise || keeps_elements(rule, in, out) ? 0 : 1;
      if (auto moves = moves_of(e, g)) tie_moved(*moves, in, out, tensors);
      for (const auto& w : window_dims(e, in)) tie_dims({in[0], w.in, tensors[0]}, {out[0], w.out, tensors.back()});
      tie_whole(rule, in, out, tensors);
      add_node(factorings_.of(e, rule, in, out, m_), in, out, std::move(tensors), round);
    }
  }

  // A dimension that operands and results share though it may not be split while they are computed (sort, running
  // sums): who has its operand split wants the result so, too.
  void tie_whole(const ir::FactorRule& given, const ir::Types& in, const ir::Types& out,
                 const std::vector<Slot>& tensors) {
    auto has = [](const std::vector<ir::FactorRule::Tensor>& all, int f) {
      return std::any_of(all.begin(), all.end(), [&](const ir::FactorRule::Tensor& t) {
        return std::any_of(t.begin(), t.end(), [&](const std::vector<int>& d) { return d == std::vector<int>{f}; });
      });
    };
    if (std::ranges::none_of(given.factors, [](const ir::Factor& f) { return f.kind == ir::Factor::Kind::Whole; }))
      return;
    ir::FactorRule rule = given;
    bool any = false;
    for (std::size_t n = 0; n < rule.factors.size(); ++n) {
      int f = static_cast<int>(n);
      bool shared = rule.factors[n].kind == ir::Factor::Kind::Whole && has(rule.operands, f) && has(rule.results, f);
      rule.factors[n].kind = shared ? ir::Factor::Kind::Pass : ir::Factor::Kind::Whole;
      any = any || shared;
    }
    if (any) add_node(std::move(rule), in, out, tensors, 1);
  }

  // The boundary of a manual region. Its axes split nothing inside; outside, the value is wanted as the spec says.
  void boundary(const ir::Eqn& e, const ops::ManualSpec& p, const ir::Types& in, std::vector<Slot>& tensors) {
    ir::Layout spec;
    std::vector<bool> open;
    AxisMask manual = 0;
    for (auto a : p.manual) manual |= bit(static_cast<std::uint8_t>(a));
    for (const auto& d : p.dims) {
      spec.dims.emplace_back(d.begin(), d.end());
      open.push_back(d.empty());
    }
    if (e.op == &ops::def::manual_exit) {
      state(tensors[0]).used |= manual;
      fix(tensors[1], spec, open);
      return;
    }
    Slot outside = fresh(in[0]);
    fix(outside, spec, open);
    state(outside).used |= manual;
    add_node(ir::FactorRule::pointwise(in, in), in, in, {tensors[0], outside}, 0);
    tensors[0] = outside;
    state(tensors[1]).used |= manual;
  }

  // ShardBuffers of a dimension along which elements move take them from their neighbours, so that both sides may be
  // split.
  void tie_moved(const Moves& moves, const ir::Types& in, const ir::Types& out, const std::vector<Slot>& tensors) {
    for (const auto& m : moves.dims) {
      tie_dims({in[m.operand], m.dimension, tensors[m.operand]}, {out[0], m.dimension, tensors.back()});
    }
  }
  struct Dimension {
    const ir::Type& type;
    std::size_t number;
    Slot slot;
  };
  void tie_dims(const Dimension& from, const Dimension& to) {
    ir::FactorRule rule;
    rule.operands.emplace_back(from.type.shape.size());
    rule.results.emplace_back(to.type.shape.size());
    int f = rule.add(to.type.shape[to.number]);
    rule.operands[0][from.number] = rule.results[0][to.number] = {f};
    add_node(std::move(rule), {from.type}, {to.type}, {from.slot, to.slot}, 1, true);
  }

  static bool keeps_elements(const ir::FactorRule& rule, const ir::Types& in, const ir::Types& out) {
    auto pass = [](const ir::Factor& f) { return f.kind == ir::Factor::Kind::Pass; };
    return in.size() == 1 && out.size() == 1 && in[0].size() == out[0].size() &&
           std::all_of(rule.factors.begin(), rule.factors.end(), pass);
  }

  bool add_control(const ir::Graph& g, const ir::Eqn& e, const std::vector<Slot>& slots) {
    auto control = ops::control_of(e);
    if (!control) return false;
    for (const auto& body : control->bodies) {
      std::vector<Slot> inner = enter(*body.graph);
      auto at = [](const std::vector<Slot>& s, ir::ValueId v) { return s[static_cast<std::size_t>(v)]; };
      for (const auto& t : body.inputs) {
        ir::ValueId outer = e.in[t.outer];
        ir::ValueId in = body.graph->inputs[t.inner];
        tie(g.type(outer), at(slots, outer), body.graph->type(in), at(inner, in), t.stacked);
      }
      add_equations(*body.graph, inner);
      for (const auto& t : body.outputs) {
        ir::ValueId outer = e.out[t.outer];
        ir::ValueId out = body.graph->outputs[t.inner];
        tie(g.type(outer), at(slots, outer), body.graph->type(out), at(inner, out), t.stacked);
      }
    }
    for (auto [operand, result] : control->carried) {
      ir::ValueId a = e.in[operand];
      ir::ValueId b = e.out[result];
      tie(g.type(a), slots[static_cast<std::size_t>(a)], g.type(b), slots[static_cast<std::size_t>(b)], false);
    }
    return true;
  }

  // An output is a value of its own, so that a layout asked of it reaches what it is computed from without binding it.
  void add_outputs(const ir::Graph& g, const std::vector<Slot>& slots) {
    for (std::size_t i = 0; i < g.outputs.size(); ++i) {
      const auto& layout = m_.outputs[i].layout;
      if (!layout || output_given_[i]) continue;
      output_given_[i] = true;
      const ir::Type& type = g.type(g.outputs[i]);
      Slot out = fresh(type);
      fix(out, *layout, {});
      tie(type, slots[static_cast<std::size_t>(g.outputs[i])], type, out, false);
    }
  }

  void connect() {
    readers_.assign(states_.size(), {});
    for (std::size_t n = 0; n < nodes_.size(); ++n) {
      for (auto s : nodes_[n].tensors) readers_[static_cast<std::size_t>(s)].push_back(n);
    }
  }

  // One pass over the nodes in program order or against it; true when an axis was added anywhere.
  bool sweep(int round, bool forward) {
    bool changed = false;
    for (std::size_t k = 0; k < nodes_.size(); ++k) {
      Node& n = nodes_[forward ? k : nodes_.size() - 1 - k];
      if (!n.dirty || n.round > round) continue;
      n.dirty = false;
      changed = visit(n) || changed;
    }
    return changed;
  }

  bool visit(Node& n) {
    struct Choice {
      int factor;
      AxisList axes;
    };
    // Tensors in order of weight offer their axes; a later one may lengthen what an earlier one said.
    if (std::ranges::all_of(n.tensors, [&](Slot s) { return state(s).used == 0; })) return false;
    boost::container::small_vector<Choice, 4> choices;
    FactorAxes offer(n.factoring.num_factors());
    for (std::size_t t : n.order) {
      const auto& dims = n.factoring.tensor(t);
      const State& s = state(n.tensors[t]);
      if (s.used == 0) continue;
      for (std::size_t d = 0; d < dims.size(); ++d) {
        if (s.dims[d].empty()) continue;
        n.factoring.project_dim(dims[d], s.dims[d], offer);
        for (int f : dims[d]) {
          const AxisList& axes = offer[static_cast<std::size_t>(f)];
          if (axes.empty()) continue;
          auto it = std::find_if(choices.begin(), choices.end(), [&](const Choice& c) { return c.factor == f; });
          if (it == choices.end()) {
            choices.push_back({f, axes});
          } else if (is_prefix(it->axes, axes)) {
            it->axes = axes;
          }
        }
      }
    }
    bool changed = false;
    for (const auto& c : choices) {
      for (std::size_t t = 0; t < n.tensors.size(); ++t) changed = extend(n, t, c.factor, c.axes) || changed;
    }
    return changed;
  }

  // Gives tensor t the axes of a factor as far as its other dimensions leave them free.
  bool extend(Node& n, std::size_t t, int factor, const AxisList& axes) {
    State& s = state(n.tensors[t]);
    const auto& dims = n.factoring.tensor(t);
    bool changed = false;
    for (std::size_t d = 0; d < dims.size(); ++d) {
      if (dims[d].size() == 1 && s.dims[d].size() >= axes.size()) continue;  // has them, or others
      if (s.closed[d] || std::find(dims[d].begin(), dims[d].end(), factor) == dims[d].end()) continue;
      FactorAxes now(n.factoring.num_factors());
      if (!n.factoring.project_dim(dims[d], s.dims[d], now)) continue;
      const AxisList& mine = now[static_cast<std::size_t>(factor)];
      if (mine.size() >= axes.size() || !is_prefix(mine, axes)) continue;
      bool possible = true;
      bool before = true;
      for (int f : dims[d]) {
        if (f == factor) {
          before = false;
        } else if (before ? !n.factoring.used_up(f, now[static_cast<std::size_t>(f)])
                          : !now[static_cast<std::size_t>(f)].empty()) {
          possible = false;
        }
      }
      for (std::size_t i = mine.size(); possible && i < axes.size() && !(s.used & bit(axes[i])); ++i) {
        s.dims[d].push_back(axes[i]);
        s.used |= bit(axes[i]);
        changed = true;
      }
    }
    if (changed) {
      for (auto r : readers_[static_cast<std::size_t>(n.tensors[t])]) nodes_[r].dirty = true;
    }
    return changed;
  }

  std::vector<ir::Layout> results() {
    const ir::Graph& g = *m_.graph;
    std::vector<ir::Layout> out(g.num_values());
    for (std::size_t v = 0; v < out.size(); ++v) out[v].dims = state(slots_[v]).dims;
    for (std::size_t i = 0; i < g.inputs.size(); ++i) {
      auto v = static_cast<std::size_t>(g.inputs[i]);
      out[v] = m_.inputs[i].layout ? *m_.inputs[i].layout : visible(g.type(g.inputs[i]), out[v], m_);
    }
    return out;
  }

  const ir::Module& m_;
  Factorings own_factorings_;
  Factorings& factorings_;
  std::deque<Factoring> ties_;  ///< those of nodes that are no equations
  std::vector<bool> input_given_, output_given_;
  std::vector<Slot> slots_;  ///< by value
  std::vector<State> states_;
  std::vector<Node> nodes_;
  std::map<std::pair<std::int64_t, Shape>, std::pair<ir::Type, Slot>>
      groups_;                                     ///< by number and shape: the first member
  std::vector<std::vector<std::size_t>> readers_;  ///< by slot: nodes that mention it
};

ir::Module prepared(ir::Module m) {
  if (m.deterministic) m.graph = with_fixed_leaves(m.graph);
  m.graph = with_sorted_heads(expand_maps(m));
  if (m.mesh && m.mesh->num_positions() > 1) m.graph = with_gathers_in_order(with_whole_factors(m.graph));
  return m;
}

Constraint resolve(const ops::ShardingConstraint& c, const ir::Module& m) {
  Constraint out{ir::Layout::replicated(static_cast<std::int64_t>(c.dims.size())),
                 std::vector<bool>(c.dims.size(), true)};
  const auto* axes = m.find_axes(c.mesh_sizes, c.mesh_names.list);
  if (axes == nullptr) return out;  // a mesh of other devices than the program's: only on the default device (M70)
  for (std::size_t d = 0; d < c.dims.size(); ++d) {
    out.open[d] = std::ranges::count(c.dims[d], -1) > 0;
    for (auto a : c.dims[d]) {
      if (a < 0) continue;
      const AxisList& parts = (*axes)[static_cast<std::size_t>(a)];
      out.layout.dims[d].insert(out.layout.dims[d].end(), parts.begin(), parts.end());
    }
  }
  for (auto a : c.unreduced) out.layout.partial |= mask_of((*axes)[static_cast<std::size_t>(a)]);
  for (auto a : c.replicated) out.replicated |= mask_of((*axes)[static_cast<std::size_t>(a)]);
  return out;
}

ir::Layout visible(const ir::Type& type, ir::Layout layout, const ir::Module& m) {
  for (std::size_t d = 0; d < layout.dims.size() && !m.uneven; ++d) {
    AxisList& axes = layout.dims[d];
    while (type.shape[d] % ir::parts(axes, *m.mesh) != 0) axes.pop_back();
  }
  return layout;
}

Propagation::Propagation(const ir::Module& m, Factorings* factorings) {
  TESSERA_CHECK(m.inputs.size() == m.graph->inputs.size(),
                str(m.inputs.size(), " layouts for ", m.graph->inputs.size(), " inputs"));
  TESSERA_CHECK(m.outputs.size() == m.graph->outputs.size(),
                str(m.outputs.size(), " layouts for ", m.graph->outputs.size(), " outputs"));
  impl_ = std::make_unique<Impl>(m, factorings);
}
Propagation::~Propagation() = default;
void Propagation::take_ports() { impl_->take_ports(); }
std::vector<ir::Layout> Propagation::run(std::span<const FixedLayout> fixed) { return impl_->run(fixed); }

}  // namespace tessera::spmd
