// SPDX-License-Identifier: Apache-2.0
#include "tessera/grad.h"

#include "base/strings.h"
#include "ir/pass.h"
#include "ops/transform/linearize.h"
#include "program/bind_built.h"
#include "program/graph_fragment.h"
#include "program/program.h"
#include "program/promote.h"
#include "tessera/error.h"

namespace tessera::detail {

namespace {

using ir::Value;
using ir::Values;
using program::Traced;

ir::Types types_of(const std::vector<Array>& leaves, const char* name, const LeafNames& names) {
  program::check_leaves(leaves, name, names);
  ir::Types out;
  for (const auto& a : leaves) out.push_back(a.impl()->type);
  return out;
}

std::vector<Array> join_captures(const std::vector<Array>& leaves, const Traced& t) {
  std::vector<Array> all = leaves;
  all.insert(all.end(), t.captures.begin(), t.captures.end());
  return all;
}

// A tangent or cotangent for a value of this type. Scalars of the program take its dtype.
Array checked_tangent(const ir::Type& t, const Array& given, std::size_t i, const char* name, const char* what) {
  const ir::Type got = arrays::visible(program::type_of(given, name));
  const bool fits =
      got.dtype == arrays::visible(t).dtype || (got.weak && (is_complex(t.dtype) || !is_complex(got.dtype)));
  if (got.shape != t.shape || (!fits && is_inexact(t.dtype))) {
    throw TypeError(str(name, ": ", what, " ", i, " is ", got, "; expected ", arrays::visible(t)));
  }
  if (!ir::same_sharding(got, t)) {
    throw ValueError(str(name, ": ", what, " ", i, " is ", got, "; expected ", arrays::visible(t),
                         ", the same sharding over explicit axes (reshard it)"));
  }
  return is_inexact(t.dtype) ? program::cast_exactly(given, t.dtype, t.weak && got.weak, Loc::current()) : given;
}

}  // namespace

std::vector<Array> value_and_grad(const LeafFn& f, const std::vector<Array>& leaves, const std::vector<bool>& active,
                                  const char* name, const LeafNames& names) {
  ir::Types types = types_of(leaves, name, names);
  for (std::size_t i = 0; i < types.size(); ++i) {
    if (active[i] && !is_inexact(types[i].dtype)) {
      throw TypeError(str(name, ": leaf ", i, " of the differentiated arguments is ", types[i],
                          "; expected a float or complex dtype"));
    }
  }
  Traced traced = program::trace(f, types, program::varying_of(leaves));
  program::cast_varying(traced, leaves);
  const ir::Graph& g = *traced.graph;
  if (g.outputs.empty() || !g.type(g.outputs[0]).shape.empty() || !is_float(g.type(g.outputs[0]).dtype)) {
    throw TypeError(str(name, ": the function returns ",
                        g.outputs.empty() ? std::string("nothing") : to_string(g.type(g.outputs[0])),
                        "; expected a real scalar (float dtype, rank 0)"));
  }
  ops::Flags flags(g.inputs.size());
  for (std::size_t i = 0; i < active.size(); ++i) flags[i] = active[i];
  const ops::LinearizedInline lin(g, flags);
  auto build = [&](ir::Builder& b, const Values& in) {
    Values known = lin.known(b, in);
    Values outputs(known.begin(), known.begin() + static_cast<std::ptrdiff_t>(g.outputs.size()));
    Values linear_in(known.begin() + static_cast<std::ptrdiff_t>(g.outputs.size()), known.end());
    for (std::size_t i = 0; i < flags.size(); ++i) {
      if (flags[i]) linear_in.emplace_back();
    }
    Values ct;
    for (std::size_t k = 0; k < lin.active_out().size(); ++k) {
      if (lin.active_out()[k]) ct.push_back(k == 0 ? ops::scalar(b, 1, outputs[0].dtype()) : Value{});
    }
    Values grads;
    if (lin.active_out()[0]) {
      Values all = ops::transpose_inline(b, *lin.linear(), linear_in, ct);
      grads.assign(all.begin() + static_cast<std::ptrdiff_t>(lin.num_residuals()), all.end());
    } else {
      grads.resize(linear_in.size() - lin.num_residuals());
    }
    std::size_t next = 0;
    for (std::size_t i = 0; i < flags.size(); ++i) {
      if (!flags[i]) continue;
      Value v = grads[next++];
      outputs.push_back(program::marked(v ? v : ops::zeros(b, ir::cotangent_type(types[i])), types[i]));
    }
    return outputs;
  };
  return program::bind_built("grad", build, g.input_types(), join_captures(leaves, traced), Loc::current());
}

std::vector<Array> jvp(const LeafFn& f, const std::vector<Array>& leaves, const std::vector<Array>& tangents,
                       const LeafNames& names) {
  ir::Types types = types_of(leaves, "jvp", names);
  if (tangents.size() != leaves.size()) {
    throw ValueError(str("jvp: ", tangents.size(), " tangents for ", leaves.size(), " primal leaves"));
  }
  std::vector<Array> directions;
  for (std::size_t i = 0; i < types.size(); ++i) {
    directions.push_back(checked_tangent(types[i], tangents[i], i, "jvp", "tangent"));
  }
  Traced traced = program::trace(f, types, program::varying_of(leaves));
  program::cast_varying(traced, leaves);
  ir::Builder b;
  Values in;
  Values dot;
  for (const auto& t : traced.graph->input_types()) in.push_back(b.input(t));
  dot.resize(in.size());
  std::vector<Array> args = join_captures(leaves, traced);
  for (std::size_t i = 0; i < types.size(); ++i) {
    if (!is_inexact(types[i].dtype)) continue;
    dot[i] = b.input(types[i]);
    args.push_back(directions[i]);
  }
  ir::Duals d = ops::jvp_inline(b, *traced.graph, in, dot);
  Values out = d.out;
  for (std::size_t i = 0; i < d.out.size(); ++i)
    out.push_back(program::marked(d.tangents[i] ? d.tangents[i] : ops::zeros_like(d.out[i]), d.out[i].type()));
  return program::bind_graph(ir::after_pass("jvp", b.finish_shared(out)), args, Loc::current());
}

struct Linear::Impl {
  ir::Types in_types, out_types;
  ops::Linearized lin;
  ops::Flags active;
  std::vector<Array> residuals;
};

Linear linearize(const LeafFn& f, const std::vector<Array>& leaves, const LeafNames& names) {
  auto impl = std::make_shared<Linear::Impl>();
  impl->in_types = types_of(leaves, "linearize", names);
  Traced traced = program::trace(f, impl->in_types, program::varying_of(leaves));
  program::cast_varying(traced, leaves);
  const ir::Graph& g = *traced.graph;
  impl->out_types = g.output_types();
  impl->active.resize(g.inputs.size());
  for (std::size_t i = 0; i < leaves.size(); ++i) impl->active[i] = is_inexact(impl->in_types[i].dtype);
  impl->lin = ops::linearize_graph(g, impl->active);
  std::vector<Array> known = program::bind_graph(impl->lin.known, join_captures(leaves, traced), Loc::current());
  Linear out;
  out.outputs.assign(known.begin(), known.begin() + static_cast<std::ptrdiff_t>(g.outputs.size()));
  impl->residuals.assign(known.begin() + static_cast<std::ptrdiff_t>(g.outputs.size()), known.end());
  out.impl = impl;
  return out;
}

std::vector<Array> Linear::push(const std::vector<Array>& tangents) const {
  if (tangents.size() != impl->in_types.size()) {
    throw ValueError(str("linearize: ", tangents.size(), " tangents; expected ", impl->in_types.size()));
  }
  ir::Builder b;
  Values in;
  std::vector<Array> args = impl->residuals;
  for (const auto& a : impl->residuals) in.push_back(b.input(program::type_of(a, "linearize")));
  for (std::size_t i = 0; i < tangents.size(); ++i) {
    const Array direction = checked_tangent(impl->in_types[i], tangents[i], i, "linearize", "tangent");
    if (!impl->active[i]) continue;
    in.push_back(b.input(impl->in_types[i]));
    args.push_back(direction);
  }
  Values found = b.inline_graph(*impl->lin.linear, in);
  Values out;
  std::size_t next = 0;
  for (std::size_t k = 0; k < impl->out_types.size(); ++k) {
    const ir::Type& type = impl->out_types[k];
    out.push_back(program::marked(impl->lin.active_out[k] ? found[next++] : ops::zeros(b, type), type));
  }
  return program::bind_graph(ir::after_pass("linearize", b.finish_shared(out)), args, Loc::current());
}

std::vector<Array> Linear::pull(const std::vector<Array>& cotangents) const {
  if (cotangents.size() != impl->out_types.size()) {
    throw ValueError(str("vjp: ", cotangents.size(), " cotangents; expected ", impl->out_types.size()));
  }
  ir::Builder b;
  Values in;
  std::vector<Array> args = impl->residuals;
  for (const auto& a : impl->residuals) in.push_back(b.input(program::type_of(a, "vjp")));
  Values ct;
  for (std::size_t k = 0; k < cotangents.size(); ++k) {
    ir::Type type = impl->out_types[k];
    type.sharding = ir::cotangent_type(type).sharding;
    const Array direction = checked_tangent(type, cotangents[k], k, "vjp", "cotangent");
    if (!impl->lin.active_out[k]) continue;
    ct.push_back(b.input(type));
    args.push_back(direction);
  }
  std::size_t residuals = in.size();
  for (std::size_t i = 0; i < impl->active.size(); ++i) {
    if (impl->active[i]) in.emplace_back();
  }
  Values all = ops::transpose_inline(b, *impl->lin.linear, in, ct);
  Values out;
  std::size_t next = residuals;
  for (std::size_t i = 0; i < impl->in_types.size(); ++i) {
    Value v = impl->active[i] ? all[next++] : Value{};
    out.push_back(program::marked(v ? v : ops::zeros(b, ir::cotangent_type(impl->in_types[i])), impl->in_types[i]));
  }
  return program::bind_graph(ir::after_pass("vjp", b.finish_shared(out)), args, Loc::current());
}

namespace {
// n x n identity, each row shaped like t.
Value basis(ir::Builder& b, const ir::Type& t) {
  std::int64_t n = t.size();
  Value rows = ops::iota(b, DType::I32, {n, n}, 0);
  Value columns = ops::iota(b, DType::I32, {n, n}, 1);
  Shape shape = t.shape;
  shape.insert(shape.begin(), n);
  return ops::reshape(ops::convert(ops::eq(rows, columns), t.dtype), shape);
}
}  // namespace

Array jacobian(const LeafFn& f, const Array& x, bool forward) {
  const char* name = forward ? "jacfwd" : "jacrev";
  ir::Type type = program::type_of(x, name);
  if (!is_inexact(type.dtype))
    throw TypeError(str(name, ": argument 0 is ", type, "; expected a float or complex dtype"));
  Traced traced = program::trace(f, {type}, {program::varying_of(x)});
  program::cast_varying(traced, {x});
  const ir::Graph& g = *traced.graph;
  ir::Type out_type = g.type(g.outputs[0]);
  if (!is_inexact(out_type.dtype))
    throw TypeError(str(name, ": the function returns ", out_type, "; expected a float or complex dtype"));
  Shape full = out_type.shape;
  full.insert(full.end(), type.shape.begin(), type.shape.end());

  ops::Flags active(g.inputs.size());
  active[0] = true;
  ir::Builder b;
  Values in;
  for (const auto& t : g.input_types()) in.push_back(b.input(t));
  Value result;
  ops::BatchName nameless("");  // the rows of the identity, not the instances of a map around
  std::int64_t n = forward ? type.size() : out_type.size();
  // One direction as a graph of its own, batched over the rows of the identity.
  if (forward) {
    ops::JvpGraph j = ops::jvp_graph(g, active);
    if (j.active_out[0]) {
      Values args = in;
      args.push_back(basis(b, type));
      ops::Flags batched(args.size());
      batched.back() = true;
      ir::Batched d = ops::batch_inline(b, *j.graph, args, batched, n);
      Value rows = d.batched.back() ? d.out.back() : ops::repeat_in_front(d.out.back(), n);
      Dims order;
      for (std::int64_t k = 1; k < rows.rank(); ++k) order.push_back(k);
      order.push_back(0);
      result = ops::reshape(ops::transpose(rows, order), full);
    }
  } else {
    ops::Linearized lin = ops::linearize_graph(g, active);
    if (lin.active_out[0]) {
      Values known = b.inline_graph(*lin.known, in);
      Values args(known.begin() + 1, known.end());
      ops::Flags linear_in(lin.num_residuals + 1);
      linear_in.back() = true;
      ops::Transposed t = ops::transpose_graph(*lin.linear, linear_in, {true});
      if (t.nonzero.back()) {
        args.push_back(basis(b, out_type));
        ops::Flags batched(args.size());
        batched.back() = true;
        ir::Batched d = ops::batch_inline(b, *t.graph, args, batched, n);
        Value rows = d.batched[0] ? d.out[0] : ops::repeat_in_front(d.out[0], n);
        result = ops::reshape(rows, full);
      }
    }
  }
  if (!result) result = ops::zeros(b, ir::Type{out_type.dtype, full});
  result = program::marked(result, forward ? out_type : type);
  ir::GraphPtr graph = ir::after_pass(name, b.finish_shared(Values{result}));
  return program::bind_graph(graph, join_captures({x}, traced), Loc::current())[0];
}

}  // namespace tessera::detail
