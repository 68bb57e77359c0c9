// SPDX-License-Identifier: Apache-2.0
#include "spmd/equations/divided_equations.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "ir/op_def.h"
#include "ir/pass.h"
#include "ir/rewriter.h"
#include "ops/collective/transfer_bytes.h"
#include "ops/define_op.h"
#include "ops/shared_attrs.h"
#include "spmd/equations/window_equations.h"
#include "spmd/factoring.h"

namespace tessera::spmd {

namespace {

using ir::Value;
using ir::Values;

class Divider {
 public:
  Divider(const ir::Module& m, const std::vector<ir::Layout>& layouts, const Pricing& price)
      : m_(m), g_(*m.graph), layouts_(layouts), price_(price), maker_(g_.num_values()) {
    for (const auto& e : g_.eqns) {
      for (auto v : e.out) maker_[at(v)] = &e;
    }
  }

  std::optional<LaidGraph> run() {
    std::vector<std::optional<Part>> parts;
    bool any = false;
    divide_with_readers();
    for (const auto& e : g_.eqns) {
      auto it = with_maker_.find(&e);
      parts.push_back(it != with_maker_.end() ? std::move(it->second) : divided(e).part);
      any = any || parts.back();
    }
    if (!any) return std::nullopt;
    ir::Rewriter r(b_, g_);
    r.add_inputs();
    lay(r.of(g_.inputs), g_.inputs, layouts_);
    std::size_t next = 0;
    r.walk([&](const ir::Eqn& e, const Values& in) {
      const auto& part = parts[next++];
      if (unread_.contains(&e)) return Values(e.out.size());
      if (part) {
        Values out = splice(*part, r.of(part->reads));
        lay(out, e.out, layouts_);
        return out;
      }
      return copied(r, e, in, layouts_);
    });
    // Not pruned: values keep the numbers that their layouts have.
    auto graph = std::make_shared<const ir::Graph>(b_.finish(r.outputs()));
    return LaidGraph{ir::after_pass("divide_equations", graph), std::move(made_), by_rules_};
  }

  // Results under the layouts in which rules leave them, where that moves less than to bring them under their own.
  std::vector<Alternative> left_elsewhere() {
    std::vector<Alternative> out;
    for (const auto& e : g_.eqns) {
      if (m_.divides && e.op->divisions() > 0 && is_split(e)) note_left(e, out);
    }
    return out;
  }

 private:
  // What stands in an equation's place, and the values of the program that it reads.
  struct Part {
    ir::Module module;
    std::vector<ir::Layout> layouts;
    std::vector<ir::ValueId> reads;
  };
  // An equation divided, where that is better, and what it takes.
  struct Choice {
    std::optional<Part> part;
    Price price;
  };
  // An equation's operands as inputs of a program of its own, in which small constants are themselves. In place of
  // operand 0 stands that of `source`, which makes it.
  struct Alone {
    Alone(const Divider& d, const ir::Eqn& e, const ir::Eqn* source) {
      b.set_loc(e.loc);
      for (std::size_t i = 0; i < e.in.size(); ++i) {
        ir::ValueId v = source != nullptr && i == 0 ? source->in[0] : e.in[i];
        Value x = d.constant(b, v, kDepth);
        if (!x) {
          x = b.input(d.g_.type(v));
          reads.push_back(v);
        }
        in.push_back(x);
      }
      if (source == nullptr || source->op != &ops::def::reshape) return;
      whole = in[0];
      in[0] = ops::reshape(whole, d.g_.type(e.in[0]).shape);
    }
    static constexpr int kDepth = 6;
    ir::Builder b;
    Values in;
    std::vector<ir::ValueId> reads;
    Value whole;  // operand 0 before it was reshaped
  };

  // A value that is made of constants, again; empty where it depends on anything else or is large.
  Value constant(ir::Builder& b, ir::ValueId v, int depth) const {
    constexpr std::int64_t kLarge = 1024;  // bytes
    const ir::Eqn* e = maker_[at(v)];
    if (depth == 0 || e == nullptr || e->out.size() != 1 || g_.type(v).nbytes() > kLarge) return {};
    bool pure = !e->op->traits().effect && !e->op->traits().collective && e->op != &ops::def::sharding_constraint;
    if (!pure || !e->op->subgraphs(e->attrs).empty()) return {};
    Values in;
    for (auto operand : e->in) {
      in.push_back(constant(b, operand, depth - 1));
      if (!in.back()) return {};
    }
    return b.add_typed(*e->op, in, e->attrs, {g_.type(v)})[0];
  }

