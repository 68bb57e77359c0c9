// SPDX-License-Identifier: Apache-2.0
#include "ops/collective/varying.h"

#include <algorithm>

#include "ir/pass.h"
#include "ir/rewriter.h"
#include "ops/collective/collectives.h"
#include "ops/collective/shard_map_op.h"
#include "ops/control/subgraph_structure.h"
#include "ops/define_op.h"

namespace tessera::ops {

NameSet unite(const NameSet& a, const NameSet& b) {
  NameSet out;
  std::set_union(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(out));
  return out;
}
NameSet without(const NameSet& a, const NameSet& b) {
  NameSet out;
  std::set_difference(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(out));
  return out;
}
bool contains(const NameSet& a, const std::string& name) { return std::binary_search(a.begin(), a.end(), name); }

namespace {

using Sizes = std::map<std::string, std::int64_t>;

NameSet mesh_names(const Collective& c) {
  NameSet out;
  for (const auto& n : c.names.list) {
    if (!is_vmapped(n)) out.push_back(n);
  }
  std::sort(out.begin(), out.end());
  return out;
}
NameSet names_of(const ShardMap& p, const std::vector<Dims>& spec) {
  NameSet out;
  for (const auto& dim : spec) {
    for (auto a : dim) out.push_back(p.mesh_names.list[at(a)]);
  }
  std::sort(out.begin(), out.end());
  return out;
}
NameSet manual_names(const ShardMap& p) { return names_of(p, {p.manual}); }

NameSet all_of(const NameSets& sets) {
  NameSet out;
  for (const auto& s : sets) out = unite(out, s);
  return out;
}

bool equal_result(const ir::Eqn& e, const Collective& c) {
  if (e.op == &def::psum || e.op == &def::pmax || e.op == &def::pmin) return !c.groups;
  return e.op == &def::all_gather && ir::get<AllGather>(e.attrs).to_invariant;
}

// Sets at the boundary of an equation with sub-graphs, loop variables at their fixed point.
struct BoundarySets {
  NameSets in, out;
  NameSet predicate;
};
BoundarySets settle(const ir::Eqn& e, const Control& control, const NameSets& in) {
  BoundarySets s{in, NameSets(e.out.size()), {}};
  for (auto i : control.scalars) s.predicate = unite(s.predicate, in[i]);
  for (bool changed = true; changed;) {
    changed = false;
    auto grow = [&](NameSet& to, const NameSet& from) {
      NameSet now = unite(to, from);
      changed = changed || now != to;
      to = std::move(now);
    };
    for (const auto& body : control.bodies) {
      NameSets inner;
      for (const auto& t : body.inputs) inner.push_back(s.in[t.outer]);
      NameSets all = varying(*body.graph, inner);
      for (const auto& t : body.outputs) grow(s.out[t.outer], all[at(body.graph->outputs[t.inner])]);
      for (std::size_t i = body.outputs.size(); i < body.graph->outputs.size(); ++i) {
        grow(s.predicate, all[at(body.graph->outputs[i])]);
      }
    }
    for (auto& set : s.out) grow(set, s.predicate);
    for (auto [operand, result] : control.carried) {
      grow(s.in[operand], s.out[result]);
      grow(s.out[result], s.in[operand]);
    }
  }
  return s;
}

NameSets map_inputs(const ShardMap& p, const NameSets& in) {
  NameSets out;
  for (std::size_t i = 0; i < in.size(); ++i) {
    std::vector<Dims> all = p.in_specs.list[i];
    all.push_back(p.in_specs.unreduced_of(i));
    all.push_back(p.in_specs.reduced_of(i));
    out.push_back(unite(without(in[i], manual_names(p)), names_of(p, all)));
  }
  return out;
}

}  // namespace

NameSets varying_results(const ir::Eqn& e, const NameSets& in) {
  NameSet all = all_of(in);
  if (const Collective* c = collective_of(e)) {
    NameSet names = mesh_names(*c);
    all = equal_result(e, *c) ? without(all, names) : unite(all, names);
  } else if (e.op == &def::shard_map) {
    const auto& p = ir::get<ShardMap>(e.attrs);
    NameSets inner = varying(*p.body, map_inputs(p, in));
    NameSets out;
    for (auto v : p.body->outputs) out.push_back(without(inner[at(v)], manual_names(p)));
    return out;
  } else if (auto control = control_of(e)) {
    return settle(e, *control, in).out;
  } else if (e.op == &def::optimization_barrier) {
    return in;  // each operand passes as it is
  }
  return NameSets(e.out.size(), all);
}

NameSets varying(const Graph& g, const NameSets& inputs) {
  NameSets sets(g.num_values());
  for (std::size_t i = 0; i < g.inputs.size(); ++i) sets[at(g.inputs[i])] = inputs[i];
  for (const auto& e : g.eqns) {
    NameSets in;
    for (auto v : e.in) in.push_back(sets[at(v)]);
    NameSets out = varying_results(e, in);
    for (std::size_t i = 0; i < out.size(); ++i) sets[at(e.out[i])] = out[i];
  }
  return sets;
}

namespace {

bool communicates(const Graph& g, const NameSet& names) {
  return std::any_of(g.eqns.begin(), g.eqns.end(), [&](const ir::Eqn& e) {
    if (const Collective* c = collective_of(e)) {
      if (e.op == &def::axis_index || e.op == &def::pvary) return false;
      return std::any_of(c->names.list.begin(), c->names.list.end(),
                         [&](const std::string& n) { return contains(names, n); });
    }
    auto graphs = e.op->subgraphs(e.attrs);
    return std::any_of(graphs.begin(), graphs.end(), [&](const GraphPtr& sub) { return communicates(*sub, names); });
  });
}

class Caster {
 public:
  Caster(const Graph& g, const Sizes& sizes) : g_(g), sizes_(sizes), r_(b_, g), set_(g.num_values()) {}

