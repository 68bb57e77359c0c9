// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <iostream>
#include <sstream>

#include "base/strings.h"
#include "ops/control/calls.h"
#include "program/bind_built.h"
#include "program/graph_fragment.h"
#include "program/promote.h"
#include "tessera/custom.h"

namespace tessera {

namespace {

using ir::Value;
using ir::Values;
using ir::ValueSpan;

// Inputs of a call: the arguments, then everybody's captures, each graph reading its own.
struct Operands {
  std::vector<Array> all;
  std::size_t num_args = 0;
  // Values of a graph's inputs: `head`, then its captures, which begin at `from` in `in`.
  static Values inputs(ValueSpan head, ValueSpan in, std::size_t from, std::size_t count) {
    Values v(head.begin(), head.end());
    v.insert(v.end(), in.begin() + static_cast<std::ptrdiff_t>(from),
             in.begin() + static_cast<std::ptrdiff_t>(from + count));
    return v;
  }
  std::size_t append(const std::vector<Array>& captures) {
    std::size_t from = all.size();
    all.insert(all.end(), captures.begin(), captures.end());
    return from;
  }
};

// Whether a result of a rule, by its visible dtype, is one for a value of this type.
bool stands_for(const ir::Type& want, const ir::Type& got) {
  return got.shape == want.shape &&
         (arrays::visible(got).dtype == arrays::visible(want).dtype || program::takes(want, got));
}

// The graph with results of these dtypes.
ir::GraphPtr under_dtypes(const ir::GraphPtr& graph, const ir::Types& want) {
  ir::Types types = graph->output_types();
  for (std::size_t i = 0; i < want.size(); ++i) {
    if (types[i].dtype != want[i].dtype) types[i] = {want[i].dtype, types[i].shape, types[i].weak && want[i].weak};
  }
  return program::with_output_types(graph, types);
}

// The body over all operands.
ir::GraphPtr body_graph(const program::Traced& t, const Operands& o, std::size_t from, const char* name) {
  ir::Builder b;
  Values in;
  for (const auto& a : o.all) in.push_back(b.input(program::type_of(a, name)));
  Values args = Operands::inputs(ValueSpan(in).first(o.num_args), in, from, t.captures.size());
  return b.finish_shared(b.inline_graph(*t.graph, args));
}

}  // namespace

namespace detail {

std::vector<Array> custom_jvp_leaves(const LeafFn& f, const LeafFn& rule, const std::vector<Array>& args,
                                     const Loc& loc) {
  const char* name = "custom_jvp";
  ir::Types types = program::types_of(args, name);
  program::Traced body = program::trace(f, types);
  ir::Types both = types;
  both.insert(both.end(), types.begin(), types.end());
  auto derivative = std::make_shared<program::Traced>(program::trace(rule, both));
  std::size_t results = body.graph->outputs.size();
  ir::Types want = body.graph->output_types();
  ir::Types got = derivative->graph->output_types();
  for (std::size_t i = 0; i < 2 * results; ++i) {
    if (got.size() != 2 * results || !stands_for(want[i % results], got[i])) {
      throw TypeError(str("custom_jvp: the rule returns ", got.size(), " arrays that do not match the function's ",
                          results, " results and as many tangents"));
    }
  }
  ir::Types twice = want;
  twice.insert(twice.end(), want.begin(), want.end());
  derivative->graph = under_dtypes(derivative->graph, twice);
  Operands o{args, args.size()};
  std::size_t body_from = o.append(body.captures);
  std::size_t rule_from = o.append(derivative->captures);
  ir::GraphPtr graph = body_graph(body, o, body_from, name);
  ops::CustomJvp custom;
  custom.jvp = [derivative, rule_from, n = args.size(), results](ir::Builder& b, ValueSpan in, ValueSpan tangents) {
    Values head(in.begin(), in.begin() + static_cast<std::ptrdiff_t>(n));
    for (std::size_t i = 0; i < n; ++i) head.push_back(tangents[i] ? tangents[i] : ops::zeros_like(in[i]));
    Values out = b.inline_graph(*derivative->graph, Operands::inputs(head, in, rule_from, derivative->captures.size()));
    ir::Duals d;
    auto middle = out.begin() + static_cast<std::ptrdiff_t>(results);
    d.out.assign(out.begin(), middle);
    d.tangents.assign(middle, out.end());
    for (std::size_t i = 0; i < results; ++i) {
      if (!is_inexact(d.out[i].dtype())) d.tangents[i] = Value{};
    }
    return d;
  };
  return program::graph_fragment_as_given(name, loc, o.all, [&](ir::Builder& b, const Values& v) {
    return ops::custom_jvp_call(b, graph, custom, v, name);
  });
}

std::vector<Array> custom_vjp_leaves(const LeafFn& f, const LeafFn& fwd, const LeafFn& bwd,
                                     const std::vector<Array>& args, const Loc& loc) {
  const char* name = "custom_vjp";
  ir::Types types = program::types_of(args, name);
  program::Traced body = program::trace(f, types);
  auto forward = std::make_shared<program::Traced>(program::trace(fwd, types));
  ir::Types results = body.graph->output_types();
  for (std::size_t i = 0; i < std::min(results.size(), forward->graph->outputs.size()); ++i) {
    const ir::Type got = forward->graph->output_types()[i];
    if (!stands_for(results[i], got)) {
      throw TypeError(str("custom_vjp: result ", i, " of fwd is ", arrays::visible(got), "; the function returns ",
                          arrays::visible(results[i])));
    }
  }
  forward->graph = under_dtypes(forward->graph, results);
  ir::Types kept = forward->graph->output_types();
  if (kept.size() < results.size())
    throw TypeError(
        str("custom_vjp: fwd returns ", kept.size(), " arrays; expected the ", results.size(), " results first"));
  ir::Types back_types(kept.begin() + static_cast<std::ptrdiff_t>(results.size()), kept.end());
  back_types.insert(back_types.end(), results.begin(), results.end());
  auto backward = std::make_shared<program::Traced>(program::trace(bwd, back_types));
  ir::Types cts = backward->graph->output_types();
  for (std::size_t i = 0; i < types.size(); ++i) {
    if (cts.size() != types.size() || cts[i].shape != types[i].shape) {
      throw TypeError(str("custom_vjp: bwd returns ", cts.size(), " cotangents that do not match the ", types.size(),
                          " arguments' shapes"));
    }
  }
  for (std::size_t i = 0; i < cts.size(); ++i) {
    if (is_inexact(types[i].dtype) && is_inexact(cts[i].dtype)) cts[i].dtype = types[i].dtype;
  }
  backward->graph = under_dtypes(backward->graph, cts);
  Operands o{args, args.size()};
  std::size_t body_from = o.append(body.captures);
  std::size_t fwd_from = o.append(forward->captures);
  std::size_t bwd_from = o.append(backward->captures);
  ir::GraphPtr graph = body_graph(body, o, body_from, name);
  ops::CustomVjp custom;
  std::size_t n = args.size();
  std::size_t bwd_captures = backward->captures.size();
  custom.fwd = [forward, fwd_from, bwd_from, bwd_captures, n](ir::Builder& b, ValueSpan in) {
    Values out = b.inline_graph(*forward->graph, Operands::inputs(in.first(n), in, fwd_from, forward->captures.size()));
    // What bwd captures is kept as well.
    for (std::size_t i = 0; i < bwd_captures; ++i) out.push_back(in[bwd_from + i]);
    return out;
  };
  std::size_t operands = o.all.size();
  custom.bwd = [backward, bwd_captures, results, n, operands](ir::Builder& b, ValueSpan residuals, ValueSpan ct) {
    std::size_t own = residuals.size() - bwd_captures;
    Values head(residuals.begin(), residuals.begin() + static_cast<std::ptrdiff_t>(own));
    for (std::size_t i = 0; i < results.size(); ++i) head.push_back(ct[i] ? ct[i] : ops::zeros(b, results[i]));
    Values out = b.inline_graph(*backward->graph, Operands::inputs(head, residuals, own, bwd_captures));
    out.resize(n);
    out.resize(operands);
    return out;
  };
  return program::graph_fragment_as_given(name, loc, o.all, [&](ir::Builder& b, const Values& v) {
    return ops::custom_vjp_call(b, graph, custom, v, name);
  });
}

}  // namespace detail

namespace {

std::vector<Array> callback(const ir::OpDef& op, const char* name, const HostFunction& f,
                            const std::vector<ShapeDtype>& results, const std::vector<Array>& args, bool ordered,
                            const Loc& loc) {
  ops::Callback attrs;
  attrs.function = ops::host_function(
      [f, results, name = std::string(name)](const std::vector<HostArray>& in) {
        std::vector<HostArray> out = f(in);
        if (out.size() != results.size())
          throw ValueError(str(name, ": the function returned ", out.size(), " arrays; expected ", results.size()));
        return out;
      },
      name);
  for (const auto& r : results) attrs.results.push_back({r.dtype, r.shape});
  attrs.vmap_method = "sequential";
  attrs.ordered = ordered;
  std::vector<Array> in;
  for (const auto& a : args) {
    // The function sees what users see.
    const Array shown = program::cast_exactly(a, a.dtype(), arrays::checked(a, name)->type.weak, loc);
    in.push_back(shown.impl()->literal && program::Trace::current() == nullptr ? arrays::materialize(shown) : shown);
  }
  return program::bind(op, in, program::attrs(std::move(attrs)), loc);
}

}  // namespace

std::vector<Array> pure_callback(const HostFunction& f, const std::vector<ShapeDtype>& results,
                                 const std::vector<Array>& args, const Loc& loc) {
  return callback(ops::def::pure_callback, "pure_callback", f, results, args, false, loc);
}
std::vector<Array> io_callback(const HostFunction& f, const std::vector<ShapeDtype>& results,
                               const std::vector<Array>& args, const Loc& loc) {
  return callback(ops::def::io_callback, "io_callback", f, results, args, true, loc);
}
void debug_callback(const std::function<void(const std::vector<HostArray>&)>& f, const std::vector<Array>& args,
                    const Loc& loc) {
  HostFunction g = [f](const std::vector<HostArray>& in) {
    f(in);
    return std::vector<HostArray>();
  };
  callback(ops::def::debug_callback, "debug_callback", g, {}, args, false, loc);
}
void debug_print(const std::string& label, const std::vector<Array>& args, const Loc& loc) {
  debug_callback(
      [label](const std::vector<HostArray>& in) {
        std::ostringstream line;  // written at once, so that lines of several threads do not mix
        line << label;
        for (const auto& a : in) line << ' ' << to_string(a);
        line << '\n';
        std::cout << line.str() << std::flush;
      },
      args, loc);
}

}  // namespace tessera
