// SPDX-License-Identifier: Apache-2.0
// The client dialect: element-wise functions, broadcasting forms, top-k.
#include <cmath>
#include <limits>
#include <string>
#include <unordered_map>

#include "base/strings.h"
#include "hlo/import/import.h"
#include "hlo/import/narrow.h"
#include "hlo/import/shared_compositions.h"
#include "hlo/text/literals.h"
#include "ops/reduce/sorting.h"

namespace tessera::hlo {

namespace {
// An operand over the result's shape: its dimensions are the last ones, or those that `broadcast_dimensions` names.
Value spread_to(OpCall& c, Value v) {
  const Shape& shape = c.out().shape;
  if (v.shape() == shape || v.shape().empty()) return v;
  Dims dims;
  auto behind = static_cast<std::int64_t>(shape.size()) - v.rank();
  for (std::int64_t d = 0; d < v.rank(); ++d) dims.push_back(d + behind);
  if (c.find("broadcast_dimensions") != nullptr && v.rank() < static_cast<std::int64_t>(shape.size())) {
    dims = c.dims("broadcast_dimensions");
  }
  return ops::broadcast_in_dim(v, shape, dims);
}
Items filled(OpCall& c, Value v) { return c.one(round_to(ops::broadcast_to(v, c.out().shape), c.elem())); }

// "chlo.broadcast_add" and the like: for every op of two operands that StableHLO or CHLO has under a name.
const std::unordered_map<std::string, const ir::OpDef*>& broadcasting_ops() {
  static const auto* table = [] {
    auto* t = new std::unordered_map<std::string, const ir::OpDef*>;
    for (const auto& [name, op] : ops_by_stablehlo()) {
      if (op->traits().arity == 2) t->emplace(str("chlo.broadcast_", name.substr(name.find('.') + 1)), op);
    }
    return t;
  }();
  return *table;
}
Items broadcast_binary(OpCall& c) {
  c.check_operands(2);
  const ir::OpDef& op = *broadcasting_ops().at(std::string(c.op.name));
  return filled(c, c.b().add1(op, {spread_to(c, c.v(0)), spread_to(c, c.v(1))}));
}

Items broadcast_compare(OpCall& c) {
  c.check_operands(2);
  Value x = spread_to(c, c.v(0)), y = spread_to(c, c.v(1));
  return filled(c, compared(c, c.word("comparison_direction"), x, y));
}
Items broadcast_select(OpCall& c) {
  c.check_operands(3);
  return filled(c, ops::where(spread_to(c, c.v(0)), spread_to(c, c.v(1)), spread_to(c, c.v(2))));
}

Value infinity(Value x, double sign) {
  return ops::scalar(*x.builder, sign * std::numeric_limits<double>::infinity(), x.dtype());
}
Value is_inf(Value x) { return ops::eq(ops::abs(x), infinity(x, 1)); }
Value is_pos_inf(Value x) { return ops::eq(x, infinity(x, 1)); }
Value is_neg_inf(Value x) { return ops::eq(x, infinity(x, -1)); }

Items top_k(OpCall& c) {
  c.check_operands(1);
  Value x = c.v(0);
  if (x.rank() < 1) c.fail("the operand has no dimensions");
  Values out = ops::top_k(x, c.integer("k"), x.rank() - 1);
  return {tensor(c.out(0).elem, out[0]), tensor(c.out(1).elem, ops::convert(out[1], storage(c.out(1).elem)))};
}

// A constant of the operand's shape.
Items constant_like(OpCall& c) {
  c.check_operands(1);
  HostArray value = to_scalar(c.importer.source(), c.need("value"), c.elem());
  return c.one(ops::broadcast_to(ops::constant(c.b(), value), c.out().shape));
}

void add_broadcasting(RuleTable& t) {
  for (const auto& [name, op] : broadcasting_ops()) t[name] = broadcast_binary;
  t["chlo.broadcast_compare"] = broadcast_compare;
  t["chlo.broadcast_select"] = broadcast_select;
}
}  // namespace

void add_chlo_rules(RuleTable& t) {
  t["chlo.conj"] = unary<ops::conj>;
  t["chlo.tan"] = unary<ops::tan>;
  t["chlo.is_inf"] = unary<is_inf>;
  t["chlo.is_neg_inf"] = unary<is_neg_inf>;
  t["chlo.is_pos_inf"] = unary<is_pos_inf>;
  t["chlo.top_k"] = top_k;
  t["chlo.constant_like"] = constant_like;
  add_broadcasting(t);
}

}  // namespace tessera::hlo