  const ir::Layout& layout(ir::ValueId v) const { return layouts_[at(v)]; }

  // Gives new values the layouts that `layouts` has for the old ones.
  void lay(const Values& values, const std::vector<ir::ValueId>& old, const std::vector<ir::Layout>& layouts) {
    made_.resize(b_.graph().num_values());
    for (std::size_t i = 0; i < values.size(); ++i) made_[at(values[i].id)] = layouts[at(old[i])];
  }

  std::vector<ir::Layout> layouts_of(const std::vector<ir::ValueId>& values) const {
    std::vector<ir::Layout> out;
    for (auto v : values) out.push_back(layout(v));
    return out;
  }

  Choice divided(const ir::Eqn& e) {
    bool slides = slides_windows(e);
    if (e.in.empty() || (!slides && e.op->divisions() == 0)) return {};
    const ir::Eqn* source = reshaped(e);
    if (!is_split(e) && source == nullptr) return {};
    if (slides) {
      if (auto part = written(e, nullptr, divide_windows)) return {std::move(part), {}};
    }
    if (!m_.divides) return {};
    Choice best;
    bool priced = false;  // when the first way applies
    for (std::size_t way = 0; way < e.op->divisions(); ++way) {
      auto part = written(e, source, rule(way));
      if (!part) continue;
      if (!priced) best.price = undivided_price(e, source);
      priced = true;
      Price found = price_(part->module, part->layouts);
      if (!less(found, best.price)) continue;
      best = {std::move(part), found};
    }
    by_rules_ = by_rules_ || best.part;
    return best;
  }

  // Equations that make what others only pick from, with those: the readers of a value are divided together with its
  // maker, or none of them is.
  void divide_with_readers() {
    if (!m_.divides || std::ranges::none_of(g_.eqns, [](const auto& e) { return e.op->divides_with_maker(); })) return;
    std::vector<std::vector<const ir::Eqn*>> readers(g_.num_values());
    for (const auto& e : g_.eqns) {
      for (auto v : e.in) readers[at(v)].push_back(&e);
    }
    for (const auto& e : g_.eqns) {
      // A reshape is no work that could be left out.
      if (e.in.size() != 1 || e.out.size() != 1 || e.op == &ops::def::reshape || !is_split(e)) continue;
      if (std::ranges::find(g_.outputs, e.out[0]) == g_.outputs.end()) divide_with_readers(e, readers[at(e.out[0])]);
    }
  }
  void divide_with_readers(const ir::Eqn& e, const std::vector<const ir::Eqn*>& readers) {
    std::vector<Part> parts;
    Price together;
    for (const auto* reader : readers) {
      if (!reader->op->divides_with_maker() || reader->in[0] != e.out[0]) return;
      auto part = written(*reader, &e, [](ir::Builder& b, const ir::Eqn& r, const ir::DivideArgs& args) {
        return r.op->divide_with_maker(b, args, r.attrs);
      });
      if (!part) return;
      together = sum(together, price_(part->module, part->layouts));
      parts.push_back(std::move(*part));
    }
    if (parts.empty()) return;
    Price apart = undivided_price(e, nullptr);
    if (Choice way = divided(e); way.part) apart = way.price;
    for (const auto* reader : readers) apart = sum(apart, undivided_price(*reader, nullptr));
    if (!less(together, apart)) return;
    for (std::size_t i = 0; i < parts.size(); ++i) with_maker_.emplace(readers[i], std::move(parts[i]));
    unread_.insert(&e);
    by_rules_ = true;
  }
  static Price sum(const Price& a, const Price& b) {
    return {a.bytes + b.bytes, a.exchanges + b.exchanges, std::max(a.largest, b.largest)};
  }

