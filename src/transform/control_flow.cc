// SPDX-License-Identifier: Apache-2.0
#include "ops/control/calls.h"
#include "ops/control/control.h"
#include "program/bind_built.h"
#include "program/graph_fragment.h"
#include "program/promote.h"
#include "tessera/control.h"
#include "tessera/lax.h"
#include "tessera/ops.h"

namespace tessera::detail {

void check_structure(const char* function, const char* what, const TreeDef& given, const TreeDef& expected) {
  if (given == expected) return;
  throw TypeError(str(function, ": ", what, " has another structure (sizes, keys or static members) than expected: \"",
                      given.text(), "\" instead of \"", expected.text(), "\"; values that change belong in arrays"));
}

namespace {

using ir::GraphPtr;
using ir::Values;
using program::Traced;

// The graph with its captures moved in front: (captures, inputs).
GraphPtr captures_first(const Traced& t) {
  std::vector<std::size_t> order;
  for (std::size_t i = t.num_inputs; i < t.graph->inputs.size(); ++i) order.push_back(i);
  for (std::size_t i = 0; i < t.num_inputs; ++i) order.push_back(i);
  return ops::with_inputs(*t.graph, order);
}

void append(std::vector<Array>& to, const std::vector<Array>& from) { to.insert(to.end(), from.begin(), from.end()); }

std::vector<Array> bind_all(const ir::OpDef& op, const std::vector<Array>& in, ir::Attrs attrs, const Loc& loc) {
  return program::bind(op, in, std::move(attrs), loc);
}

// A carry that starts as a scalar of the program takes the dtype that the body gives it.
bool settle(const char* name, std::vector<Array>& carry, const ir::Types& after, const Loc& loc) {
  bool changed = false;
  for (std::size_t i = 0; i < carry.size(); ++i) {
    const ir::Type before = program::type_of(carry[i], name);
    if (!ir::same_sharding(before, after[i])) {
      throw TypeError(str(name, ": leaf ", i, " of the carry is ", before, " and the body returns ", after[i],
                          "; expected equal types, their shardings included (reshard one)"));
    }
    if (before == after[i] || program::takes(before, after[i])) continue;
    const ir::Type a = arrays::visible(before), b = arrays::visible(after[i]);
    if (a.shape == b.shape && a.weak && promote_types({a.dtype, a.weak}, {b.dtype, b.weak}).dtype == b.dtype) {
      carry[i] = program::cast_exactly(carry[i], after[i].dtype, after[i].weak && before.dtype != after[i].dtype, loc);
      changed = true;
      continue;
    }
    throw TypeError(str(name, ": leaf ", i, " of the carry is ", before, " and the body returns ", after[i],
                        "; expected equal types"));
  }
  return changed;
}

// The type of one result of all branches: weak ones take the dtype of the others.
ir::Type joined(const ir::Type& a, const ir::Type& b, std::size_t result, std::size_t branch) {
  if (!ir::same_sharding(a, b)) {
    throw TypeError(str("cond, switch: the branches return different types: result ", result, " of branch ", branch,
                        " is ", b, "; branch 0 gives ", a, " (reshard one)"));
  }
  if (program::takes(a, b)) return {a.dtype, a.shape, a.weak && b.weak, a.sharding};
  if (program::takes(b, a)) return {b.dtype, b.shape, a.weak && b.weak, a.sharding};
  throw TypeError(str("cond: result ", result, " of branch ", branch, " is ", b, "; branch 0 gives ", a));
}

}  // namespace

namespace {
void check_scalar(const char* name, const char* argument, const Operand& x) {
  const Shape& shape = program::type_of(x.array(), name).shape;
  if (!shape.empty()) throw ValueError(str(name, ": ", argument, " has shape ", shape, "; expected a scalar"));
}
}  // namespace

Array branch_predicate(const Operand& pred) {
  check_scalar("cond", "the predicate", pred);
  const Loc& loc = pred.loc();
  if (is_bool(pred.array().dtype())) return program::cast(pred.array(), bool_, false, loc);
  return pred != Operand(0, loc);
}

Array branch_index(const Operand& index, std::size_t count) {
  check_scalar("switch_", "the index", index);
  const Loc& loc = index.loc();
  DType t = index.array().dtype();
  if (!is_integer(t)) throw TypeError(str("switch_: the index has dtype ", dtype_name(t), "; expected an integer"));
  // Wide integers are brought into range before they are narrowed: the engine's own clamp sees 32 bits.
  if (dtype_size(t) < 4 || t == int32) return program::cast(index.array(), int32, false, loc);
  Array inside = minimum(index, Operand(static_cast<std::int64_t>(count) - 1, loc));
  if (is_signed_int(t)) inside = maximum(Operand(inside, loc), Operand(0, loc));
  return program::cast(inside, int32, false, loc);
}

std::vector<Array> cond_leaves(const Array& which, const std::vector<LeafFn>& branches,
                               const std::vector<Array>& operands, const Loc& loc) {
  if (branches.empty()) throw ValueError("switch_: branches is empty; expected at least one");
  ir::Types types = program::types_of(operands, "cond");
  std::vector<Traced> traced;
  std::vector<Array> in{which};
  append(in, operands);
  for (const auto& f : branches) {
    traced.push_back(program::trace(f, types, program::varying_of(operands)));
    append(in, traced.back().captures);
  }
  // Every branch gets all operands and everybody's captures.
  ops::Cond attrs;
  ir::Types result = traced[0].graph->output_types();
  std::size_t first = operands.size();
  for (std::size_t k = 0; k < traced.size(); ++k) {
    const auto& t = traced[k];
    ir::Types out = t.graph->output_types();
    if (out.size() != result.size())
      throw TypeError(str("cond: branch ", k, " returns ", out.size(), " arrays; branch 0 returns ", result.size()));
    for (std::size_t i = 0; i < out.size(); ++i) {
      result[i] = joined(result[i], out[i], i, k);
    }
  }
  for (const auto& t : traced) {
    ir::Builder b;
    Values all;
    for (std::size_t i = 1; i < in.size(); ++i) all.push_back(b.input(program::type_of(in[i], "cond")));
    Values args(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(operands.size()));
    for (std::size_t i = 0; i < t.captures.size(); ++i) args.push_back(all[first + i]);
    first += t.captures.size();
    attrs.branches.push_back(program::with_output_types(b.finish_shared(b.inline_graph(*t.graph, args)), result));
  }
  return bind_all(ops::def::cond, in, program::attrs(std::move(attrs)), loc);
}

std::vector<Array> while_leaves(const LeafFn& cond, const LeafFn& body, const std::vector<Array>& init,
                                const Loc& loc) {
  std::vector<Array> carry = init;
  Traced b;
  std::vector<ops::NameSet> varying = program::varying_of(carry);
  for (int round = 0; round < 2; ++round) {  // the second with the dtypes that the first found
    do {
      b = program::trace(body, program::types_of(carry, "while_loop"), varying);
    } while (program::grow_varying(b, varying, carry.size()));
    ir::Types after = b.graph->output_types();
    if (after.size() != carry.size()) {
      throw TypeError(
          str("while_loop: the body returns ", after.size(), " arrays; expected the carry's ", carry.size()));
    }
    if (!settle("while_loop", carry, after, loc)) break;
  }
  ir::Types types = program::types_of(carry, "while_loop");
  Traced c = program::trace(cond, types, varying);
  if (c.graph->outputs.size() != 1 || c.graph->output_types()[0].dtype != bool_ ||
      !c.graph->output_types()[0].shape.empty()) {
    throw TypeError(
        str("while_loop: the condition returns ",
            c.graph->outputs.size() == 1 ? to_string(c.graph->output_types()[0]) : std::string("several arrays"),
            "; expected one bool scalar"));
  }
  ops::While attrs;
  attrs.cond = captures_first(c);
  attrs.body = program::with_output_types(captures_first(b), types);
  attrs.cond_consts = static_cast<std::int64_t>(c.captures.size());
  attrs.body_consts = static_cast<std::int64_t>(b.captures.size());
  std::vector<Array> in = c.captures;
  append(in, b.captures);
  append(in, carry);
  return bind_all(ops::def::while_, in, program::attrs(std::move(attrs)), loc);
}

std::vector<Array> scan_leaves(const LeafFn& body, const std::vector<Array>& init, const std::vector<Array>& xs,
                               std::int64_t length, bool reverse, const Loc& loc) {
  std::int64_t n = length;
  for (std::size_t i = 0; i < xs.size(); ++i) {
    const Shape& s = xs[i].shape();
    if (s.empty()) throw ValueError(str("scan: leaf ", i, " of xs has rank 0; expected a dimension to scan over"));
    if (n < 0) n = s[0];
    if (s[0] != n) throw ValueError(str("scan: leaf ", i, " of xs has shape ", s, "; expected length ", n));
  }
  if (n < 0) throw ValueError("scan: xs has no leaves; give length");
  std::vector<Array> carry = init;
  Traced t;
  std::vector<ops::NameSet> varying = program::varying_of(carry);
  for (const auto& set : program::varying_of(xs)) varying.push_back(set);
  for (int round = 0; round < 2; ++round) {
    ir::Types types = program::types_of(carry, "scan");
    for (const auto& x : xs) {
      const ir::Type all = program::type_of(x, "scan");
      if (all.sharding != nullptr && !all.sharding->dims[0].empty()) {
        throw ValueError(str("scan: all xs must be replicated along dimension 0, which is scanned; one is ", all,
                             ", placed by ", spec_text(*all.sharding), "; reshard it"));
      }
      types.push_back(ir::without_dim(all, 0));
    }
    do {
      t = program::trace(body, types, varying);
    } while (program::grow_varying(t, varying, carry.size()));
    ir::Types after = t.graph->output_types();
    if (after.size() < carry.size())
      throw TypeError(
          str("scan: the function returns ", after.size(), " arrays; expected the carry's ", carry.size(), " first"));
    if (!settle("scan", carry, after, loc)) break;
  }
  ops::Scan attrs;
  attrs.body = program::with_output_types(captures_first(t), program::types_of(carry, "scan"));
  attrs.length = n;
  attrs.reverse = reverse;
  attrs.num_consts = static_cast<std::int64_t>(t.captures.size());
  attrs.num_carry = static_cast<std::int64_t>(carry.size());
  std::vector<Array> in = t.captures;
  append(in, carry);
  append(in, xs);
  return bind_all(ops::def::scan, in, program::attrs(std::move(attrs)), loc);
}

namespace {

// Elements from, from + step, … of one dimension.
Array strided(const Array& x, std::int64_t from, std::int64_t to, std::int64_t step, std::int64_t axis,
              const Loc& loc) {
  return lax::slice_in_dim(Operand(x, loc), std::min(from, x.shape(axis)), to, step, axis);
}

// The recursion of Blelloch's scan: combine neighbours, scan those, and fill the even places in.
std::vector<Array> prefix(const LeafFn& combine, const std::vector<Array>& elems, std::int64_t axis, const Loc& loc) {
  std::int64_t n = elems[0].shape(axis);
  if (n < 2) return elems;
  std::vector<Array> args;
  for (const auto& e : elems) args.push_back(strided(e, 0, n - 1, 2, axis, loc));
  for (const auto& e : elems) args.push_back(strided(e, 1, n, 2, axis, loc));
  std::vector<Array> odd = prefix(combine, combine(args), axis, loc);
  std::int64_t m = odd[0].shape(axis);
  args.clear();
  std::int64_t used = n % 2 == 0 ? m - 1 : m;
  for (const auto& o : odd) args.push_back(strided(o, 0, used, 1, axis, loc));
  for (const auto& e : elems) args.push_back(strided(e, 2, n, 2, axis, loc));
  std::vector<Array> even = used > 0 ? combine(args) : std::vector<Array>();
  std::vector<Array> out;
  for (std::size_t i = 0; i < elems.size(); ++i) {
    Array first = strided(elems[i], 0, 1, 1, axis, loc);
    Array evens = used > 0 ? lax::concatenate({first, even[i]}, axis, loc) : first;
    // Interleave: each side is spread by zeros in between, and one of the two is zero everywhere.
    std::int64_t e = evens.shape(axis);
    auto spread = [&](const Array& v, std::int64_t low, std::int64_t count) {
      std::vector<lax::PadDim> config(static_cast<std::size_t>(v.ndim()));
      config[static_cast<std::size_t>(axis)] = {low, n - low - (2 * count - 1), 1};
      return lax::pad(Operand(v, loc), Operand(0, loc), config);
    };
    Array a = spread(evens, 0, e);
    Array b = spread(odd[i], 1, m);
    out.push_back(is_bool(a.dtype()) ? logical_or(a, b) : add(a, b));
  }
  return out;
}

}  // namespace

std::vector<Array> associative_scan_leaves(const LeafFn& combine, const std::vector<Array>& elems, std::int64_t axis,
                                           bool reverse, const Loc& loc) {
  if (elems.empty()) return {};
  std::vector<Array> in = elems;
  std::int64_t d = program::axis_of("associative_scan", axis, in[0].ndim());
  for (std::size_t i = 0; i < in.size(); ++i) {
    if (in[i].ndim() <= d || in[i].shape(d) != in[0].shape(d)) {
      throw ValueError(str("associative_scan: leaf ", i, " has shape ", in[i].shape(), "; expected ", in[0].shape(d),
                           " along axis ", d));
    }
    if (reverse) in[i] = lax::rev(Operand(in[i], loc), {d});
  }
  std::vector<Array> out = prefix(combine, in, d, loc);
  if (reverse) {
    for (auto& a : out) a = lax::rev(Operand(a, loc), {d});
  }
  return out;
}

std::vector<Array> checkpoint_leaves(const LeafFn& f, const std::vector<Array>& args, const Loc& loc) {
  Traced t = program::trace(f, program::types_of(args, "checkpoint"), program::varying_of(args));
  std::vector<Array> in = args;
  append(in, t.captures);
  return program::graph_fragment_as_given(
      "checkpoint", loc, in, [&](ir::Builder& b, const Values& v) { return ops::checkpoint(b, t.graph, v); });
}

}  // namespace tessera::detail
