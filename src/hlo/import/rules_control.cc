// SPDX-License-Identifier: Apache-2.0
// Calls, loops, branches, tuples and tokens.
#include <algorithm>

#include "base/strings.h"
#include "hlo/import/import.h"
#include "ops/control/control.h"
#include "ops/transform/interpret.h"
#include "tessera/error.h"

namespace tessera::hlo {

namespace {
Items call(OpCall& c) {
  const AstAttr* callee = c.find("callee");
  if (callee == nullptr && !c.op.words.empty()) callee = &c.op.words[0];
  if (callee == nullptr || callee->kind != AstAttr::Kind::Symbol) c.fail("names no function");
  return c.importer.call(c, callee->text, c.in);
}
// A composite means what its decomposition computes; those that the writer makes of single ops become these again.
Items composite(OpCall& c) {
  std::string name = c.op.words.empty() ? c.word("name") : c.word_of(c.op.words[0]);
  if (name.starts_with("tessera.")) {
    if (auto out = own_composite(c, name.substr(8))) return *out;
  }
  return c.importer.call(c, c.need("decomposition").text, c.in);
}

// Loop variables that the body gives back as they are, and that are larger than what regions hold as constants of their
// own. One stays a variable, as loops have one at least.
std::vector<bool> unchanged(const ir::Graph& body, std::size_t variables) {
  std::vector<bool> out;
  for (std::size_t i = 0; i < variables; ++i) {
    out.push_back(body.outputs[i] == body.inputs[i] && body.type(body.inputs[i]).size() > kMostCopied);
  }
  if (std::find(out.begin(), out.end(), false) == out.end() && !out.empty()) out[0] = false;
  return out;
}
// The inputs of a region, variables and then what it takes from outside, as a loop's graph has them: what is taken from
// outside, variables that stay as they are, the others.
std::vector<std::size_t> constants_first(const std::vector<bool>& stays, std::size_t captured) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < captured; ++i) order.push_back(stays.size() + i);
  for (bool constant : {true, false}) {
    for (std::size_t i = 0; i < stays.size(); ++i) {
      if (stays[i] == constant) order.push_back(i);
    }
  }
  return order;
}

void check_region(OpCall& c, const RegionGraph& r, const Items& want, const char* what) {
  if (r.out_types.size() != want.size()) {
    c.fail(str(what, " gives ", r.out_types.size(), " values; expected ", want.size()));
  }
  for (std::size_t i = 0; i < want.size(); ++i) {
    const Item& got = r.out_types[i];
    bool same = got.kind == want[i].kind && got.elem == want[i].elem;
    if (!same) c.fail(str("value ", i, " that ", what, " gives has another element type than what it stands for"));
  }
}

Items while_loop(OpCall& c) {
  const AstRegion& cond = c.region(0);
  const AstRegion& body = c.region(1);
  if (cond.args.size() != c.in.size() || body.args.size() != c.in.size()) {
    c.fail("regions must take one argument an operand");
  }
  for (const auto& i : c.in) {
    if (i.kind == AstType::Kind::Tuple) c.fail("loops over tuples are not supported");
  }
  RegionGraph condition = c.importer.region(c.scope, cond, "the condition");
  RegionGraph step = c.importer.region(c.scope, body, "the body");
  if (condition.out_types.size() != 1 || condition.graph->outputs.size() != 1) c.fail("the condition gives one value");
  check_region(c, step, c.in, "the body");
  Values carry = values_of(c.in);
  std::vector<bool> stays = unchanged(*step.graph, carry.size());
  ops::WhileArgs args;
  args.cond_consts = values_of(condition.captured);
  args.body_consts = values_of(step.captured);
  args.cond = ops::with_inputs(*condition.graph, constants_first(stays, args.cond_consts.size()));
  args.body = ops::with_inputs(*step.graph, constants_first(stays, args.body_consts.size()));
  std::vector<std::size_t> changing;
  for (std::size_t i = 0; i < carry.size(); ++i) {
    if (!stays[i]) changing.push_back(i);
    if (stays[i]) args.cond_consts.push_back(carry[i]);
    (stays[i] ? args.body_consts : args.carry).push_back(carry[i]);
  }
  args.body = ops::with_outputs(*args.body, changing);
  Values last = ops::while_loop(c.b(), args);
  for (std::size_t i = 0; i < changing.size(); ++i) carry[changing[i]] = last[i];
  return shaped_like(c.in, carry);
}

