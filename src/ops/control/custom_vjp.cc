// SPDX-License-Identifier: Apache-2.0
// custom_vjp_call, and custom_lin, the linear part that its derivative leaves for transposition.
#include <algorithm>

#include "ir/derive_sharding.h"
#include "ops/control/calls_common.h"

namespace tessera::ops {

namespace {

/// Operands: what the rule keeps, then a tangent for each inexact input of the call. Results: tangents of the call's
/// inexact results.
struct CustomLin {
  ir::Opaque rule;  ///< a CustomVjp
  std::int64_t kept = 0;
  std::vector<bool> inexact_in, inexact_out;
  Types results;
  std::string name;
  static constexpr auto fields = std::tuple{field("rule", &CustomLin::rule),
                                            field("kept", &CustomLin::kept),
                                            field("inexact_in", &CustomLin::inexact_in),
                                            field("inexact_out", &CustomLin::inexact_out),
                                            field("results", &CustomLin::results),
                                            field("name", &CustomLin::name)};
};

Values lin_transpose(Builder& b, const TransposeArgs& t, const CustomLin& p) {
  auto kept = at(p.kept);
  Values ct;
  for (std::size_t i = 0, k = 0; i < p.inexact_out.size(); ++i) {
    if (!p.inexact_out[i]) {
      ct.emplace_back();
      continue;
    }
    ct.push_back(t.ct[k] ? t.ct[k] : zeros(b, p.results[k]));
    ++k;
  }
  const auto& rule = *static_cast<const CustomVjp*>(p.rule.object.get());
  Values back = rule.bwd(b, t.in.subspan(0, kept), ct);
  if (back.size() != p.inexact_in.size()) {
    throw TypeError(str("[custom_vjp_call] bwd of ", p.name, " gave ", back.size(), " cotangents; expected ",
                        p.inexact_in.size(), ", one an input"));
  }
  Values out(t.types.size());
  for (std::size_t i = 0, k = kept; i < back.size(); ++i) {
    if (!p.inexact_in[i]) continue;
    if (back[i]) {
      const std::string what = str("cotangent ", i, " from bwd of ", p.name);
      Type want = t.types[k];
      want.sharding = ir::cotangent_type(want).sharding;
      if (!ir::same_sharding(back[i].type(), want)) {
        throw ValueError(str("[custom_vjp_call] ", what, " is ", back[i].type(), "; expected ", want,
                             ", placed as the cotangent of the argument (reshard it)"));
      }
      check_type("custom_vjp_call", what, back[i].type(), want);
    }
    if (t.linear[k]) out[k] = back[i];
    ++k;
  }
  return out;
}

constexpr const char* kForward =
    "only the backward rule of a custom_vjp function is known; for forward mode define the function with custom_jvp";

}  // namespace

TESSERA_DEFINE_OP(custom_lin, CustomLin,
                  {
                      .name = "custom_lin",
                      .infer = [](TypeSpan, const CustomLin& p) { return p.results; },
                      .factors = Never{kForward},
                      .remap = by_default,
                      .batch = Never{kForward},
                      .jvp = Never{kForward},
                      .transpose = lin_transpose,
                      .place = [](const ir::PlaceArgs& args, Types& out,
                                  const CustomLin&) { ir::keep_inferred(args, out); },
                      .reference = Never{kForward},
                      .samples = Never{"made by custom_vjp_call and tested with it"},
                  });

namespace {

Flags inexact(const Types& types) {
  Flags out;
  for (const auto& t : types) out.push_back(is_inexact(t.dtype));
  return out;
}

Duals dual(Builder& b, const ir::DualArgs& a, const Call& p) {
  if (!a.split) throw UnimplementedError(str("[custom_vjp_call] forward mode of ", p.name, ": ", kForward));
  const auto& rule = rule_of<CustomVjp>(p);
  Types types = p.body->output_types();
  Values all = rule.fwd(b, a.in);
  std::size_t n = types.size();
  std::string what = str("fwd of ", p.name);
  if (all.size() < n) {
    throw TypeError(str("[custom_vjp_call] ", what, " gave ", all.size(), " values; expected ", n,
                        " results and then what to keep"));
  }
  check_results("custom_vjp_call", what, subrange(all, 0, n), types, false);
  CustomLin lin{p.rule, static_cast<std::int64_t>(all.size() - n), inexact(p.body->input_types()), inexact(types), {},
                p.name};
  for (const auto& t : types) {
    if (is_inexact(t.dtype)) lin.results.push_back(ir::tangent_type(t));
  }
  Values args(all.begin() + static_cast<std::ptrdiff_t>(n), all.end());
  append(args, selected(filled(a.tangents, a.in), lin.inexact_in));
  Flags has = lin.inexact_out;
  Values t = b.add(def::custom_lin, args, attrs(lin));
  all.resize(n);
  Values tangents(n);
  for (std::size_t i = 0, k = 0; i < n; ++i) {
    if (has[i]) tangents[i] = t[k++];
  }
  return {all, tangents};
}

// The cotangent of an input that all elements share is the sum of theirs.
Values unbatched_sums(const Batched& r, const Flags& has, const Flags& batched, std::int64_t size) {
  Values out(has.size());
  for (std::size_t i = 0, k = 0; i < has.size(); ++i) {
    if (!has[i]) continue;
    Value v = r.out[k];
    if (r.batched[k] && !batched[i]) v = reduce_sum(v, {0});
    if (!r.batched[k] && batched[i]) v = repeat_in_front(v, size);
    if (!r.batched[k] && !batched[i]) v = v * static_cast<double>(size);
    out[i] = v;
    ++k;
  }
  return out;
}

Batched batch(Builder& b, const BatchArgs& a, const Call& p) {
  const auto& rule = rule_of<CustomVjp>(p);
  Types types = p.body->output_types();
  std::size_t n = types.size();
  Builder f;
  Values in;
  for (const auto& t : p.body->input_types()) in.push_back(f.input(t));
  GraphPtr fwd = f.finish_shared(rule.fwd(f, in));
  BatchedGraph fwd_batched = batch_graph(*fwd, a.batched, a.size);
  Flags out = batch_graph(*p.body, a.batched, a.size).batched_out;
  merge(out, subrange(fwd_batched.batched_out, 0, n));
  Flags force = out;
  force.resize(fwd->outputs.size());
  fwd_batched = batch_graph(*fwd, a.batched, a.size, force);

  // One element's bwd as a graph: kept, cotangents of inexact results -> cotangents of the inputs that are not zero.
  Builder g;
  Values kept;
  Values ct;
  Flags flags = subrange(fwd_batched.batched_out, n, fwd->outputs.size());
  for (std::size_t i = n; i < fwd->outputs.size(); ++i) kept.push_back(g.input(fwd->type(fwd->outputs[i])));
  for (std::size_t i = 0; i < n; ++i) {
    ct.push_back(is_inexact(types[i].dtype) ? g.input(types[i]) : Value{});
    if (ct.back()) flags.push_back(out[i]);
  }
  Values back = rule.bwd(g, kept, ct);
  Flags has = present(back);
  GraphPtr bwd = g.finish_shared(selected(back, has));

  Flags batched = a.batched;
  std::int64_t size = a.size;
  std::string name = BatchName::current();  // the rule runs when the batch is over
  CustomVjp rule_of_batch{
      [graph = fwd_batched.graph](Builder& to, ValueSpan args) { return to.inline_graph(*graph, args); },
      [=](Builder& to, ValueSpan kept_values, ValueSpan cts) {
        BatchName named(name);
        Values args(kept_values.begin(), kept_values.end());
        append(args, selected(cts, present(cts)));
        return unbatched_sums(batch_inline(to, *bwd, args, flags, size), has, batched, size);
      }};
  GraphPtr body = batch_graph(*p.body, a.batched, a.size, out).graph;
  return {custom_vjp_call(b, body, rule_of_batch, a.in, p.name), out};
}

// sin(x y) n, n + 1, exp(y) with its true derivative.
CustomVjp sample_rule() {
  return {[](Builder& b, ValueSpan in) {
            Values out = b.inline_graph(*sample_body(), in);
            append(out, in);
            append(out, Values{out[2]});
            return out;
          },
          [](Builder&, ValueSpan kept, ValueSpan ct) {
            Value common = ct[0] * cos(kept[0] * kept[1]) * convert(kept[2], DType::F32);
            return Values{common * kept[1], common * kept[0] + ct[2] * kept[3], Value{}};
          }};
}

}  // namespace

TESSERA_DEFINE_OP(custom_vjp_call, Call,
                  {
                      .name = "custom_vjp_call",
                      .infer = [](TypeSpan in, const Call& p) { return infer_call("custom_vjp_call", in, p); },
                      .factors = Never{"the partitioner looks into the body"},
                      .remap = by_default,
                      .batch = batch,
                      .jvp = Never{kForward},
                      .transpose = Never{"the call is not linear; its rule is applied before"},
                      .dual = dual,
                      .place = [](const ir::PlaceArgs& args, Types& out, const Call&) { ir::keep_inferred(args, out); },
                      .reference = [](ViewSpan in, ViewSpan out, const Call& p) { interpret(*p.body, in, out); },
                      .samples =
                          [] {
                            return std::vector<Sample<Call>>{
                                {sample_types(), {sample_body(), "sample", opaque(sample_rule(), "sample")}}};
                          },
                  });

Values custom_vjp_call(Builder& b, const GraphPtr& body, CustomVjp rule, ValueSpan in, const std::string& name) {
  return b.add(def::custom_vjp_call, in, attrs(Call{body, name, opaque(std::move(rule), name)}));
}

}  // namespace tessera::ops
