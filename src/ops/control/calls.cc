// SPDX-License-Identifier: Apache-2.0
// checkpoint, custom_jvp_call, custom_vjp_call.
#include "ops/control/calls.h"

#include <algorithm>

#include "ir/derive_sharding.h"
#include "ir/rewriter.h"
#include "ops/control/calls_common.h"

namespace tessera::ops {

Types infer_call(const char* name, TypeSpan in, const Call& p) {
  check_inputs(name, p.name.empty() ? "body" : p.name, *p.body, Types(in.begin(), in.end()));
  return p.body->output_types();
}

Values filled(ValueSpan values, ValueSpan like) {
  Values out(values.begin(), values.end());
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (!out[i] && is_inexact(like[i].dtype())) out[i] = zeros_like(like[i]);
  }
  return out;
}

void check_results(const char* op, const std::string& what, ValueSpan got, TypeSpan want, bool may_be_empty) {
  if (got.size() != want.size()) {
    throw TypeError(str("[", op, "] ", what, " gave ", got.size(), " values; expected ", want.size()));
  }
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (!got[i] && may_be_empty) continue;
    check_type(op, str("value ", i, " of ", what), got[i].type(), want[i]);
  }
}

GraphPtr sample_body() {
  Builder b;
  Value x = b.input(Type{DType::F32, {4}});
  Value y = b.input(Type{DType::F32, {4}});
  Value n = b.input(Type{DType::I32, {4}});
  return b.finish_shared(Values{sin(x * y) * convert(n, DType::F32), n + 1.0, exp(y)});
}
Types sample_types() { return {Type{DType::F32, {4}}, Type{DType::F32, {4}}, Type{DType::I32, {4}}}; }

namespace {

// --- checkpoint ------------------------------------------------------------------------------------------------

// The tangents alone, from the inputs that they need and their tangents.
Values tangents_again(Builder& b, const ir::DualArgs& a, const Call& p, Flags& active_out) {
  Builder inner;
  Values in;
  Values t;
  for (const auto& v : a.in) in.push_back(inner.input(v.type()));
  for (const auto& v : a.tangents) t.push_back(v ? inner.input(v.type()) : Value{});
  Duals d = jvp_inline(inner, *p.body, in, t, /*split=*/true);
  active_out = present(d.tangents);
  GraphPtr body = inner.finish_shared(selected(d.tangents, active_out));

  auto last = last_uses(*body);
  std::vector<std::size_t> used;
  Values args;
  Values all(a.in.begin(), a.in.end());
  append(all, selected(a.tangents, present(a.tangents)));
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (i < a.in.size() && last[at(body->inputs[i])] < 0) continue;
    used.push_back(i);
    args.push_back(all[i]);
  }
  std::vector<ir::ValueId> inputs;
  for (auto i : used) inputs.push_back(body->inputs[i]);
  std::vector<bool> all_equations(body->eqns.size(), true);
  return checkpoint(b, ir::part_of(*body, inputs, all_equations, body->outputs), args, p.name);
}

Duals checkpoint_dual(Builder& b, const ir::DualArgs& a, const Call& p) {
  std::size_t n = p.body->outputs.size();
  Flags active;
  Values t;
  Values out;
  if (a.split) {
    out = checkpoint(b, p.body, a.in, p.name);
    t = tangents_again(b, a, p, active);
  } else {
    JvpGraph jvp = jvp_graph(*p.body, present(a.tangents));
    Values in(a.in.begin(), a.in.end());
    append(in, selected(a.tangents, present(a.tangents)));
    Values r = checkpoint(b, jvp.graph, in, p.name);
    active = jvp.active_out;
    t.assign(r.begin() + static_cast<std::ptrdiff_t>(n), r.end());
    out.assign(r.begin(), r.begin() + static_cast<std::ptrdiff_t>(n));
  }
  Values tangents(n);
  for (std::size_t i = 0, k = 0; i < n; ++i) {
    if (active[i]) tangents[i] = t[k++];
  }
  return {out, tangents};
}

// What is computed again waits, behind a barrier, for the cotangents; so it is neither merged with the first
// computation nor started early.
Values checkpoint_transpose(Builder& b, const TransposeArgs& t, const Call& p) {
  Flags fixed = t.linear;
  fixed.flip();
  Flags has_ct = present(t.ct);
  Values args = selected(t.in, fixed);
  append(args, selected(t.ct, has_ct));
  Builder inner;
  Values late;
  for (const auto& v : args) late.push_back(inner.input(v.type()));
  late = optimization_barrier(late);
  std::size_t next = 0;
  Values in;
  Values ct;
  for (bool f : fixed) in.push_back(f ? late[next++] : Value{});
  for (bool has : has_ct) ct.push_back(has ? late[next++] : Value{});
  Values back = transpose_inline(inner, *p.body, in, ct);
  Flags nonzero = present(back);
  Values r = checkpoint(b, inner.finish_shared(selected(back, nonzero)), args, p.name);
  for (std::size_t i = 0, k = 0; i < back.size(); ++i) {
    if (nonzero[i]) back[i] = r[k++];
  }
  return back;
}

Batched checkpoint_batch(Builder& b, const BatchArgs& a, const Call& p) {
  BatchedGraph body = batch_graph(*p.body, a.batched, a.size);
  return {checkpoint(b, body.graph, a.in, p.name), body.batched_out};
}

}  // namespace