  using Rule = std::function<std::optional<ir::Division>(ir::Builder&, const ir::Eqn&, const ir::DivideArgs&)>;
  static Rule rule(std::size_t way) {
    return [way](ir::Builder& b, const ir::Eqn& e, const ir::DivideArgs& args) {
      return e.op->divide(way, b, args, e.attrs);
    };
  }
  std::optional<ir::Division> applied(const ir::Eqn& e, const ir::Eqn* source, const Rule& rule, Alone& alone) const {
    std::vector<ir::Layout> operands = layouts_of(e.in), results = layouts_of(e.out);
    ir::Types out = types_of(g_, e.out);
    ir::DivideArgs args{alone.in, out, operands, results, *m_.mesh, m_.deterministic, {}, nullptr};
    if (source != nullptr) {
      args.unflattened = alone.whole;
      args.unflattened_layout = &layout(source->in[0]);
    }
    if (source != nullptr && !alone.whole) {
      operands[0] = layout(source->in[0]);
      args.maker = source;
    }
    return rule(alone.b, e, args);
  }
  // With `others`, the results of the equation under these layouts.
  std::optional<Part> written(const ir::Eqn& e, const ir::Eqn* source, const Rule& rule,
                              const std::vector<FixedLayout>& others = {}) const {
    Alone alone(*this, e, source);
    auto division = applied(e, source, rule, alone);
    if (!division) return std::nullopt;
    std::vector<FixedLayout> fixed;
    for (auto& [value, l] : division->layouts) fixed.push_back({value.id, std::move(l)});
    ir::Module inner = ported(e, alone, std::move(division->out));
    for (std::size_t i = 0; i < e.out.size(); ++i) {
      auto it = std::ranges::find(others, e.out[i], &FixedLayout::value);
      if (it != others.end()) inner.outputs[i].layout = it->layout;
    }
    std::vector<ir::Layout> layouts = propagate(inner, fixed);
    if (auto further = divide_equations(inner, layouts, price_)) {
      inner.graph = further->graph;
      layouts = std::move(further->layouts);
    }
    return Part{std::move(inner), std::move(layouts), std::move(alone.reads)};
  }

  // Results that a rule leaves under other layouts than they have, and that are not the program's.
  std::vector<FixedLayout> left_by(std::size_t way, const ir::Eqn& e) const {
    Alone alone(*this, e, nullptr);
    std::vector<FixedLayout> out;
    auto division = applied(e, nullptr, rule(way), alone);
    for (std::size_t i = 0; division && i < e.out.size(); ++i) {
      if (std::ranges::find(g_.outputs, e.out[i]) != g_.outputs.end()) continue;
      for (const auto& [value, l] : division->layouts) {
        if (value.id == division->out[i].id && l != layout(e.out[i])) out.push_back({e.out[i], l});
      }
    }
    return out;
  }

  void note_left(const ir::Eqn& e, std::vector<Alternative>& out) const {
    for (std::size_t way = 0; way < e.op->divisions(); ++way) {
      std::vector<FixedLayout> left = left_by(way, e);
      if (left.empty()) continue;
      auto part = written(e, nullptr, rule(way));
      auto other = written(e, nullptr, rule(way), left);
      if (!part || !other) continue;
      auto saved =
          static_cast<double>(price_(part->module, part->layouts).bytes - price_(other->module, other->layouts).bytes);
      if (saved > 0) out.push_back({&e, std::move(left), saved});
    }
  }

  bool is_split(const ir::Eqn& e) const {
    auto split = [&](ir::ValueId v) { return layout(v).tiled() != 0; };
    return std::ranges::any_of(e.in, split) || std::ranges::any_of(e.out, split);
  }

  Price undivided_price(const ir::Eqn& e, const ir::Eqn* source) const {
    Alone alone(*this, e, source);
    ir::Module whole = ported(e, alone, alone.b.add_typed(*e.op, alone.in, e.attrs, types_of(g_, e.out)));
    return price_(whole, propagate(whole));
  }

  // The reshape that makes an equation's operand 0, where it leaves axes behind.
  const ir::Eqn* reshaped(const ir::Eqn& e) const {
    const ir::Eqn* from = e.in.empty() ? nullptr : maker_[at(e.in[0])];
    if (from == nullptr || from->op != &ops::def::reshape) return nullptr;
    return (layout(from->in[0]).tiled() & ~layout(e.in[0]).tiled()) != 0 ? from : nullptr;
  }