  GraphPtr run(const NameSets& inputs, const NameSets& outputs, NameSets* found) {
    r_.add_inputs();
    for (std::size_t i = 0; i < g_.inputs.size(); ++i) set_[at(g_.inputs[i])] = inputs[i];
    r_.walk([this](const ir::Eqn& e, const Values& in) {
      if (auto control = control_of(e)) return with_control(e, *control);
      return e.op == &def::shard_map ? with_map(e, in) : with_casts(e);
    });
    Values out;
    for (std::size_t i = 0; i < g_.outputs.size(); ++i) {
      ir::ValueId v = g_.outputs[i];
      bool grow = i < outputs.size();
      out.push_back(grow ? cast(v, outputs[i]) : r_[v]);
      if (found) found->push_back(grow ? unite(set_[at(v)], outputs[i]) : set_[at(v)]);
    }
    return ir::after_pass("cast_varying", b_.finish_shared(out));
  }

 private:
  // The value typed varying over `want` too. Only what may be differentiated needs the cast.
  Value cast(ir::ValueId v, const NameSet& want) {
    NameSet missing = without(want, set_[at(v)]);
    if (missing.empty() || !is_inexact(g_.type(v).dtype)) return r_[v];
    auto known = casts_.find({v, missing});
    if (known != casts_.end()) return known->second;
    Collective p;
    p.names.list = missing;
    p.checked = true;
    for (const auto& n : missing) p.sizes.push_back(sizes_.at(n));
    return casts_[{v, missing}] = pvary(r_[v], p);
  }

  NameSets sets_of(const std::vector<ir::ValueId>& values) const {
    NameSets out;
    for (auto v : values) out.push_back(set_[at(v)]);
    return out;
  }
  void define(const ir::Eqn& e, const NameSets& sets) {
    for (std::size_t i = 0; i < e.out.size(); ++i) set_[at(e.out[i])] = sets[i];
  }

  Values with_casts(const ir::Eqn& e) {
    NameSets in = sets_of(e.in);
    define(e, varying_results(e, in));
    bool apart = e.op == &def::optimization_barrier;
    NameSet want = apart ? NameSet{} : all_of(in);
    const Collective* c = collective_of(e);
    if (c && e.op == &def::pvary) return {cast(e.in[0], mesh_names(*c))};
    if (c) want = unite(want, mesh_names(*c));
    Values operands;
    for (auto v : e.in) operands.push_back(cast(v, want));
    return r_.copy(e, operands);
  }

  // A map inside: its body sees the names of this one too.
  Values with_map(const ir::Eqn& e, const Values& operands) {
    ShardMap p = ir::get<ShardMap>(e.attrs);
    NameSets in = sets_of(e.in);
    define(e, varying_results(e, in));
    if (p.checked) {
      Sizes sizes = sizes_;
      for (std::size_t a = 0; a < p.mesh_sizes.size(); ++a) sizes[p.mesh_names.list[a]] = p.mesh_sizes[a];
      NameSets outputs;
      for (std::size_t i = 0; i < p.out_specs.list.size(); ++i) {
        std::vector<Dims> all = p.out_specs.list[i];
        all.push_back(p.out_specs.unreduced_of(i));
        outputs.push_back(names_of(p, all));
      }
      p.body = cast_varying(*p.body, map_inputs(p, in), sizes, outputs);
    }
    return r_.copy(e, operands, attrs(p));
  }

  Values with_control(const ir::Eqn& e, const Control& control) {
    BoundarySets s = settle(e, control, sets_of(e.in));
    if (!s.predicate.empty()) {
      for (const auto& body : control.bodies) {
        if (communicates(*body.graph, s.predicate)) {
          throw ValueError(str(e.op->name(), " at ", e.loc, ": the predicate varies over (", base::join(s.predicate),
                               "), and a collective inside communicates over it; make the predicate equal, as psum or "
                               "pmax of it is"));
        }
      }
      // What one way reads and another does not is read by some instances alone.
      for (auto& set : s.in) set = unite(set, s.predicate);
      s = settle(e, control, s.in);
    }
    std::vector<GraphPtr> graphs;
    for (const auto& body : control.bodies) {
      NameSets inputs;
      NameSets outputs;
      for (const auto& t : body.inputs) inputs.push_back(s.in[t.outer]);
      for (const auto& t : body.outputs) outputs.push_back(s.out[t.outer]);
      graphs.push_back(cast_varying(*body.graph, inputs, sizes_, outputs));
    }
    Values operands;
    for (std::size_t i = 0; i < e.in.size(); ++i) operands.push_back(cast(e.in[i], s.in[i]));
    define(e, s.out);
    return r_.copy(e, operands, with_bodies(e, graphs));
  }

  const Graph& g_;
  const Sizes& sizes_;
  Builder b_;
  ir::Rewriter r_;
  NameSets set_;  // by old value
  std::map<std::pair<ir::ValueId, NameSet>, Value> casts_;
};

}  // namespace

GraphPtr cast_varying(const Graph& g, const NameSets& inputs, const Sizes& sizes, const NameSets& outputs,
                      NameSets* found) {
  return Caster(g, sizes).run(inputs, outputs, found);
}

}  // namespace tessera::ops
