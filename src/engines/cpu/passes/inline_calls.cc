// SPDX-License-Identifier: Apache-2.0
#include "engines/cpu/passes/inline_calls.h"

#include <algorithm>

#include "base/check.h"
#include "ops/define_op.h"
#include "ops/shared_attrs.h"

namespace tessera::cpu {

using ops::at;

namespace {

const ops::Call* call_of(const ir::Eqn& e) { return e.attrs ? ir::get_if<ops::Call>(e.attrs) : nullptr; }

class Inliner {
 public:
  explicit Inliner(ir::Graph& out) : out_(out) {}

  // Appends the equations of `g`; `number` maps its values to those of the result, inputs already set.
  void append(const ir::Graph& g, std::vector<ir::ValueId>& number) {
    for (const auto& source : g.eqns) {
      if (const auto* call = call_of(source)) {
        const ir::Graph& body = *call->body;
        TESSERA_CHECK(body.layouts.size() == body.num_values(), "the body of a call is not partitioned");
        std::vector<ir::ValueId> inner(body.num_values(), -1);
        for (std::size_t i = 0; i < source.in.size(); ++i) inner[at(body.inputs[i])] = number[at(source.in[i])];
        append(body, inner);
        for (std::size_t j = 0; j < source.out.size(); ++j) number[at(source.out[j])] = inner[at(body.outputs[j])];
        continue;
      }
      ir::Eqn e = source;
      for (auto& v : e.in) v = number[at(v)];
      for (auto& v : e.out) v = number[at(v)] = add(g, v);
      out_.eqns.push_back(std::move(e));
    }
  }
  ir::ValueId add(const ir::Graph& g, ir::ValueId v) {
    out_.types.push_back(g.type(v));
    out_.layouts.push_back(g.layout(v));
    return static_cast<ir::ValueId>(out_.types.size()) - 1;
  }

 private:
  ir::Graph& out_;
};

}  // namespace

ir::GraphPtr inline_calls(const ir::GraphPtr& graph) {
  if (std::none_of(graph->eqns.begin(), graph->eqns.end(), [](const ir::Eqn& e) { return call_of(e) != nullptr; })) {
    return graph;
  }
  auto out = std::make_shared<ir::Graph>();
  out->mesh = graph->mesh;
  Inliner inliner(*out);
  std::vector<ir::ValueId> number(graph->num_values(), -1);
  for (auto v : graph->inputs) out->inputs.push_back(number[at(v)] = inliner.add(*graph, v));
  inliner.append(*graph, number);
  for (auto v : graph->outputs) out->outputs.push_back(number[at(v)]);
  return out;
}

}  // namespace tessera::cpu
