// SPDX-License-Identifier: Apache-2.0
#include "ops/transform/interpret.h"

#include <cstring>

#include "ops/define_op.h"

namespace tessera::ops {

View view_of(HostArray& a) { return View{a.dtype(), a.shape(), a.data()}; }

HostArray copy_of(const View& v) {
  HostArray out(v.dtype, v.shape);
  if (out.nbytes() > 0) std::memcpy(out.data(), v.data, at(out.nbytes()));
  return out;
}

namespace {
std::vector<HostArray> run(const ir::OpDef& op, std::span<HostArray> in, const Types& types, const ir::Attrs& attrs) {
  std::vector<View> in_views;
  for (auto& a : in) in_views.push_back(view_of(a));
  std::vector<HostArray> out;
  std::vector<View> out_views;
  for (const auto& t : types) out.emplace_back(t.dtype, t.shape);
  for (auto& a : out) out_views.push_back(view_of(a));
  op.reference(in_views, out_views, attrs);
  return out;
}
}  // namespace

std::vector<HostArray> interpret(const ir::OpDef& op, std::span<const HostArray> in, const ir::Attrs& attrs) {
  std::vector<HostArray> args(in.begin(), in.end());
  Types types;
  for (const auto& a : args) types.push_back(Type{a.dtype(), a.shape()});
  return run(op, args, op.infer(types, attrs), attrs);
}

std::vector<HostArray> interpret(const ir::Graph& g, std::span<const HostArray> in) {
  if (in.size() != g.inputs.size()) {
    throw ValueError(str("[interpret] ", in.size(), " inputs; expected ", g.inputs.size()));
  }
  std::vector<HostArray> value(g.num_values());
  for (std::size_t i = 0; i < in.size(); ++i) {
    const Type& t = g.type(g.inputs[i]);
    if (in[i].dtype() != t.dtype || in[i].shape() != t.shape) {
      throw ValueError(
          str("[interpret] input ", i, " is ", to_string(Type{in[i].dtype(), in[i].shape()}), "; expected ", t));
    }
    value[at(g.inputs[i])] = in[i];
  }
  auto last = last_uses(g);
  for (std::size_t n = 0; n < g.eqns.size(); ++n) {
    const auto& e = g.eqns[n];
    std::vector<HostArray> args;
    Types types;
    for (auto v : e.in) args.push_back(value[at(v)]);
    for (auto v : e.out) types.push_back(g.type(v));
    auto results = run(*e.op, args, types, e.attrs);
    for (std::size_t i = 0; i < e.out.size(); ++i) value[at(e.out[i])] = results[i];
    for (auto v : e.in) {
      if (last[at(v)] == static_cast<std::int32_t>(n)) value[at(v)] = HostArray();
    }
  }
  std::vector<HostArray> out;
  for (auto v : g.outputs) out.push_back(value[at(v)]);
  return out;
}

void interpret(const ir::Graph& g, ViewSpan in, ViewSpan out) {
  std::vector<HostArray> args;
  for (const auto& v : in) args.push_back(copy_of(v));
  auto results = interpret(g, args);
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (results[i].nbytes() > 0) std::memcpy(out[i].data, results[i].data(), at(results[i].nbytes()));
  }
}

}  // namespace tessera::ops
