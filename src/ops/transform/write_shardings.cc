// SPDX-License-Identifier: Apache-2.0
#include "ops/transform/write_shardings.h"

#include <algorithm>
#include <unordered_map>

#include "ir/op_def.h"
#include "ir/rewriter.h"
#include "ops/control/subgraph_structure.h"
#include "ops/define_op.h"
#include "ops/shared_attrs.h"

namespace tessera::ops {

namespace {

bool is_typed(const ir::Graph& g) {
  if (std::ranges::any_of(g.types, [](const Type& t) { return t.sharding != nullptr; })) return true;
  return std::ranges::any_of(g.eqns, [](const ir::Eqn& e) {
    return std::ranges::any_of(e.op->subgraphs(e.attrs), [](const GraphPtr& sub) { return is_typed(*sub); });
  });
}

Type untyped(Type t) {
  t.sharding = nullptr;
  return t;
}

GraphPtr written(const GraphPtr& graph, bool constrain);

class Writer {
 public:
  Writer(const ir::Graph& g, bool constrain) : g_(g), r_(b_, g), constrain_(constrain) {}

  GraphPtr run() {
    for (auto v : g_.inputs) r_.bind(v, b_.input(untyped(g_.type(v))));
    r_.walk([&](const ir::Eqn& e, const Values& in) { return write(e, in); });
    return r_.finish("write_shardings");
  }

 private:
  Values write(const ir::Eqn& e, const Values& in) {
    if (const auto* cast = ir::get_if<MeshCast>(e.attrs)) {
      // Axes that become explicit are named by the reshard that follows.
      const auto explicit_axes = [](const Dims& types) {
        return std::ranges::count(types, static_cast<std::int64_t>(AxisType::Explicit));
      };
      if (explicit_axes(cast->to) > explicit_axes(cast->from)) return in;
      return {constrained(in[0], g_.type(e.out[0]).sharding)};
    }
    if (const auto* c = ir::get_if<ShardingConstraint>(e.attrs)) {
      if (c->typed) return {constrained(in[0], g_.type(e.out[0]).sharding)};
      return add(e, in);
    }
    Values operands = in;
    if (e.op->traits().elementwise) {
      const auto* want = g_.type(e.out[0]).sharding;
      for (std::size_t i = 0; i < in.size(); ++i) {
        const auto* have = g_.type(e.in[i]).sharding;
        const bool moves = want != nullptr && have != nullptr && in[i].rank() == g_.type(e.out[0]).rank() &&
                           !have->marked() && have->dims != want->dims;
        if (moves) operands[i] = constrained(in[i], want);
      }
    }
    Values out = add(e, operands);
    // Maps and collectives place their results themselves, and numbers of the program are everywhere.
    if (e.op == &def::shard_map || e.op == &def::constant || e.op->traits().collective) return out;
    for (std::size_t k = 0; k < out.size(); ++k) out[k] = constrained(out[k], g_.type(e.out[k]).sharding);
    return out;
  }

  Values add(const ir::Eqn& e, const Values& in) {
    ir::Attrs attrs = e.attrs;
    std::vector<GraphPtr> bodies = e.op->subgraphs(attrs);
    if (!bodies.empty()) {
      // Reducers work on numbers: nothing to place.
      const bool reducer = ir::get_if<Reduce>(attrs) != nullptr || ir::get_if<ReduceWindow>(attrs) != nullptr;
      const std::vector<GraphPtr> before = bodies;
      for (auto& body : bodies) body = written(body, constrain_ && !reducer);
      if (bodies != before) attrs = with_bodies(e, bodies);
    }
    Types types;
    for (auto v : e.out) types.push_back(untyped(g_.type(v)));
    return b_.add_typed(*e.op, in, std::move(attrs), std::move(types));
  }

  Value constrained(Value x, ir::TypeShardingPtr s) {
    if (s == nullptr || !constrain_) return x;
    ir::Attrs& constraint = constraints_[s];
    if (constraint == nullptr) constraint = attrs(constraint_of(s));
    return b_.add_typed(def::sharding_constraint, Values{x}, constraint, {untyped(x.type())})[0];
  }

  static ShardingConstraint constraint_of(ir::TypeShardingPtr s) {
    const auto& types = s->mesh.axis_types();
    const bool open = std::ranges::any_of(types, [](AxisType t) { return t == AxisType::Auto; });
    ShardingConstraint c;
    for (const auto& a : s->mesh.shape_tuple()) {
      c.mesh_sizes.push_back(a.size);
      c.mesh_names.list.push_back(a.name);
    }
    for (const auto& axes : s->dims) {
      Dims& dim = c.dims.emplace_back(axes.begin(), axes.end());
      if (open) dim.push_back(-1);
    }
    for (auto a : ir::axes_of(s->unreduced)) c.unreduced.push_back(a);
    for (std::size_t a = 0; a < types.size(); ++a) {
      // Explicit axes that split nothing may not be taken for what is open.
      const bool used = ((s->split() | s->unreduced) >> a & 1) != 0;
      if (open && !used && types[a] == AxisType::Explicit) c.replicated.push_back(static_cast<std::int64_t>(a));
    }
    return c;
  }

  const ir::Graph& g_;
  ir::Builder b_;
  ir::Rewriter r_;
  bool constrain_;
  std::unordered_map<ir::TypeShardingPtr, ir::Attrs> constraints_;  // a program has few
};

GraphPtr written(const GraphPtr& graph, bool constrain) {
  return is_typed(*graph) ? Writer(*graph, constrain).run() : graph;
}

}  // namespace

GraphPtr write_shardings(const GraphPtr& graph) { return written(graph, true); }

}  // namespace tessera::ops
