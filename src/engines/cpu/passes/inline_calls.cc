// SPDX-License-Identifier: Apache-2.0
#include "engines/cpu/passes/inline_calls.h"

#include <algorithm>

#include "base/check.h"
#include "ir/rewriter.h"
#include "ops/define_op.h"
#include "ops/shared_attrs.h"

namespace tessera::cpu {

namespace {

const ops::Call* call_of(const ir::Eqn& e) { return e.attrs ? ir::get_if<ops::Call>(e.attrs) : nullptr; }

// Writes the equations that `r` stands for, those of calls in their place.
void write(ir::Builder& b, ir::Rewriter& r) {
  r.walk([&](const ir::Eqn& e, const ir::Values& in) {
    const auto* call = call_of(e);
    if (call == nullptr) return r.copy(e, in);
    const ir::Graph& body = *call->body;
    TESSERA_CHECK(body.layouts.size() == body.num_values(), "the body of a call is not partitioned");
    ir::Rewriter inner(b, body);
    inner.bind(body.inputs, in);
    write(b, inner);
    return inner.outputs();
  });
}

}  // namespace

ir::GraphPtr inline_calls(const ir::GraphPtr& graph) {
  if (std::none_of(graph->eqns.begin(), graph->eqns.end(), [](const ir::Eqn& e) { return call_of(e) != nullptr; })) {
    return graph;
  }
  ir::Builder b;
  ir::Rewriter r(b, *graph);
  r.add_inputs();
  write(b, r);
  return r.finish("inline_calls");
}

}  // namespace tessera::cpu