  // A program in place of an equation, with the layouts of what the equation reads and makes.
  ir::Module ported(const ir::Eqn& e, Alone& alone, Values out) const {
    ir::Module inner = m_.with_graph(std::make_shared<const ir::Graph>(alone.b.finish(std::move(out))));
    for (std::size_t i = 0; i < alone.reads.size(); ++i) inner.inputs[i].layout = layout(alone.reads[i]);
    for (std::size_t i = 0; i < e.out.size(); ++i) inner.outputs[i].layout = wanted(e.out[i]);
    return inner;
  }
  // The layout of an output of the program where that is given.
  const ir::Layout& wanted(ir::ValueId v) const {
    for (std::size_t i = 0; i < g_.outputs.size(); ++i) {
      if (g_.outputs[i] == v && m_.outputs[i].layout) return *m_.outputs[i].layout;
    }
    return layout(v);
  }

  Values splice(const Part& part, const Values& args) {
    ir::Rewriter r(b_, *part.module.graph);
    r.bind(part.module.graph->inputs, args);
    r.walk([&](const ir::Eqn& e, const Values& in) { return copied(r, e, in, part.layouts); });
    return r.outputs();
  }

  // An equation as it is. A reduction that is there already is not done again: its sum over positions would be
  // exchanged twice (argmax is written with the maximum, which programs often want too).
  Values copied(ir::Rewriter& r, const ir::Eqn& e, const Values& in, const std::vector<ir::Layout>& layouts) {
    bool reduces = e.op->traits().reduction && !e.op->traits().collective && e.out.size() == 1;
    for (const auto& [op, attrs, operand, result] : reductions_) {
      bool same = reduces && op == e.op && operand == in[0].id && in.size() == 1 && ir::equal(attrs, e.attrs);
      if (same && made_[at(result)] == layouts[at(e.out[0])]) return {Value{&b_, result}};
    }
    Values out = r.copy(e, in);
    lay(out, e.out, layouts);
    if (reduces && in.size() == 1) reductions_.push_back({e.op, e.attrs, in[0].id, out[0].id});
    return out;
  }

  const ir::Module& m_;
  const ir::Graph& g_;
  const std::vector<ir::Layout>& layouts_;
  const Pricing& price_;
  std::vector<const ir::Eqn*> maker_;  // by value
  ir::Builder b_;
  std::vector<ir::Layout> made_;  // by new value
  struct Reduction {
    const ir::OpDef* op;
    ir::Attrs attrs;
    ir::ValueId operand, result;
  };
  std::vector<Reduction> reductions_;  // in the new graph
  bool by_rules_ = false;
  std::map<const ir::Eqn*, std::optional<Part>> with_maker_;  // readers that are divided with what they read
  std::set<const ir::Eqn*> unread_;                           // and the equations that made that
};

// How often a value would have to be halved to be of a size that any device has room for.
int crowding(std::int64_t bytes) {
  constexpr std::int64_t kRoom = std::int64_t{256} << 20;
  int halvings = 0;
  for (; bytes > kRoom; bytes /= 2) ++halvings;
  return halvings;
}

}  // namespace

Price price_of(const ir::Graph& partitioned) {
  const CommPlan plan = comm_plan(partitioned);
  Price out{plan.bytes_per_device()};
  for (const auto& step : plan.steps()) out.exchanges += std::max<std::int64_t>(step.times, 1);
  for (std::size_t v = 0; v < partitioned.num_values(); ++v) {
    auto id = static_cast<ir::ValueId>(v);
    out.largest =
        std::max(out.largest, ops::local_bytes(partitioned.type(id), partitioned.layout(id), *partitioned.mesh));
  }
  return out;
}

bool less(const Price& a, const Price& b) {
  return std::pair(crowding(a.largest), a.bytes) < std::pair(crowding(b.largest), b.bytes);
}

std::int64_t most_bytes_of_less(const Price& p) {
  return crowding(p.largest) == 0 ? p.bytes : std::numeric_limits<std::int64_t>::max();
}

std::optional<LaidGraph> divide_equations(const ir::Module& m, const std::vector<ir::Layout>& layouts,
                                          const Pricing& price) {
  return Divider(m, layouts, price).run();
}

std::vector<Alternative> left_elsewhere(const ir::Module& m, const std::vector<ir::Layout>& layouts,
                                        const Pricing& price) {
  return Divider(m, layouts, price).left_elsewhere();
}

}  // namespace tessera::spmd
