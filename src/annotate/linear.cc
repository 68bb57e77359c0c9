// SPDX-License-Identifier: Apache-2.0
#include "base/strings.h"
#include "ops/control/calls.h"
#include "program/graph_fragment.h"
#include "program/promote.h"
#include "tessera/annotate_linear.h"
#include "tessera/error.h"
#include "tessera/ops.h"

namespace tessera {

namespace {

using ir::Value;
using ir::Values;
using ir::ValueSpan;

Dims range(std::int64_t n) {
  Dims out;
  for (std::int64_t i = 0; i < n; ++i) out.push_back(i);
  return out;
}

Value forward(const Values& in) {
  Value x = in[0];
  Value y = ops::dot_general(x, in[1], {{x.rank() - 1}, {1}, {}, {}});
  if (in.size() == 2) return y;
  return ops::add(y, ops::broadcast_in_dim(in[2], y.shape(), {y.rank() - 1}));
}

// Kept: x, weight. The cotangent has the shape of the result.
Values backward(ValueSpan kept, ValueSpan cotangents, bool bias) {
  Value x = kept[0];
  Value g = cotangents[0];
  if (!g) return Values(bias ? 3 : 2);
  std::int64_t last = x.rank() - 1;
  Dims leading = range(last);
  Values out;
  out.push_back(ops::dot_general(g, kept[1], {{last}, {0}, {}, {}}));
  out.push_back(ops::dot_general(g, x, {leading, leading, {}, {}}));
  if (bias) out.push_back(leading.empty() ? g : ops::reduce_sum(g, leading));
  return out;
}

void check_shapes(const Array& x, const Array& weight, const std::optional<Array>& bias) {
  if (x.ndim() == 0) {
    throw ValueError("linear: x has shape (); expected at least one dimension");
  }
  if (weight.ndim() != 2 || weight.shape(1) != x.shape().back()) {
    throw ValueError(str("linear: weight has shape ", weight.shape(), "; expected (m, ", x.shape().back(),
                         ") for x of shape ", x.shape()));
  }
  if (bias && bias->shape() != Shape{weight.shape(0)}) {
    throw ValueError(str("linear: bias has shape ", bias->shape(), "; expected ", Shape{weight.shape(0)},
                         " for weight of shape ", weight.shape()));
  }
}

}  // namespace

Array linear(const Array& x, const Array& weight, const std::optional<Array>& bias, const Loc& loc) {
  std::vector<Array> in{x, weight};
  if (bias) in.push_back(*bias);
  for (const auto& a : in) arrays::checked(a, "linear");
  check_shapes(x, weight, bias);
  in = program::promote("linear", in, loc);
  // At once there is nothing to differentiate.
  if (program::Trace::current() == nullptr) {
    return program::graph_fragment1("linear", loc, in, [](ir::Builder&, const Values& v) { return forward(v); });
  }
  ir::Builder body;
  Values values;
  for (const auto& a : in) values.push_back(body.input(program::type_of(a, "linear")));
  ir::GraphPtr graph = body.finish_shared(Values{forward(values)});
  ops::CustomVjp rule;
  rule.fwd = [](ir::Builder&, ValueSpan v) { return Values{forward(Values(v.begin(), v.end())), v[0], v[1]}; };
  rule.bwd = [with_bias = bias.has_value()](ir::Builder&, ValueSpan kept, ValueSpan ct) {
    return backward(kept, ct, with_bias);
  };
  return program::graph_fragment1("linear", loc, in, [&](ir::Builder& b, const Values& v) {
    return ops::custom_vjp_call(b, graph, rule, v, "linear")[0];
  });
}

}  // namespace tessera
