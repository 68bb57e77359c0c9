// SPDX-License-Identifier: Apache-2.0
// while: a loop of unknown length.
#include <algorithm>
#include <numeric>

#include "ir/derive_sharding.h"
#include "ops/control/control.h"
#include "ops/define_op.h"
#include "ops/transform/interpret.h"

namespace tessera::ops {

namespace {

// The operands, apart.
template <class V>
struct Parts {
  V cond_consts, body_consts, carry;
};
auto parts(const auto& v, const While& p) {
  auto c = at(p.cond_consts);
  auto n = c + at(p.body_consts);
  using V = decltype(subrange(v, 0, c));
  return Parts<V>{subrange(v, 0, c), subrange(v, c, n), subrange(v, n, v.size())};
}

Types infer(TypeSpan in, const While& p) {
  auto consts = p.cond_consts + p.body_consts;
  if (p.cond_consts < 0 || p.body_consts < 0 || static_cast<std::int64_t>(in.size()) < consts) {
    throw ValueError(str("[while] ", in.size(), " operands; expected ", p.cond_consts, " constants of cond, ",
                         p.body_consts, " of body, and the carry"));
  }
  auto first = in.begin();
  Types carry(first + consts, in.end());
  Types cond_in(first, first + p.cond_consts);
  Types body_in(first + p.cond_consts, first + consts);
  append(cond_in, carry);
  append(body_in, carry);
  check_inputs("while", "cond", *p.cond, cond_in);
  check_inputs("while", "body", *p.body, body_in);
  Types flag = p.cond->output_types();
  if (flag.size() != 1) throw ValueError(str("[while] cond has ", flag.size(), " outputs; expected 1"));
  check_type("while", "output of cond", flag[0], Type{DType::Bool, {}});
  Types out = p.body->output_types();
  if (out.size() != carry.size()) {
    throw TypeError(str("[while] body has ", out.size(), " outputs; expected ", carry.size(), ", as the carry"));
  }
  for (std::size_t i = 0; i < out.size(); ++i) {
    check_type("while", str("output ", i, " of body"), out[i], carry[i]);
    out[i].weak = out[i].weak && carry[i].weak;
  }
  return out;
}

Flags joined(const Flags& a, const Flags& b) {
  Flags out = a;
  append(out, b);
  return out;
}

// The lanes end at different times: the loop goes on while one of them does, and lanes that are done keep their carry.
// What each lane's condition says is carried too, so that it is computed once a step.
Batched batch_ragged(Builder& b, const BatchArgs& a, const While& p) {
  if (has_effect(*p.body) || has_effect(*p.cond)) {
    throw UnimplementedError(
        "[while] batching over the condition: the loop has an effect, and lanes that are done would repeat it");
  }
  auto x = parts(a.in, p);
  auto f = parts(a.batched, p);
  Flags all(x.carry.size(), true);
  GraphPtr test = batch_graph(*p.cond, joined(f.cond_consts, all), a.size, {true}).graph;
  GraphPtr step = batch_graph(*p.body, joined(f.body_consts, all), a.size, all).graph;
  Type flags{DType::Bool, {a.size}};
  Values carry;
  for (std::size_t i = 0; i < x.carry.size(); ++i) {
    carry.push_back(f.carry[i] ? x.carry[i] : repeat_in_front(x.carry[i], a.size));
  }
  auto any = [](Value v) { return v.builder->add1(def::reduce_or, {v}, attrs(Axes{{0}})); };

  Builder c;
  Value going = c.input(flags);
  for (const auto& v : carry) c.input(v.type());
  GraphPtr cond = c.finish_shared(Values{any(going)});

  Builder body;
  Values test_args;
  Values step_args;
  for (const auto& v : x.cond_consts) test_args.push_back(body.input(v.type()));
  for (const auto& v : x.body_consts) step_args.push_back(body.input(v.type()));
  going = body.input(flags);
  Values old;
  for (const auto& v : carry) old.push_back(body.input(v.type()));
  append(step_args, old);
  Values next = body.inline_graph(*step, step_args);
  for (std::size_t i = 0; i < next.size(); ++i) {
    next[i] = where(broadcast_in_dim(going, next[i].shape(), {0}), next[i], old[i]);
  }
  append(test_args, next);
  Values out{and_(going, body.inline_graph(*test, test_args)[0])};
  append(out, next);
  GraphPtr masked = body.finish_shared(out);

  Values first(x.cond_consts.begin(), x.cond_consts.end());
  append(first, carry);
  WhileArgs loop{cond, masked, {}, {}, {b.inline_graph(*test, first)[0]}};
  append(loop.body_consts, x.cond_consts);
  append(loop.body_consts, x.body_consts);
  append(loop.carry, carry);
  Values r = while_loop(b, loop);
  r.erase(r.begin());
  return {r, all};
}

Batched batch(Builder& b, const BatchArgs& a, const While& p) {
  auto x = parts(a.in, p);
  auto f = parts(a.batched, p);
  Flags carry = f.carry;
  while (merge(carry, batch_graph(*p.body, joined(f.body_consts, carry), a.size, carry).batched_out)) {
  }
  auto test = batch_graph(*p.cond, joined(f.cond_consts, carry), a.size);
  if (test.batched_out[0]) return batch_ragged(b, a, p);
  WhileArgs loop{test.graph, batch_graph(*p.body, joined(f.body_consts, carry), a.size, carry).graph, {}, {}, {}};
  append(loop.cond_consts, x.cond_consts);
  append(loop.body_consts, x.body_consts);
  for (std::size_t i = 0; i < carry.size(); ++i) {
    loop.carry.push_back(carry[i] && !f.carry[i] ? repeat_in_front(x.carry[i], a.size) : x.carry[i]);
  }
  return {while_loop(b, loop), carry};
}

Duals while_dual(Builder& b, const ir::DualArgs& a, const While& p) {
  auto x = parts(a.in, p);
  auto t = parts(a.tangents, p);
  Flags consts;
  Flags carry;
  for (const auto& v : t.body_consts) consts.push_back(static_cast<bool>(v));
  for (const auto& v : t.carry) carry.push_back(static_cast<bool>(v));
  while (merge(carry, jvp_graph(*p.body, joined(consts, carry), carry).active_out)) {
  }
  std::size_t n = carry.size();
  std::size_t moving = count(carry);
  if (moving == 0) return {b.add(def::while_, a.in, attrs(p)), Values(n)};
  if (a.split) {
    throw UnimplementedError(
        "[while] reverse-mode derivative of a loop of unknown length; use scan, or fori_loop with "
        "bounds that are known when tracing, or forward mode (jvp)");
  }
  GraphPtr body = jvp_graph(*p.body, joined(consts, carry), carry).graph;
  // Its inputs are constants, carry, tangents of constants, tangents of carry.
  std::size_t m = consts.size();
  std::vector<std::size_t> order(body->inputs.size());
  std::iota(order.begin(), order.end(), 0);
  std::rotate(order.begin() + static_cast<std::ptrdiff_t>(m), order.begin() + static_cast<std::ptrdiff_t>(m + n),
              order.end() - static_cast<std::ptrdiff_t>(moving));
  body = with_inputs(*body, order);

  WhileArgs loop{nullptr, body, {}, {}, {}};
  append(loop.cond_consts, x.cond_consts);
  append(loop.body_consts, x.body_consts);
  append(loop.body_consts, selected(t.body_consts, consts));
  append(loop.carry, x.carry);
  for (std::size_t i = 0; i < n; ++i) {
    if (carry[i]) loop.carry.push_back(t.carry[i] ? t.carry[i] : zeros_like(x.carry[i]));
  }
  Builder c;
  Values test;
  for (auto v : p.cond->inputs) test.push_back(c.input(p.cond->type(v)));
  for (std::size_t i = n; i < loop.carry.size(); ++i) c.input(loop.carry[i].type());
  loop.cond = c.finish_shared(c.inline_graph(*p.cond, test));
  Values r = while_loop(b, loop);
  Duals out{Values(r.begin(), r.begin() + static_cast<std::ptrdiff_t>(n)), Values(n)};
  for (std::size_t i = 0, k = n; i < n; ++i) {
    if (carry[i]) out.tangents[i] = r[k++];
  }
  return out;
}

void reference(ViewSpan in, ViewSpan out, const While& p) {
  std::vector<HostArray> all;
  for (const auto& v : in) all.push_back(copy_of(v));
  auto first = all.begin();
  auto consts = p.cond_consts + p.body_consts;
  std::vector<HostArray> carry(first + consts, all.end());
  auto args = [&](std::int64_t begin, std::int64_t end) {
    std::vector<HostArray> v(first + begin, first + end);
    append(v, carry);
    return v;
  };
  while (interpret(*p.cond, args(0, p.cond_consts))[0].span<bool>()[0]) {
    carry = interpret(*p.body, args(p.cond_consts, consts));
  }
  for (std::size_t i = 0; i < carry.size(); ++i) {
    View v = view_of(carry[i]);
    for (std::int64_t k = 0; k < v.size(); ++k) copy_element(out[i], k, v, k);
  }
}

// Carry: a counter and a vector. `limit` steps, or as many as the first operand says.
Sample<While> sample(bool limit_is_operand) {
  Type counter{DType::I32, {}};
  Type x{DType::F32, {4}};
  Builder c;
  Value limit = limit_is_operand ? c.input(counter) : scalar(c, 3, DType::I32);
  Value i = c.input(counter);
  c.input(x);
  GraphPtr cond = c.finish_shared(Values{lt(i, limit)});
  Builder b;
  Value scale = b.input(x);
  i = b.input(counter);
  Value v = b.input(x);
  GraphPtr body = b.finish_shared(Values{i + 1.0, sin(v) * scale + convert(i, DType::F32)});
  if (limit_is_operand) return {{counter, x, counter, x}, {cond, body, 1, 1}};
  return {{x, counter, x}, {cond, body, 0, 1}};
}

}  // namespace

TESSERA_DEFINE_OP(while_, While,
                  {
                      .name = "while",
                      .traits = {.own_dtypes = true},
                      .infer = infer,
                      .factors = Never{"the partitioner looks into cond and body"},
                      .remap = by_default,
                      .batch = batch,
                      .jvp =
                          [](Builder& b, const JvpArgs& a, const While& p) {
                            return while_dual(b, {a.in, a.tangents, false}, p).tangents;
                          },
                      .transpose = Never{"a loop of unknown length cannot run backward; use scan or fori_loop"},
                      .dual = while_dual,
                      .place = [](const ir::PlaceArgs& args, Types& out,
                                  const While&) { ir::keep_inferred(args, out); },
                      .reference = reference,
                      .samples =
                          [] {
                            return std::vector<Sample<While>>{sample(false), sample(true)};
                          },
                  });

Values while_loop(Builder& b, const WhileArgs& args) {
  Values in = args.cond_consts;
  append(in, args.body_consts);
  append(in, args.carry);
  return b.add(def::while_, in,
               attrs(While{args.cond, args.body, static_cast<std::int64_t>(args.cond_consts.size()),
                           static_cast<std::int64_t>(args.body_consts.size())}));
}

}  // namespace tessera::ops
