// SPDX-License-Identifier: Apache-2.0
#include "spmd/equations/divided_equations.h"

#include <algorithm>
#include <limits>
#include <unordered_map>
#include <unordered_set>

#include "ir/op_def.h"
#include "ir/pass.h"
#include "ir/rewriter.h"
#include "ops/collective/transfer_bytes.h"
#include "ops/define_op.h"
#include "ops/shared_attrs.h"
#include "spmd/equations/window_equations.h"
#include "spmd/factoring.h"
#include "spmd/late_completion.h"

namespace tessera::spmd {

namespace {

using ir::Value;
using ir::Values;

class Divider {
 public:
  Divider(const ir::Module& m, const std::vector<ir::Layout>& layouts, const Pricing& price)
      : m_(m), g_(*m.graph), layouts_(layouts), price_(price), uses_(g_) {}

  /// With `apart`, each equation by itself, whatever is around it.
  std::optional<LaidGraph> run(bool apart = false) {
    apart_ = apart;
    std::vector<std::optional<Part>> parts;
    bool any = false;
    divide_with_readers();
    for (const auto& e : g_.eqns) {
      auto it = with_maker_.find(&e);
      parts.push_back(it != with_maker_.end() ? std::move(it->second)
                      : taken_.contains(&e)   ? std::nullopt
                                              : divided(e));
      any = any || parts.back();
    }
    if (!any) return std::nullopt;
    ir::Rewriter r(b_, g_);
    r.add_inputs();
    lay(r.of(g_.inputs), g_.inputs, layouts_);
    for (std::size_t i = 0; i < g_.eqns.size(); ++i) {
      const ir::Eqn& e = g_.eqns[i];
      if (taken_.contains(&e)) continue;
      b_.set_loc(e.loc);
      if (parts[i]) {
        const Values out = splice(*parts[i], r.of(parts[i]->reads));
        lay(out, parts[i]->makes, layouts_);
        r.bind(parts[i]->makes, out);
      } else {
        r.bind(e.out, copied(r, e, r.of(e.in), layouts_));
      }
    }
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
  // What stands in an equation's place, and the values of the program that it reads and makes.
  struct Part {
    ir::Module module;
    std::vector<ir::Layout> layouts;
    std::vector<ir::ValueId> reads, makes;
  };
  // An equation and those around it that are written with it.
  struct Place {
    explicit Place(const ir::Eqn& eqn) : e(eqn), paddings(eqn.in.size()) {}
    const ir::Eqn& e;
    const ir::Eqn* reshape = nullptr;      // that makes operand 0
    const ir::Eqn* maker = nullptr;        // of operand 0, whose own operand stands for that
    std::vector<const ir::Eqn*> paddings;  // that make operands which nobody else reads
    const ir::Eqn* cut = nullptr;          // the slice that alone reads the result
    const std::vector<ir::ValueId>& makes() const { return cut != nullptr ? cut->out : e.out; }
  };
  // An equation's operands as inputs of a program of its own, in which small constants are themselves.
  struct Alone {
    Alone(const Divider& d, const Place& p) {
      b.set_loc(p.e.loc);
      for (std::size_t i = 0; i < p.e.in.size(); ++i) {
        if (const ir::Eqn* padding = p.paddings[i]) {
          const Values from{read(d, padding->in[0]), read(d, padding->in[1])};
          in.push_back(b.add_typed(*padding->op, from, padding->attrs, {d.g_.type(p.e.in[i])})[0]);
        } else {
          const ir::Eqn* before = p.maker != nullptr ? p.maker : p.reshape;
          in.push_back(read(d, before != nullptr && i == 0 ? before->in[0] : p.e.in[i]));
        }
      }
      if (p.reshape == nullptr) return;
      whole = in[0];
      in[0] = ops::reshape(whole, d.g_.type(p.e.in[0]).shape);
    }
    Value read(const Divider& d, ir::ValueId v) {
      if (Value x = d.constant(b, v, kDepth)) return x;
      reads.push_back(v);
      return b.input(d.g_.type(v));
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
    const ir::Eqn* e = uses_.maker(v);
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

  std::optional<Part> divided(const ir::Eqn& e) {
    bool slides = slides_windows(e);
    if (e.in.empty() || (!slides && e.op->divisions() == 0)) return std::nullopt;
    if (auto part = divided_with_neighbours(e)) return part;
    Place place(e);
    place.reshape = reshaped(e);
    if (!is_split(e) && place.reshape == nullptr) return std::nullopt;
    if (slides) {
      if (auto part = written(Place(e), divide_windows)) return part;
    }
    if (!m_.divides) return std::nullopt;
    std::optional<Part> best;
    std::optional<Price> least;  // found when the first way applies
    for (std::size_t way = 0; way < e.op->divisions(); ++way) {
      auto part = written(place, rule(way));
      if (!part) continue;
      if (!least) least = undivided_price(place);
      Price found = price_(part->module, part->layouts);
      if (!less(found, *least)) continue;
      least = found;
      best = std::move(part);
    }
    by_rules_ = by_rules_ || best;
    return best;
  }

  // An equation together with what pads its operands and cuts its result, whose shards begin elsewhere than those of
  // what is padded: where that is less than all of them one by one.
  std::optional<Part> divided_with_neighbours(const ir::Eqn& e) {
    if (apart_ || !m_.divides || !meets_padding(e) || !is_split(e)) return std::nullopt;
    Place place(e);
    bool any = false;
    for (std::size_t i = 0; i < e.in.size(); ++i) {
      const ir::Eqn* maker = uses_.maker_for_one(e.in[i]);
      if (maker == nullptr || maker->op != &ops::def::pad || layout(e.in[i]).tiled() == 0) continue;
      place.paddings[i] = maker;
      any = true;
    }
    const std::vector<Use>& readers = uses_.of(e.out[0]);
    if (can_be_cut(e) && readers.size() == 1 && !uses_.returned(e.out[0])) {
      const ir::Eqn& reader = *readers[0].eqn;
      auto one = [](std::int64_t stride) { return stride == 1; };
      if (reader.op == &ops::def::slice && std::ranges::all_of(ir::get<ops::StaticSlice>(reader.attrs).strides, one)) {
        place.cut = &reader;
        any = true;
      }
    }
    if (!any) return std::nullopt;
    const auto* cut = place.cut == nullptr ? nullptr : &ir::get<ops::StaticSlice>(place.cut->attrs);
    auto part = written(place, [cut](ir::Builder& b, const ir::Eqn& eqn, const ir::DivideArgs& args) {
      return divide_padded_windows(b, eqn, args, cut);
    });
    if (!part || !less(price_(part->module, part->layouts), price_apart(place))) return std::nullopt;
    for (const auto* padding : place.paddings) {
      if (padding != nullptr) taken_.insert(padding);
    }
    if (place.cut != nullptr) taken_.insert(place.cut);
    by_rules_ = true;
    return part;
  }

  // Equations that make what others only pick from, with those: the readers of a value are divided together with its
  // maker, or none of them is.
  void divide_with_readers() {
    if (apart_ || !m_.divides) return;
    for (const auto& e : g_.eqns) {
      if (e.in.size() != 1 || e.out.size() != 1 || uses_.returned(e.out[0])) continue;
      const std::vector<Use>& readers = uses_.of(e.out[0]);
      auto picks = [&](const Use& u) { return u.eqn->op->divides_with_maker() && u.operand == 0; };
      // A reshape is no work that could be left out.
      if (readers.empty() || e.op == &ops::def::reshape || !is_split(e) || !std::ranges::all_of(readers, picks))
        continue;
      divide_with_readers(e, readers);
    }
  }
  void divide_with_readers(const ir::Eqn& e, const std::vector<Use>& readers) {
    std::vector<Part> parts;
    Price together, apart;
    for (const auto& reader : readers) {
      Place place(*reader.eqn);
      place.maker = &e;
      auto part = written(place, [](ir::Builder& b, const ir::Eqn& r, const ir::DivideArgs& args) {
        return r.op->divide_with_maker(b, args, r.attrs);
      });
      if (!part) return;
      together = sum(together, price_(part->module, part->layouts));
      apart = sum(apart, undivided_price(Place(*reader.eqn)));
      parts.push_back(std::move(*part));
    }
    auto alone = divided(e);
    apart = sum(apart, alone ? price_(alone->module, alone->layouts) : undivided_price(Place(e)));
    if (!less(together, apart)) return;
    for (std::size_t i = 0; i < parts.size(); ++i) with_maker_.emplace(readers[i].eqn, std::move(parts[i]));
    taken_.insert(&e);
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
  std::optional<ir::Division> applied(const Place& p, const Rule& rule, Alone& alone) const {
    std::vector<ir::Layout> operands = layouts_of(p.e.in), results = layouts_of(p.e.out);
    ir::Types out = types_of(g_, p.e.out);
    ir::DivideArgs args{alone.in, out, operands, results, *m_.mesh, m_.deterministic};
    if (p.reshape != nullptr) {
      args.unflattened = alone.whole;
      args.unflattened_layout = &layout(p.reshape->in[0]);
    }
    if (p.maker != nullptr) {
      operands[0] = layout(p.maker->in[0]);
      args.maker = p.maker;
    }
    return rule(alone.b, p.e, args);
  }
  // With `others`, the results of the equation under these layouts.
  std::optional<Part> written(const Place& p, const Rule& rule, const std::vector<FixedLayout>& others = {}) const {
    Alone alone(*this, p);
    auto division = applied(p, rule, alone);
    if (!division) return std::nullopt;
    std::vector<FixedLayout> fixed;
    for (auto& [value, l] : division->layouts) fixed.push_back({value.id, std::move(l)});
    ir::Module inner = ported(p, alone, std::move(division->out));
    for (std::size_t i = 0; i < p.makes().size(); ++i) {
      auto it = std::ranges::find(others, p.makes()[i], &FixedLayout::value);
      if (it != others.end()) inner.outputs[i].layout = it->layout;
    }
    std::vector<ir::Layout> layouts = propagate(inner, fixed);
    if (auto further = divide_equations(inner, layouts, price_)) {
      inner.graph = further->graph;
      layouts = std::move(further->layouts);
    }
    return Part{std::move(inner), std::move(layouts), std::move(alone.reads), p.makes()};
  }

  // Results that a rule leaves under other layouts than they have, and that are not the program's.
  std::vector<FixedLayout> left_by(std::size_t way, const ir::Eqn& e) const {
    const Place place(e);
    Alone alone(*this, place);
    std::vector<FixedLayout> out;
    auto division = applied(place, rule(way), alone);
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
      auto part = written(Place(e), rule(way));
      auto other = written(Place(e), rule(way), left);
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

  Price undivided_price(const Place& p) const {
    Alone alone(*this, p);
    ir::Module whole = ported(p, alone, alone.b.add_typed(*p.e.op, alone.in, p.e.attrs, types_of(g_, p.e.out)));
    return price_(whole, propagate(whole));
  }
  // With each equation by itself, under the layouts that they have.
  Price price_apart(const Place& p) const {
    Alone alone(*this, p);
    Values out = alone.b.add_typed(*p.e.op, alone.in, p.e.attrs, types_of(g_, p.e.out));
    std::vector<FixedLayout> fixed{{out[0].id, layout(p.e.out[0])}};
    for (std::size_t i = 0; i < p.e.in.size(); ++i) {
      if (p.paddings[i] != nullptr) fixed.push_back({alone.in[i].id, layout(p.e.in[i])});
    }
    if (p.cut != nullptr) out = alone.b.add(*p.cut->op, out, p.cut->attrs);
    ir::Module whole = ported(p, alone, std::move(out));
    const std::vector<ir::Layout> layouts = propagate(whole, fixed);
    auto further = Divider(whole, layouts, price_).run(true);
    if (!further) return price_(whole, layouts);
    whole.graph = further->graph;
    return price_(whole, further->layouts);
  }

  // The reshape that makes an equation's operand 0, where it leaves axes behind.
  const ir::Eqn* reshaped(const ir::Eqn& e) const {
    const ir::Eqn* from = e.in.empty() ? nullptr : uses_.maker(e.in[0]);
    if (from == nullptr || from->op != &ops::def::reshape) return nullptr;
    return (layout(from->in[0]).tiled() & ~layout(e.in[0]).tiled()) != 0 ? from : nullptr;
  }

  // A program in place of an equation, with the layouts of what the equation reads and makes.
  ir::Module ported(const Place& p, Alone& alone, Values out) const {
    ir::Module inner = m_.with_graph(std::make_shared<const ir::Graph>(alone.b.finish(std::move(out))));
    for (std::size_t i = 0; i < alone.reads.size(); ++i) inner.inputs[i].layout = layout(alone.reads[i]);
    for (std::size_t i = 0; i < p.makes().size(); ++i) inner.outputs[i].layout = wanted(p.makes()[i]);
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
  GraphUses uses_;
  bool apart_ = false;
  std::unordered_set<const ir::Eqn*> taken_;  // that are written with others
  std::unordered_map<const ir::Eqn*, std::optional<Part>>
      with_maker_;  // what picks from values, divided with their makers
  ir::Builder b_;
  std::vector<ir::Layout> made_;  // by new value
  struct Reduction {
    const ir::OpDef* op;
    ir::Attrs attrs;
    ir::ValueId operand, result;
  };
  std::vector<Reduction> reductions_;  // in the new graph
  bool by_rules_ = false;
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
