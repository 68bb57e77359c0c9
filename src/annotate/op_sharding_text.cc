// SPDX-License-Identifier: Apache-2.0
// Annotations as HLO text.
#include <map>

#include "annotate/annotate.h"
#include "base/strings.h"
#include "ops/collective/shard_map_op.h"
#include "ops/shared_attrs.h"
#include "program/bind_built.h"

namespace tessera::detail {

namespace {

std::string type_text(const ir::Type& t) {
  std::string dtype = to_string(t);  // "f32[8,8]", with a mark behind where it is weak
  return dtype.substr(0, dtype.find(']') + 1);
}

class Writer {
 public:
  std::string text;

  // Equations of `g` with its inputs under these names; returns the names of its outputs.
  std::vector<std::string> graph(const ir::Graph& g, const std::vector<std::string>& inputs) {
    std::map<ir::ValueId, std::string> names;
    for (std::size_t i = 0; i < inputs.size(); ++i) names[g.inputs[i]] = inputs[i];
    for (const ir::Eqn& e : g.eqns) {
      std::vector<std::string> in;
      for (auto v : e.in) in.push_back(type_text(g.type(v)) + " " + names[v]);
      if (e.op == &ops::def::shard_map) {
        auto out = region(g, e, in);
        for (std::size_t k = 0; k < out.size(); ++k) names[e.out[k]] = out[k];
        continue;
      }
      for (std::size_t k = 0; k < e.out.size(); ++k) {
        const ir::Type& t = g.type(e.out[k]);
        if (e.op == &ops::def::sharding_constraint) {
          const auto& c = ir::get<ops::ShardingConstraint>(e.attrs);
          auto s = annotate::sharding_of_axes(c.mesh_sizes, c.devices, c.dims);
          names[e.out[k]] = call(type_text(t), in[0], "Sharding", s.hlo_v1());
        } else {
          names[e.out[k]] = line(str(type_text(t), " ", e.op->name(), "(", join(in), ")", attributes(e)));
        }
      }
    }
    std::vector<std::string> out;
    for (auto v : g.outputs) out.push_back(names[v]);
    return out;
  }

  std::string line(const std::string& rest) {
    std::string name = str("%", next_++);
    text += str("  ", name, " = ", rest, "\n");
    return name;
  }

 private:
  static std::string attributes(const ir::Eqn& e) {
    std::string a = e.attrs ? e.attrs->text() : "";
    return a.empty() || !e.op->subgraphs(e.attrs).empty() ? "" : ", " + a;
  }
  std::string call(const std::string& type, const std::string& operand, const char* target,
                   const std::string& sharding) {
    return line(str(type, " custom-call(", operand, "), custom_call_target=\"", target, "\", sharding=", sharding));
  }

  // The body between the two changes of view.
  std::vector<std::string> region(const ir::Graph& g, const ir::Eqn& e, const std::vector<std::string>& in) {
    const auto& p = ir::get<ops::ShardMap>(e.attrs);
    std::vector<std::string> blocks;
    for (std::size_t i = 0; i < in.size(); ++i) {
      const std::string whole = type_text(g.type(e.in[i]));
      auto s = annotate::sharding_of_axes(p.mesh_sizes, p.devices, p.in_specs.list[i]);
      std::string marked = call(whole, in[i], "Sharding", s.hlo_v1());
      blocks.push_back(
          call(type_text(p.body->type(p.body->inputs[i])), whole + " " + marked, "SPMDFullToShardShape", "{manual}"));
    }
    std::vector<std::string> out = graph(*p.body, blocks);
    for (std::size_t i = 0; i < out.size(); ++i) {
      const std::string block = type_text(p.body->type(p.body->outputs[i]));
      auto s = annotate::sharding_of_axes(p.mesh_sizes, p.devices, p.out_specs.list[i]);
      out[i] = call(block, block + " " + out[i], "Sharding", "{manual}");
      out[i] = call(type_text(g.type(e.out[i])), block + " " + out[i], "SPMDShardToFullShape", s.hlo_v1());
    }
    return out;
  }

  std::int64_t next_ = 0;
};

}  // namespace

std::string annotated_hlo(const std::function<std::vector<Array>(const std::vector<Array>&)>& f,
                          const std::vector<Array>& leaves) {
  program::Traced traced = program::trace(f, program::types_of(leaves, "annotated_hlo"));
  std::vector<Array> all = leaves;
  all.insert(all.end(), traced.captures.begin(), traced.captures.end());
  Writer w;
  std::vector<std::string> inputs;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const ir::Type& t = traced.graph->type(traced.graph->inputs[i]);
    auto s = all[i].impl()->trace == 0 ? op_sharding(all[i]) : std::nullopt;
    inputs.push_back(
        w.line(str(type_text(t), " parameter(", i, ")", s ? str(", sharding=", s->hlo_v1()) : std::string())));
  }
  std::vector<std::string> out = w.graph(*traced.graph, inputs);
  return str("ENTRY main {\n", w.text, "  ROOT (", join(out), ")\n}\n");
}

}  // namespace tessera::detail
