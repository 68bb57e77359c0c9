// SPDX-License-Identifier: Apache-2.0
// Functions of the host inside programs.
#include <cstring>

#include "ops/control/calls.h"
#include "ops/control/control.h"
#include "ops/define_op.h"
#include "ops/linalg/linalg_common.h"
#include "ops/transform/interpret.h"

namespace tessera::ops {

ir::Opaque host_function(HostFunction f, std::string label) {
  return {std::make_shared<const HostFunction>(std::move(f)), std::move(label)};
}

namespace {

void call(const char* name, ViewSpan in, ViewSpan out, const Callback& p) {
  std::vector<HostArray> args;
  for (const auto& v : in) args.push_back(copy_of(v));
  auto results = (*static_cast<const HostFunction*>(p.function.object.get()))(args);
  if (results.size() != out.size()) {
    throw ValueError(
        str("[", name, "] ", p.function.label, " gave ", results.size(), " arrays; expected ", out.size()));
  }
  for (std::size_t i = 0; i < out.size(); ++i) {
    check_type(name, str("result ", i, " of ", p.function.label), Type{results[i].dtype(), results[i].shape()},
               Type{out[i].dtype, out[i].shape});
    if (results[i].nbytes() > 0) std::memcpy(out[i].data, results[i].data(), at(results[i].nbytes()));
  }
}

// Once an element, in order.
Batched batch_in_order(const ir::OpDef& op, Builder& b, const BatchArgs& a, const Callback& p) {
  Builder inner;
  ScanArgs loop{nullptr, a.size, false, {}, {}, {}};
  std::vector<std::size_t> consts;
  std::vector<std::size_t> slices;
  for (std::size_t i = 0; i < a.in.size(); ++i) {
    (a.batched[i] ? slices : consts).push_back(i);
    (a.batched[i] ? loop.xs : loop.consts).push_back(a.in[i]);
  }
  Values args(a.in.size());
  for (auto i : consts) args[i] = inner.input(a.in[i].type());
  for (auto i : slices) {
    const Shape& s = a.in[i].shape();
    args[i] = inner.input(Type{a.in[i].dtype(), Shape(s.begin() + 1, s.end())});
  }
  loop.body = inner.finish_shared(inner.add(op, args, attrs(p)));
  Values out = scan(b, loop);
  return {out, Flags(out.size(), true)};
}

Batched batch_pure(Builder& b, const BatchArgs& a, const Callback& p) {
  if (p.batch_dims > 0) {
    Callback q = p;
    ++q.batch_dims;
    for (auto& t : q.results) t = stacked(t, a.size);
    return batch_in_front(def::pure_callback, b, a, q);
  }
  if (p.vmap_method == "sequential") return batch_in_order(def::pure_callback, b, a, p);
  bool repeat = p.vmap_method == "broadcast_all";
  if (!repeat && p.vmap_method != "expand_dims") {
    throw ValueError(
        str("[pure_callback] vmap_method: \"", p.vmap_method,
            "\"; expected \"sequential\", \"expand_dims\" or \"broadcast_all\" for a callback under vmap"));
  }
  Callback q = p;
  for (auto& t : q.results) t = stacked(t, a.size);
  Values in;
  for (std::size_t i = 0; i < a.in.size(); ++i) {
    in.push_back(a.batched[i] ? a.in[i] : repeat_in_front(a.in[i], repeat ? a.size : 1));
  }
  Values out = b.add(def::pure_callback, in, attrs(q));
  return {out, Flags(out.size(), true)};
}

Batched batch_effect(const ir::OpDef& op, Builder& b, const BatchArgs& a, const Callback& p) {
  if (p.ordered) {
    throw UnimplementedError(str("[", op.name(), "] ordered: true; a callback in program order cannot be batched"));
  }
  return batch_in_order(op, b, a, p);
}

FactorRule io_factors(TypeSpan in, TypeSpan out, const Callback& p) {
  if (!p.partitioned) return FactorRule::whole(in, out);
  FactorRule r;
  for (const auto& t : in) {
    auto& dims = r.operands.emplace_back();
    for (auto extent : t.shape) dims.push_back({r.add(extent)});
  }
  return r;
}

std::vector<HostArray> twice(const std::vector<HostArray>& in) {
  HostArray out(in[0].dtype(), in[0].shape());
  for (std::int64_t i = 0; i < out.size(); ++i) {
    out.span<std::int32_t>()[at(i)] = 2 * in[0].span<std::int32_t>()[at(i)];
  }
  return {out};
}

}  // namespace

// jax.lax.dce_sink: its operand is computed although nobody reads it.
TESSERA_DEFINE_OP(dce_sink, NoAttrs,
                  {
                      .name = "dce_sink",
                      .traits = {.effect = true},
                      .infer =
                          [](TypeSpan in, const NoAttrs&) {
                            check_count("dce_sink", in, 1);
                            return Types{};
                          },
                      .factors = [](TypeSpan in, TypeSpan out,
                                    const NoAttrs&) { return batch_factors(in, out, in[0].rank()); },
                      .remap = by_default,
                      .batch =
                          [](Builder& b, const BatchArgs& a, const NoAttrs&) {
                            b.add(def::dce_sink, {a.in[0]});
                            return Batched{};
                          },
                      .jvp = Never{"there is no result"},
                      .transpose = Never{"there is no result"},
                      .reference = [](ViewSpan, ViewSpan, const NoAttrs&) {},
                      .samples = Never{"has an effect and no result"},
                  });

TESSERA_DEFINE_OP(
    pure_callback, Callback,
    {
        .name = "pure_callback",
        .infer = [](TypeSpan, const Callback& p) { return p.results; },
        .factors = [](TypeSpan in, TypeSpan out, const Callback& p) { return batch_factors(in, out, p.batch_dims); },
        .remap =
            [](const RemapArgs& r, const Callback& p) {
              Callback q = p;
              q.results.assign(r.local_out.begin(), r.local_out.end());
              return q;
            },
        .batch = batch_pure,
        .jvp = Never{"the derivative of a host function is not known; wrap it with custom_jvp or custom_vjp"},
        .transpose = Never{"the op is not linear"},
        .reference = [](ViewSpan in, ViewSpan out, const Callback& p) { call("pure_callback", in, out, p); },
        .samples =
            [] {
              Type t{DType::I32, {4}};
              auto f = host_function(twice, "twice");
              return std::vector<Sample<Callback>>{{{t}, {f, {t}, "sequential"}}, {{t}, {f, {t}, "broadcast_all"}}};
            },
    });

TESSERA_DEFINE_OP(io_callback, Callback,
                  {
                      .name = "io_callback",
                      .traits = {.effect = true},
                      .infer = [](TypeSpan, const Callback& p) { return p.results; },
                      .factors = io_factors,
                      .remap = by_default,
                      .batch = [](Builder& b, const BatchArgs& a,
                                  const Callback& p) { return batch_effect(def::io_callback, b, a, p); },
                      .jvp = Never{"the derivative of a host function is not known"},
                      .transpose = Never{"the op is not linear"},
                      .reference = [](ViewSpan in, ViewSpan out,
                                      const Callback& p) { call("io_callback", in, out, p); },
                      .samples = Never{"has effects; tested on its own"},
                  });

TESSERA_DEFINE_OP(debug_callback, Callback,
                  {
                      .name = "debug_callback",
                      .traits = {.effect = true},
                      .infer =
                          [](TypeSpan, const Callback& p) {
                            if (!p.results.empty()) {
                              bad_attr("debug_callback", "results", str(p.results.size(), " types; expected none"));
                            }
                            return Types{};
                          },
                      .factors = Never{"the function wants whole values"},
                      .remap = by_default,
                      .batch = [](Builder& b, const BatchArgs& a,
                                  const Callback& p) { return batch_effect(def::debug_callback, b, a, p); },
                      .jvp = Never{"there is no result"},
                      .transpose = Never{"there is no result"},
                      .reference = [](ViewSpan in, ViewSpan out,
                                      const Callback& p) { call("debug_callback", in, out, p); },
                      .samples = Never{"has effects; tested on its own"},
                  });

}  // namespace tessera::ops