TESSERA_DEFINE_OP(checkpoint, Call,
                  {
                      .name = "checkpoint",
                      .infer = [](TypeSpan in, const Call& p) { return infer_call("checkpoint", in, p); },
                      .factors = Never{"the partitioner looks into the body"},
                      .remap = by_default,
                      .batch = checkpoint_batch,
                      .jvp =
                          [](Builder& b, const JvpArgs& a, const Call& p) {
                            return checkpoint_dual(b, {a.in, a.tangents, false}, p).tangents;
                          },
                      .transpose = checkpoint_transpose,
                      .dual = checkpoint_dual,
                      .place = [](const ir::PlaceArgs& args, Types& out, const Call&) { ir::keep_inferred(args, out); },
                      .reference = [](ViewSpan in, ViewSpan out, const Call& p) { interpret(*p.body, in, out); },
                      .samples =
                          [] {
                            return std::vector<Sample<Call>>{{sample_types(), {sample_body(), "checkpoint"}}};
                          },
                  });

Values checkpoint(Builder& b, const GraphPtr& body, ValueSpan in, const std::string& name) {
  return b.add(def::checkpoint, in, attrs(Call{body, name}));
}

namespace {

// --- custom rules ----------------------------------------------------------------------------------------------

Duals custom_jvp_dual(Builder& b, const ir::DualArgs& a, const Call& p) {
  Duals d = rule_of<CustomJvp>(p).jvp(b, a.in, filled(a.tangents, a.in));
  Types want = p.body->output_types();
  check_results("custom_jvp_call", str("the rule of ", p.name), d.out, want, false);
  check_results("custom_jvp_call", str("the tangents of ", p.name), d.tangents, want, true);
  return d;
}

// The rule for one element as a graph: inputs, tangents of inexact ones -> results, those tangents that are not zero.
GraphPtr traced_rule(const CustomJvp& rule, const Types& types, Flags& active_out) {
  Builder b;
  Values in;
  Values t;
  for (const auto& type : types) in.push_back(b.input(type));
  for (const auto& type : types) t.push_back(is_inexact(type.dtype) ? b.input(type) : Value{});
  Duals d = rule.jvp(b, in, t);
  active_out = present(d.tangents);
  append(d.out, selected(d.tangents, active_out));
  return b.finish_shared(d.out);
}

// A result is batched where the body, or the rule, makes it so; its tangent is then batched too.
Batched custom_jvp_batch(Builder& b, const BatchArgs& a, const Call& p) {
  Types types = p.body->input_types();
  Flags active;
  GraphPtr rule = traced_rule(rule_of<CustomJvp>(p), types, active);
  Flags flags = a.batched;
  for (std::size_t i = 0; i < types.size(); ++i) {
    if (is_inexact(types[i].dtype)) flags.push_back(a.batched[i]);
  }
  std::size_t n = active.size();
  Flags by_rule = batch_graph(*rule, flags, a.size).batched_out;
  Flags out = batch_graph(*p.body, a.batched, a.size).batched_out;
  Flags force(by_rule.size());
  for (std::size_t i = 0, k = n; i < n; ++i) {
    force[i] = out[i] = out[i] || by_rule[i] || (active[i] && by_rule[k]);
    if (active[i]) force[k++] = out[i];
  }
  GraphPtr body = batch_graph(*p.body, a.batched, a.size, out).graph;
  GraphPtr batched = batch_graph(*rule, flags, a.size, force).graph;
  CustomJvp rule_of_batch{[=](Builder& to, ValueSpan in, ValueSpan tangents) {
    Values args(in.begin(), in.end());
    append(args, selected(tangents, present(tangents)));
    Values r = to.inline_graph(*batched, args);
    Duals d{Values(r.begin(), r.begin() + static_cast<std::ptrdiff_t>(n)), Values(n)};
    for (std::size_t i = 0, k = n; i < n; ++i) {
      if (active[i]) d.tangents[i] = r[k++];
    }
    return d;
  }};
  return {custom_jvp_call(b, body, rule_of_batch, a.in, p.name), out};
}

}  // namespace

TESSERA_DEFINE_OP(
    custom_jvp_call, Call,
    {
        .name = "custom_jvp_call",
        .infer = [](TypeSpan in, const Call& p) { return infer_call("custom_jvp_call", in, p); },
        .factors = Never{"the partitioner looks into the body"},
        .remap = by_default,
        .batch = custom_jvp_batch,
        .jvp =
            [](Builder& b, const JvpArgs& a, const Call& p) {
              return custom_jvp_dual(b, {a.in, a.tangents, false}, p).tangents;
            },
        .transpose = Never{"the call is not linear; its rule is applied before"},
        .dual = custom_jvp_dual,
        .place = [](const ir::PlaceArgs& args, Types& out, const Call&) { ir::keep_inferred(args, out); },
        .reference = [](ViewSpan in, ViewSpan out, const Call& p) { interpret(*p.body, in, out); },
        .samples =
            [] {
              CustomJvp rule{[](Builder& b, ValueSpan in, ValueSpan t) {
                Duals d = jvp_inline(b, *sample_body(), in, t, true);
                return d;
              }};
              return std::vector<Sample<Call>>{{sample_types(), {sample_body(), "sample", opaque(rule, "sample")}}};
            },
    });

Values custom_jvp_call(Builder& b, const GraphPtr& body, CustomJvp rule, ValueSpan in, const std::string& name) {
  return b.add(def::custom_jvp_call, in, attrs(Call{body, name, opaque(std::move(rule), name)}));
}

}  // namespace tessera::ops
