// SPDX-License-Identifier: Apache-2.0
// scan: a loop of known length over the elements of dimension 0.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "ir/derive_sharding.h"
#include "ir/rewriter.h"
#include "ops/control/control.h"
#include "ops/define_op.h"
#include "ops/transform/interpret.h"

namespace tessera::ops {

namespace {

struct ScanSizes {
  std::size_t consts, carry, xs, ys;
  ScanSizes(const Scan& p)  // NOLINT(google-explicit-constructor)
      : consts(at(p.num_consts)),
        carry(at(p.num_carry)),
        xs(p.body->inputs.size() - consts - carry),
        ys(p.body->outputs.size() - carry) {}
  std::size_t in() const { return consts + carry + xs; }
};

Type slice_type(const Type& t) { return ir::without_dim(t, 0); }

Types infer(TypeSpan in, const Scan& p) {
  auto fixed = p.num_consts + p.num_carry;
  if (p.num_consts < 0 || p.num_carry < 0 || static_cast<std::int64_t>(in.size()) < fixed) {
    throw ValueError(str("[scan] ", in.size(), " operands; expected ", p.num_consts, " constants, ", p.num_carry,
                         " of the carry, and the stacked inputs"));
  }
  if (p.length < 0) bad_attr("scan", "length", str(p.length, "; expected 0 or more"));
  Types want(in.begin(), in.begin() + fixed);
  for (auto i = at(fixed); i < in.size(); ++i) {
    if (in[i].rank() < 1 || in[i].shape[0] != p.length) {
      bad_operand("scan", i,
                  str("shape ", in[i].shape, "; expected ", p.length, " elements along dimension 0, the length"));
    }
    want.push_back(slice_type(in[i]));
  }
  check_inputs("scan", "body", *p.body, want);
  Types out = p.body->output_types();
  if (static_cast<std::int64_t>(out.size()) < p.num_carry) {
    throw TypeError(str("[scan] body has ", out.size(), " outputs; expected the carry of ", p.num_carry, " in front"));
  }
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (i < at(p.num_carry)) {
      const Type& start = in[at(p.num_consts) + i];
      check_type("scan", str("output ", i, " of body (carry)"), out[i], start);
      out[i].weak = out[i].weak && start.weak;
    } else {
      out[i] = stacked(out[i], p.length);
    }
  }
  return out;
}

Flags carry_first(const Flags& carry, std::size_t total) {
  Flags out = carry;
  out.resize(total);
  return out;
}

Batched batch(Builder& b, const BatchArgs& a, const Scan& p) {
  ScanSizes n(p);
  Flags flags = a.batched;
  Flags carry = subrange(flags, n.consts, n.consts + n.carry);
  BatchedGraph body;
  do {
    std::copy(carry.begin(), carry.end(), flags.begin() + static_cast<std::ptrdiff_t>(n.consts));
    body = batch_graph(*p.body, flags, a.size, carry_first(carry, n.carry + n.ys));
  } while (merge(carry, body.batched_out));
  ScanArgs s{body.graph, p.length, p.reverse, {}, {}, {}};
  for (std::size_t i = 0; i < n.in(); ++i) {
    Value x = a.in[i];
    if (i < n.consts) {
      s.consts.push_back(x);
    } else if (i < n.consts + n.carry) {
      s.carry.push_back(flags[i] && !a.batched[i] ? repeat_in_front(x, a.size) : x);
    } else {
      s.xs.push_back(flags[i] ? move_dim(x, 0, 1) : x);
    }
  }
  Values out = scan(b, s);
  for (std::size_t i = n.carry; i < out.size(); ++i) {
    if (body.batched_out[i]) out[i] = move_dim(out[i], 1, 0);
  }
  return {out, body.batched_out};
}

// Which operands and results have tangents, once the carry has settled.
struct Active {
  Flags in, carry, force;
};
template <class Derive>
auto settle(const ir::DualArgs& a, const Scan& p, Active& active, const Derive& derive) {
  ScanSizes n(p);
  for (const auto& t : a.tangents) active.in.push_back(static_cast<bool>(t));
  active.carry = subrange(active.in, n.consts, n.consts + n.carry);
  for (;;) {
    std::copy(active.carry.begin(), active.carry.end(), active.in.begin() + static_cast<std::ptrdiff_t>(n.consts));
    active.force = carry_first(active.carry, n.carry + n.ys);
    auto body = derive(*p.body, active.in, active.force);
    if (!merge(active.carry, body.active_out)) return body;
  }
}

// Tangents of the carry to start from: zeros where there is none yet.
Values carry_tangents(const ir::DualArgs& a, const Active& active, std::size_t first) {
  Values out;
  for (std::size_t i = 0; i < active.carry.size(); ++i) {
    if (!active.carry[i]) continue;
    Value t = a.tangents[first + i];
    out.push_back(t ? t : zeros_like(a.in[first + i]));
  }
  return out;
}

Duals fused(Builder& b, const ir::DualArgs& a, const Scan& p) {
  ScanSizes n(p);
  Active active;
  JvpGraph body = settle(a, p, active, [](auto&&... x) { return jvp_graph(x...); });
  Flags consts = subrange(active.in, 0, n.consts);
  Flags xs = subrange(active.in, n.consts + n.carry, n.in());
  std::size_t tc = count(consts);
  std::size_t tk = count(active.carry);
  // Tangents go behind the part of the operands (results) that they belong to.
  std::vector<std::size_t> in;
  auto take = [](std::vector<std::size_t>& to, std::size_t begin, std::size_t size) {
    for (std::size_t i = 0; i < size; ++i) to.push_back(begin + i);
  };
  take(in, 0, n.consts);
  take(in, n.in(), tc);
  take(in, n.consts, n.carry);
  take(in, n.in() + tc, tk);
  take(in, n.consts + n.carry, n.xs);
  take(in, n.in() + tc + tk, count(xs));
  std::size_t primal = n.carry + n.ys;
  std::size_t ty = count(body.active_out) - tk;
  std::vector<std::size_t> order;
  take(order, 0, n.carry);
  take(order, primal, tk);
  take(order, n.carry, n.ys);
  take(order, primal + tk, ty);
  ScanArgs s{with_outputs(*with_inputs(*body.graph, in), order), p.length, p.reverse, {}, {}, {}};
  append(s.consts, subrange(a.in, 0, n.consts));
  append(s.consts, selected(subrange(a.tangents, 0, n.consts), consts));
  append(s.carry, subrange(a.in, n.consts, n.consts + n.carry));
  append(s.carry, carry_tangents(a, active, n.consts));
  append(s.xs, subrange(a.in, n.consts + n.carry, n.in()));
  append(s.xs, selected(subrange(a.tangents, n.consts + n.carry, n.in()), xs));
  Values r = scan(b, s);
  Duals out{Values(r.begin(), r.begin() + static_cast<std::ptrdiff_t>(n.carry)), Values(primal)};
  append(out.out, subrange(r, n.carry + tk, n.carry + tk + n.ys));
  for (std::size_t i = 0, c = n.carry, y = n.carry + tk + n.ys; i < primal; ++i) {
    if (body.active_out[i]) out.tangents[i] = i < n.carry ? r[c++] : r[y++];
  }
  return out;
}

// ScanResiduals that every step has alike (made of constants alone) are computed once, outside; those that are a
// stacked input are read from it again; the others are stacked by the known loop.
struct ScanResiduals {
  std::vector<std::size_t> outside, input, kept;  // numbers of residuals
  std::vector<std::size_t> input_number;          // of the stacked input, for `input`
};
ScanResiduals sort_residuals(const Graph& known, const ScanSizes& n, std::size_t count, GraphPtr& once) {
  std::vector<bool> same(known.num_values());
  std::vector<bool> makes_same;  // by equation
  std::vector<ir::ValueId> outside;
  for (std::size_t i = 0; i < n.consts; ++i) same[at(known.inputs[i])] = true;
  for (const auto& e : known.eqns) {
    bool is = !has_effect(e) && std::all_of(e.in.begin(), e.in.end(), [&](auto v) { return same[at(v)]; });
    for (auto v : e.out) same[at(v)] = is;
    makes_same.push_back(is);
  }
  ScanResiduals out;
  for (std::size_t i = 0; i < count; ++i) {
    auto v = known.outputs[n.carry + n.ys + i];
    auto x = std::find(known.inputs.begin() + static_cast<std::ptrdiff_t>(n.consts + n.carry), known.inputs.end(), v);
    if (same[at(v)]) {
      outside.push_back(v);
      out.outside.push_back(i);
    } else if (x != known.inputs.end()) {
      out.input.push_back(i);
      out.input_number.push_back(at(x - known.inputs.begin()));
    } else {
      out.kept.push_back(i);
    }
  }
  once = ir::part_of(known, known.inputs, makes_same, outside);
  return out;
}

Duals split(Builder& b, const ir::DualArgs& a, const Scan& p) {
  ScanSizes n(p);
  Active active;
  Linearized body = settle(a, p, active, [](auto&&... x) { return linearize_graph(x...); });
  GraphPtr once;
  ScanResiduals r = sort_residuals(*body.known, n, body.num_residuals, once);
  std::size_t primal = n.carry + n.ys;
  std::vector<std::size_t> order(primal);
  std::iota(order.begin(), order.end(), 0);
  for (auto i : r.kept) order.push_back(primal + i);
  ScanArgs known{with_outputs(*body.known, order), p.length, p.reverse, {}, {}, {}};
  append(known.consts, subrange(a.in, 0, n.consts));
  append(known.carry, subrange(a.in, n.consts, n.consts + n.carry));
  append(known.xs, subrange(a.in, n.consts + n.carry, n.in()));
  Values results = scan(b, known);

  // The linear body has residuals, then tangents of constants, carry and stacked inputs.
  Flags consts = subrange(active.in, 0, n.consts);
  Flags xs = subrange(active.in, n.consts + n.carry, n.in());
  std::size_t tangents = body.num_residuals;
  std::vector<std::size_t> in = r.outside;
  auto take = [&](std::size_t size) {
    for (std::size_t i = 0; i < size; ++i) in.push_back(tangents++);
  };
  take(count(consts));
  take(count(active.carry));
  append(in, r.input);
  append(in, r.kept);
  take(count(xs));
  ScanArgs linear{with_inputs(*body.linear, in), p.length, p.reverse, {}, {}, {}};
  linear.consts = b.inline_graph(*once, a.in);
  append(linear.consts, selected(subrange(a.tangents, 0, n.consts), consts));
  linear.carry = carry_tangents(a, active, n.consts);
  for (auto i : r.input_number) linear.xs.push_back(a.in[i]);
  append(linear.xs, subrange(results, primal, results.size()));
  append(linear.xs, selected(subrange(a.tangents, n.consts + n.carry, n.in()), xs));
  Values t = scan(b, linear);
  results.resize(primal);
  Values out(primal);
  for (std::size_t i = 0, k = 0; i < primal; ++i) {
    if (body.active_out[i]) out[i] = t[k++];
  }
  return {results, out};
}

// The scan of a transposed body. Inputs of `back`: fixed constants, fixed stacked inputs, cotangents of carry and
// outputs; its outputs: cotangents of constants, carry and stacked inputs.
ScanArgs reversed_scan(Builder& b, const TransposeArgs& t, const Scan& p, const Transposed& back) {
  ScanSizes n(p);
  Flags sums = subrange(back.nonzero, 0, n.consts);
  Builder inner;
  Values fixed_consts;
  Values fixed_xs;
  Values acc;
  Values ct_carry;
  Values ct_ys;
  ScanArgs s{nullptr, p.length, !p.reverse, {}, {}, {}};
  for (std::size_t i = 0; i < n.consts; ++i) {
    if (t.linear[i]) continue;
    fixed_consts.push_back(inner.input(t.types[i]));
    s.consts.push_back(t.in[i]);
  }
  for (std::size_t i = 0; i < n.consts; ++i) {
    if (!sums[i]) continue;
    acc.push_back(inner.input(t.types[i]));
    s.carry.push_back(zeros(b, t.types[i]));
  }
  for (std::size_t i = 0; i < n.carry; ++i) {
    const Type& type = t.types[n.consts + i];
    ct_carry.push_back(inner.input(type));
    s.carry.push_back(t.ct[i] ? t.ct[i] : zeros(b, type));
  }
  for (std::size_t i = n.consts + n.carry; i < n.in(); ++i) {
    if (t.linear[i]) continue;
    fixed_xs.push_back(inner.input(slice_type(t.types[i])));
    s.xs.push_back(t.in[i]);
  }
  for (std::size_t i = n.carry; i < t.ct.size(); ++i) {
    if (!t.ct[i]) continue;
    ct_ys.push_back(inner.input(slice_type(t.ct[i].type())));
    s.xs.push_back(t.ct[i]);
  }
  Values args = fixed_consts;
  append(args, fixed_xs);
  append(args, ct_carry);
  append(args, ct_ys);
  Values out = inner.inline_graph(*back.graph, args);
  for (std::size_t i = 0; i < acc.size(); ++i) out[i] = add(acc[i], out[i]);
  s.body = inner.finish_shared(out);
  return s;
}

// Runs the other way: cotangents of the carry are carried, those of the constants summed on the way.
Values transpose_rule(Builder& b, const TransposeArgs& t, const Scan& p) {
  ScanSizes n(p);
  // A carry that linearization starts at zero is no linear operand, but linear inside the loop all the same: its
  // cotangent is carried like the others and dropped at the end.
  Flags linear_body = t.linear;
  for (std::size_t i = 0; i < n.carry; ++i) linear_body[n.consts + i] = true;
  Flags has_ct(n.carry, true);
  for (std::size_t i = n.carry; i < t.ct.size(); ++i) has_ct.push_back(static_cast<bool>(t.ct[i]));
  Flags force(n.in());
  for (std::size_t i = 0; i < n.carry; ++i) force[n.consts + i] = true;
  Transposed back = transpose_graph(*p.body, linear_body, has_ct, force);

  Values r = scan(b, reversed_scan(b, t, p, back));
  Values ct(n.in());
  for (std::size_t i = 0, k = 0; i < ct.size(); ++i) {
    if (!back.nonzero[i]) continue;
    if (t.linear[i]) ct[i] = r[k];
    ++k;
  }
  return ct;
}

void reference(ViewSpan in, ViewSpan out, const Scan& p) {
  ScanSizes n(p);
  std::vector<HostArray> args;
  for (std::size_t i = 0; i < n.consts + n.carry; ++i) args.push_back(copy_of(in[i]));
  args.resize(n.in());
  auto piece_of = [](const View& v, std::int64_t k) {
    View s{v.dtype, Shape(v.shape.begin() + 1, v.shape.end()), v.data};
    s.data = static_cast<char*>(v.data) + k * s.size() * dtype_size(s.dtype);
    return s;
  };
  auto store = [](const View& to, HostArray& from) {
    if (from.nbytes() > 0) std::memcpy(to.data, from.data(), at(from.nbytes()));
  };
  for (std::int64_t step = 0; step < p.length; ++step) {
    auto k = p.reverse ? p.length - 1 - step : step;
    for (std::size_t i = n.consts + n.carry; i < n.in(); ++i) args[i] = copy_of(piece_of(in[i], k));
    auto r = interpret(*p.body, args);
    for (std::size_t i = 0; i < n.carry; ++i) args[n.consts + i] = r[i];
    for (std::size_t i = n.carry; i < r.size(); ++i) store(piece_of(out[i], k), r[i]);
  }
  for (std::size_t i = 0; i < n.carry; ++i) store(out[i], args[n.consts + i]);
}

std::vector<Sample<Scan>> scan_samples() {
  Type w{DType::F32, {3, 3}};
  Type h{DType::F32, {3}};
  Type counter{DType::I32, {}};
  // A recurrent cell with a counter, an output that depends on it, and an integer input.
  Builder b;
  Value weights = b.input(w);
  Value state = b.input(h);
  Value i = b.input(counter);
  Value x = b.input(h);
  Value n = b.input(counter);
  Value next = tanh(dot_general(weights * weights, state, {{1}, {0}, {}, {}}) + x * sin(x));
  Value scale = broadcast_to(convert(i + n, DType::F32), {3});
  GraphPtr cell = b.finish_shared(Values{next, i + 1.0, next * scale, i, x * cos(state)});
  auto stack = [](const Type& t) { return stacked(t, 4); };
  // No carry: a map. No stacked input: an iteration.
  Builder m;
  Value k = m.input(h);
  x = m.input(h);
  GraphPtr map = m.finish_shared(Values{x * exp(k)});
  Builder t;
  state = t.input(h);
  GraphPtr iterate = t.finish_shared(Values{sin(state), state});
  return {{{w, h, counter, stack(h), stack(counter)}, {cell, 4, false, 1, 2}},
          {{w, h, counter, stack(h), stack(counter)}, {cell, 4, true, 1, 2}},
          {{h, stack(h)}, {map, 4, false, 1, 0}},
          {{h}, {iterate, 3, false, 0, 1}}};
}

}  // namespace

TESSERA_DEFINE_OP(scan, Scan,
                  {
                      .name = "scan",
                      .traits = {.own_dtypes = true},
                      .infer = infer,
                      .factors = Never{"the partitioner looks into the body"},
                      .remap = by_default,
                      .batch = batch,
                      .jvp =
                          [](Builder& b, const JvpArgs& a, const Scan& p) {
                            return fused(b, {a.in, a.tangents, false}, p).tangents;
                          },
                      .transpose = transpose_rule,
                      .dual = [](Builder& b, const ir::DualArgs& a,
                                 const Scan& p) { return a.split ? split(b, a, p) : fused(b, a, p); },
                      .place = [](const ir::PlaceArgs& args, Types& out, const Scan&) { ir::keep_inferred(args, out); },
                      .reference = reference,
                      .samples = scan_samples,
                  });

Values scan(Builder& b, const ScanArgs& args) {
  Values in = args.consts;
  append(in, args.carry);
  append(in, args.xs);
  return b.add(def::scan, in,
               attrs(Scan{args.body, args.length, args.reverse, static_cast<std::int64_t>(args.consts.size()),
                          static_cast<std::int64_t>(args.carry.size())}));
}

}  // namespace tessera::ops
