// SPDX-License-Identifier: Apache-2.0
#include "engines/cpu/passes/fold_divisors.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <vector>

#include "ir/rewriter.h"
#include "ops/define_op.h"
#include "ops/ops.h"
#include "ops/transform/interpret.h"

namespace tessera::cpu {

namespace {

// By value: 1 / c of a constant c that is a power of two and has such an inverse in every float dtype.
std::vector<std::optional<double>> inverses(const ir::Graph& g) {
  constexpr int kMostBits = 14;  // float16 has no smaller normal number
  std::vector<std::optional<double>> out(g.num_values());
  for (const ir::Eqn& e : g.eqns) {
    if (e.op != &ops::def::constant || !g.type(e.out[0]).shape.empty() || !is_float(g.type(e.out[0]).dtype)) {
      continue;
    }
    const double c = ops::interpret(*e.op, {}, e.attrs)[0].astype(DType::F64).span<double>()[0];
    int exponent = 0;
    if (std::abs(std::frexp(c, &exponent)) == 0.5 && std::abs(exponent - 1) <= kMostBits) {
      out[static_cast<std::size_t>(e.out[0])] = 1 / c;
    }
  }
  return out;
}

}  // namespace

ir::GraphPtr fold_divisors(const ir::GraphPtr& graph) {
  const auto inverse = inverses(*graph);
  auto of = [&](const ir::Eqn& e) {
    return e.op == &ops::def::div ? inverse[static_cast<std::size_t>(e.in[1])] : std::nullopt;
  };
  if (std::ranges::none_of(graph->eqns, [&](const ir::Eqn& e) { return of(e).has_value(); })) return graph;
  ir::Builder b;
  ir::Rewriter r(b, *graph);
  r.add_inputs();
  r.walk([&](const ir::Eqn& e, const ir::Values& in) {
    const auto factor = of(e);
    if (!factor) return r.copy(e, in);
    const ir::Value c = ops::scalar(b, *factor, graph->type(e.in[1]).dtype);
    b.set_layout(c, graph->layout(e.in[1]));
    const ir::Value product = ops::mul(in[0], c);
    b.set_layout(product, graph->layout(e.out[0]));
    return ir::Values{product};
  });
  return r.finish("fold_divisors");
}

}  // namespace tessera::cpu
