// SPDX-License-Identifier: Apache-2.0
#include "engines/cpu/passes/fold_constants.h"

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

bool is_whole(const ir::Type& t) { return t.shape.empty() && (is_integer(t.dtype) || is_bool(t.dtype)); }

class KnownScalars {
 public:
  explicit KnownScalars(const ir::Graph& g) : g_(g), constant_(g.num_values()), whole_(g.num_values()) {
    for (const ir::Eqn& e : g_.eqns) {
      if (e.op == &ops::def::constant) {
        if (g_.type(e.out[0]).shape.empty()) constant_[at(e.out[0])] = &e;
      } else if (known(e)) {
        whole_[at(e.out[0])] = compute(e);
      }
    }
  }

  /// What the equation's result is; none where it is not folded.
  const std::optional<HostArray>& value(const ir::Eqn& e) const { return whole_[at(e.out[0])]; }
  /// What to multiply by in its place.
  std::optional<double> factor(const ir::Eqn& e) const {
    if (e.op != &ops::def::div || !is_float(g_.type(e.out[0]).dtype)) return std::nullopt;
    const ir::Eqn* divisor = constant_[at(e.in[1])];
    if (divisor == nullptr) return std::nullopt;
    constexpr int kMostBits = 14;  // float16 has no smaller normal number
    const double c = ops::interpret(*divisor->op, {}, divisor->attrs)[0].astype(DType::F64).span<double>()[0];
    int exponent = 0;
    const bool power = std::abs(std::frexp(c, &exponent)) == 0.5 && std::abs(exponent - 1) <= kMostBits;
    return power ? std::optional(1 / c) : std::nullopt;
  }
  bool changes(const ir::Eqn& e) const { return e.out.size() == 1 && (value(e).has_value() || factor(e).has_value()); }

 private:
  static std::size_t at(ir::ValueId v) { return static_cast<std::size_t>(v); }
  // Neither a sum over devices nor anything but its operands, which are constants that lie alike.
  bool known(const ir::Eqn& e) const {
    if (e.out.size() != 1 || e.in.empty() || !e.op->traits().elementwise || !is_whole(g_.type(e.out[0]))) return false;
    return std::ranges::all_of(e.in, [&](ir::ValueId v) {
      return is_whole(g_.type(v)) && (constant_[at(v)] != nullptr || whole_[at(v)]) &&
             g_.layout(v) == g_.layout(e.out[0]);
    });
  }
  HostArray compute(const ir::Eqn& e) const {
    std::vector<HostArray> in;
    for (auto v : e.in) {
      const ir::Eqn* c = constant_[at(v)];
      in.push_back(c == nullptr ? *whole_[at(v)] : ops::interpret(*c->op, {}, c->attrs)[0]);
    }
    return ops::interpret(*e.op, in, e.attrs)[0];
  }

  const ir::Graph& g_;
  std::vector<const ir::Eqn*> constant_;         // without dimensions, by value
  std::vector<std::optional<HostArray>> whole_;  // computed from those
};

}  // namespace

ir::GraphPtr fold_constants(const ir::GraphPtr& graph) {
  const KnownScalars scalars(*graph);
  if (std::ranges::none_of(graph->eqns, [&](const ir::Eqn& e) { return scalars.changes(e); })) return graph;
  ir::Builder b;
  ir::Rewriter r(b, *graph);
  r.add_inputs();
  auto placed = [&](ir::Value made, ir::ValueId as) {
    b.set_layout(made, graph->layout(as));
    return made;
  };
  r.walk([&](const ir::Eqn& e, const ir::Values& in) {
    if (!scalars.changes(e)) return r.copy(e, in);
    if (const auto& value = scalars.value(e))
      return ir::Values{placed(ops::constant(b, *value, graph->type(e.out[0]).weak), e.out[0])};
    const ir::Value c = placed(ops::scalar(b, *scalars.factor(e), graph->type(e.in[1]).dtype), e.in[1]);
    return ir::Values{placed(ops::mul(in[0], c), e.out[0])};
  });
  return r.finish("fold_constants");
}

}  // namespace tessera::cpu