Items branches(OpCall& c, Value which, const std::vector<const AstRegion*>& regions) {
  std::vector<RegionGraph> parts;
  Values operands;
  for (const auto* r : regions) {
    parts.push_back(c.importer.region(c.scope, *r, "a branch"));
    if (!parts.back().graph->inputs.empty() && !r->args.empty()) c.fail("branches take no arguments");
    for (const auto& v : values_of(parts.back().captured)) operands.push_back(v);
    check_region(c, parts.back(), parts[0].out_types, "a branch");
  }
  // Every branch takes what any of them does.
  std::vector<GraphPtr> graphs;
  std::size_t first = 0;
  for (const auto& p : parts) {
    ir::Builder b;
    Values in;
    for (const auto& v : operands) in.push_back(b.input(v.type()));
    std::size_t count = p.graph->inputs.size();
    Values own(in.begin() + static_cast<std::ptrdiff_t>(first),
               in.begin() + static_cast<std::ptrdiff_t>(first + count));
    first += count;
    graphs.push_back(b.finish_shared(b.inline_graph(*p.graph, own)));
  }
  Items like = parts[0].out_types;
  if (operands.empty() && values_of(like).empty()) return like;
  return shaped_like(like, ops::cond(which, graphs, operands));
}

// What makes `v` in the region that is being read, or null.
const ir::Eqn* maker_of(OpCall& c, ir::ValueId v) {
  const auto& eqns = c.b().graph().eqns;
  auto at = std::find_if(eqns.rbegin(), eqns.rend(),
                         [&](const ir::Eqn& e) { return std::find(e.out.begin(), e.out.end(), v) != e.out.end(); });
  return at == eqns.rend() ? nullptr : &*at;
}
bool is_number(OpCall& c, ir::ValueId v, std::int64_t number) {
  const ir::Eqn* e = maker_of(c, v);
  if (e == nullptr || e->op != &ops::def::constant) return false;
  HostArray value = ops::interpret(*e->op, {}, e->attrs)[0].astype(DType::I64);
  return value.size() == 1 && value.span<std::int64_t>()[0] == number;
}

Items case_of(OpCall& c) {
  c.check_operands(1);
  std::vector<const AstRegion*> regions;
  for (const auto& r : c.op.regions) regions.push_back(&r);
  if (regions.empty()) c.fail("has no branches");
  Value which = c.v(0);
  Value last = ops::scalar(c.b(), static_cast<double>(regions.size()) - 1, which.dtype());
  // A number that was clamped to the branches is what `cond` clamps itself.
  const ir::Eqn* clamp = maker_of(c, which.id);
  auto largest = static_cast<std::int64_t>(regions.size()) - 1;
  if (clamp != nullptr && clamp->op == &ops::def::clamp && is_number(c, clamp->in[0], 0) &&
      is_number(c, clamp->in[2], largest)) {
    return branches(c, Value{which.builder, clamp->in[1]}, regions);
  }
  // Numbers out of range, negative ones too, take the last branch.
  which = ops::where(ops::lt(which, ops::scalar(c.b(), 0, which.dtype())), last, ops::min(which, last));
  return branches(c, which, regions);
}
Items if_else(OpCall& c) {
  c.check_operands(1);
  return branches(c, c.v(0), {&c.region(1), &c.region(0)});
}

Items optimization_barrier(OpCall& c) {
  if (values_of(c.in).empty()) return c.in;
  return shaped_like(c.in, ops::optimization_barrier(values_of(c.in)));
}

Items tuple(OpCall& c) {
  Item out;
  out.kind = AstType::Kind::Tuple;
  out.parts = c.in;
  return {out};
}
Items get_tuple_element(OpCall& c) {
  c.check_operands(1);
  std::int64_t index = c.op.words.empty() ? c.integer("index") : c.dims_of(c.op.words[0]).at(0);
  if (index < 0 || index >= static_cast<std::int64_t>(c.in[0].parts.size())) c.fail("index lies outside the tuple");
  return {c.in[0].parts[static_cast<std::size_t>(index)]};
}
// Nothing is gained by an order of its own: the engine begins an exchange once its operands are there, and waits for it
// where its result is read.
Items async_start(OpCall& c) {
  Item out;
  out.kind = AstType::Kind::Tuple;
  out.parts = c.inlined_region("an asynchronous operation");
  return {out};
}
Items async_done(OpCall& c) {
  c.check_operands(1);
  if (c.in[0].kind != AstType::Kind::Tuple) c.fail("the operand is no future");
  return c.in[0].parts;
}
Items token(OpCall&) {
  Item out;
  out.kind = AstType::Kind::Token;
  return {out};
}
Items operands_of(OpCall& c) { return c.in; }
}  // namespace

void add_control_rules(RuleTable& t) {
  t["func.call"] = call;
  t["stablehlo.composite"] = composite;
  t["stablehlo.while"] = while_loop;
  t["stablehlo.case"] = case_of;
  t["stablehlo.if"] = if_else;
  t["stablehlo.optimization_barrier"] = optimization_barrier;
  t["stablehlo.tuple"] = tuple;
  t["stablehlo.get_tuple_element"] = get_tuple_element;
  t["stablehlo.async_start"] = async_start;
  t["stablehlo.async_done"] = async_done;
  t["stablehlo.create_token"] = token;
  t["stablehlo.after_all"] = token;
  t["builtin.unrealized_conversion_cast"] = operands_of;
}

}  // namespace tessera::hlo
