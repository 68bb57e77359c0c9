// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <string>

#include "base/check.h"
#include "base/strings.h"
#include "ir/op_def.h"
#include "ir/rewriter.h"
#include "ops/collective/collectives.h"
#include "ops/collective/manual.h"
#include "ops/collective/shard_map_op.h"
#include "ops/control/subgraph_structure.h"
#include "spmd/spmd.h"

namespace tessera::spmd {

namespace {

using Env = std::map<std::string, ir::AxisList>;  // name -> axes of the program's mesh

class Expander {
 public:
  explicit Expander(const ir::Module& m) : m_(m) {}

  ir::GraphPtr graph(const ir::Graph& g, const Env& env) const {
    ir::Builder b;
    ir::Rewriter r(b, g);
    r.add_inputs();
    write(b, r, env);
    return r.finish("expand_maps");
  }

 private:
  void write(ir::Builder& b, ir::Rewriter& r, const Env& env) const {
    r.walk([&](const ir::Eqn& e, const ir::Values& x) {
      if (e.op == &ops::def::shard_map) return map(b, e, x, env);
      return e.op == &ops::def::pvary ? x : r.copy(e, x, attrs_of(e, env));
    });
  }

  // The attributes with axes of the program's mesh in place of names.
  ir::Attrs attrs_of(const ir::Eqn& e, const Env& env) const {
    if (const auto* c = ops::collective_of(e)) {
      Dims axes;
      for (const auto& name : c->names.list) {
        auto it = env.find(name);
        TESSERA_CHECK(it != env.end(), str("the axis name ", name, " of ", e.op->name(), " is not bound"));
        axes.insert(axes.end(), it->second.begin(), it->second.end());
      }
      return ops::with_axes(e, axes);
    }
    auto control = ops::control_of(e);
    if (!control) return e.attrs;
    std::vector<ir::GraphPtr> bodies;
    for (const auto& body : control->bodies) bodies.push_back(graph(*body.graph, env));
    return ops::with_bodies(e, bodies);
  }

  ir::Values map(ir::Builder& b, const ir::Eqn& e, const ir::Values& x, const Env& env) const {
    const auto& p = ir::get<ops::ShardMap>(e.attrs);
    const auto* found = m_.find_axes(p.mesh_sizes, p.mesh_names.list);
    TESSERA_CHECK(found != nullptr, "the mesh of a shard_map is not among the module's");
    const ir::DimAxes& axes = *found;
    Env inner = env;
    Dims manual;
    for (auto a : p.manual) {
      const auto& list = axes[static_cast<std::size_t>(a)];
      inner[p.mesh_names.list[static_cast<std::size_t>(a)]] = list;
      manual.insert(manual.end(), list.begin(), list.end());
    }
    auto boundary = [&](const ops::Specs& specs, std::size_t i, const Shape& shape) {
      ops::ManualSpec s{{}, shape, manual, {}};
      auto add = [&](const Dims& from, Dims& to) {
        for (auto a : from) {
          const auto& list = axes[static_cast<std::size_t>(a)];
          to.insert(to.end(), list.begin(), list.end());
        }
      };
      for (const auto& dim : specs.list[i]) add(dim, s.dims.emplace_back());
      add(specs.unreduced_of(i), s.partial);
      return ir::make_attrs(std::move(s));
    };
    ir::Values blocks;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const Shape& shape = p.body->type(p.body->inputs[i]).shape;
      blocks.push_back(b.add1(ops::def::manual_enter, {x[i]}, boundary(p.in_specs, i, shape)));
    }
    ir::Rewriter body(b, *p.body);
    body.bind(p.body->inputs, blocks);
    write(b, body, inner);
    ir::Values results = body.outputs();
    ir::Values out;
    for (std::size_t i = 0; i < results.size(); ++i) {
      Shape shape = ops::whole_shape(p, p.out_specs.list[i], results[i].shape());
      out.push_back(b.add1(ops::def::manual_exit, {results[i]}, boundary(p.out_specs, i, shape)));
    }
    return out;
  }

  const ir::Module& m_;
};

bool has_maps(const ir::Graph& g) {
  return std::any_of(g.eqns.begin(), g.eqns.end(), [](const ir::Eqn& e) {
    if (e.op == &ops::def::shard_map) return true;
    auto graphs = e.op->subgraphs(e.attrs);
    return std::any_of(graphs.begin(), graphs.end(), [](const ir::GraphPtr& sub) { return has_maps(*sub); });
  });
}

}  // namespace

ir::GraphPtr expand_maps(const ir::Module& m) { return has_maps(*m.graph) ? Expander(m).graph(*m.graph, {}) : m.graph; }

}  // namespace tessera::spmd
