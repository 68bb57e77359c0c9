// SPDX-License-Identifier: Apache-2.0
// The scatters: https://openxla.org/stablehlo/spec#scatter, with jax.lax.scatter's modes and derivatives.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "ops/shape/indexing_common.h"
#include "ops/shape/indexing_sharding.h"
#include "ops/transform/known_value.h"

namespace tessera::ops {

namespace {

enum class Update { Set, Add, Mul, Min, Max };

Types infer(const char* name, TypeSpan in, const Scatter& p) {
  check_count(name, in, 3);
  const Type& x = in[0];
  const Type& indices = in[1];
  const Type& updates = in[2];
  if (updates.dtype != x.dtype) {
    throw TypeError(str("[", name, "] operand 2 (updates) has dtype ", dtype_name(updates.dtype), "; expected ",
                        dtype_name(x.dtype), " as operand 0"));
  }
  auto n = numbering(p, name);
  check_numbering(n, x, indices);
  auto want = indices.rank() - 1 + static_cast<std::int64_t>(p.update_window_dims.size());
  if (updates.rank() != want) {
    bad_operand(name, 2, str("updates of shape ", updates.shape, "; expected rank ", want));
  }
  WindowMap map(p, x.shape, indices.shape, updates.shape);
  for (std::size_t i = 0; i < map.batch_of_window.size(); ++i) {
    auto d = map.batch_of_window[i];
    if (updates.shape[at(d)] != indices.shape[i]) {
      bad_operand(name, 2,
                  str("dimension ", d, " of updates ", updates.shape, " is ", updates.shape[at(d)], "; expected ",
                      indices.shape[i], " (dimension ", i, " of indices ", indices.shape, ")"));
    }
  }
  for (auto d : map.operand_of_offset) {
    if (map.sizes[at(d)] > x.shape[at(d)]) {
      bad_operand(name, 2,
                  str("window of ", map.sizes[at(d)], " along dimension ", d, " of operand 0; expected at most ",
                      x.shape[at(d)]));
    }
  }
  return {Type{x.dtype, x.shape, x.weak}};
}

// The shards of updates may be combined afterwards where the array itself is not counted twice: under min and max, and
// where it is known to be zeros under add.
FactorRule factors(Update kind, TypeSpan in, const Scatter& p) {
  FactorRule r;
  WindowMap map(p, in[0].shape, in[1].shape, in[2].shape);
  bool apart = kind == Update::Min || kind == Update::Max || (kind == Update::Add && p.onto_zeros);
  Reduction reduction = kind == Update::Min ? Reduction::Min : kind == Update::Max ? Reduction::Max : Reduction::Sum;
  auto f = window_factors(r, numbering(p, "scatter"), map, in[0].shape, in[1].shape, in[2].shape,
                          apart ? Factor::Kind::Reduce : Factor::Kind::Whole, reduction);
  r.operands = {f.operand, f.indices, f.window};
  r.results = {f.operand};
  return r;
}

Batched batch(const ir::OpDef& op, Builder& b, const BatchArgs& a, const Scatter& p) {
  Scatter q = p;
  q.update_window_dims = shifted(p.update_window_dims);
  q.inserted_window_dims = shifted(p.inserted_window_dims);
  q.scatter_dims_to_operand_dims = shifted(p.scatter_dims_to_operand_dims);
  q.operand_batching_dims = shifted(p.operand_batching_dims);
  Value x = with_batch(a, 0);
  Value updates = with_batch(a, 2);
  if (!a.batched[1]) {
    q.update_window_dims.insert(q.update_window_dims.begin(), 0);
    return {{b.add1(op, {x, a.in[1], updates}, attrs(q))}, {true}};
  }
  q.indices_batching_dims = shifted(p.indices_batching_dims);
  q.operand_batching_dims.insert(q.operand_batching_dims.begin(), 0);
  q.indices_batching_dims.insert(q.indices_batching_dims.begin(), 0);
  return {{b.add1(op, {x, a.in[1], updates}, attrs(q))}, {true}};
}

Value or_zeros(Value t, Value like) { return t ? t : zeros_like(like); }
Scatter onto_zeros(Scatter p) {
  p.onto_zeros = true;
  return p;
}
void need_unique(const char* name, const Scatter& p) {
  if (!p.unique_indices) {
    throw UnimplementedError(str("[", name,
                                 "] unique_indices: false; the derivative with respect to the updates needs "
                                 "windows that do not overlap, stated by unique_indices=true"));
  }
}

// Several updates of one element: the one that stays is found by scattering their numbers and reading them back; only
// its tangent passes.
Values set_jvp(Builder& b, const JvpArgs& a, const Scatter& p) {
  Value t = or_zeros(a.tangents[0], a.in[0]);
  Value tu = or_zeros(a.tangents[2], a.in[2]);
  if (p.unique_indices) return {scatter(t, a.in[1], tu, p)};
  const Shape& shape = a.in[2].shape();
  WindowMap map(p, a.in[0].shape(), a.in[1].shape(), shape);
  Shape lead(shape.size(), 1);
  for (auto d : map.batch_of_window) lead[at(d)] = shape[at(d)];
  Value ids = reshape(iota(b, DType::U32, {size_of(lead)}, 0) + 1.0, lead);
  Dims all(shape.size());
  for (std::size_t d = 0; d < all.size(); ++d) all[d] = static_cast<std::int64_t>(d);
  ids = broadcast_in_dim(ids, shape, all);
  Value nobody = scalar(b, 0, DType::U32);
  Value written = scatter(zeros(b, Type{DType::U32, a.in[0].shape()}), a.in[1], ids, p);
  Gather read = inverse_of(p, a.in[0].shape(), shape);
  Value zero = scalar(b, 0, t.dtype());
  Value kept = where(eq(written, nobody), t, zero);
  Value winners = where(eq(ids, gather(written, a.in[1], read)), tu, zero);
  return {scatter_add(kept, a.in[1], winners, p)};
}

Values add_jvp(Builder&, const JvpArgs& a, const Scatter& p) {
  if (!a.tangents[0]) return {scatter_add(zeros_like(a.in[0]), a.in[1], a.tangents[2], onto_zeros(p))};
  if (!a.tangents[2]) return {a.tangents[0]};
  Scatter q = p;
  q.onto_zeros = false;
  return {scatter_add(a.tangents[0], a.in[1], a.tangents[2], q)};
}

Values mul_jvp(Builder&, const JvpArgs& a, const Scatter& p) {
  Value sum;
  if (a.tangents[0]) sum = scatter_mul(a.tangents[0], a.in[1], a.in[2], p);
  if (a.tangents[2]) {
    need_unique("scatter-mul", p);
    sum = add_any(sum, a.in[0] * scatter_add(zeros_like(a.in[0]), a.in[1], a.tangents[2], onto_zeros(p)));
  }
  return {sum};
}

// As jax.lax: contending equal values, the old one included, share the tangent.
Values extreme_jvp(Builder& b, const JvpArgs& a, const Scatter& p) {
  Value x = a.in[0];
  Value indices = a.in[1];
  Value updates = a.in[2];
  DType t = x.dtype();
  Value tx = or_zeros(a.tangents[0], x);
  Value tu = or_zeros(a.tangents[2], updates);
  Gather read = inverse_of(p, x.shape(), updates.shape());
  Scatter onto = onto_zeros(p);
  auto at_windows = [&](Value v) { return gather(v, indices, read); };
  auto count = [&](Value v) { return at_windows(scatter_add(zeros_like(x), indices, v, onto)); };
  Value zero = scalar(b, 0, t);
  Value one = scalar(b, 1, t);
  Value target = at_windows(a.out[0]);
  Value wins = eq(updates, target);
  Value stays = eq(at_windows(x), target);
  Value num_updates = count(where(wins, full(b, 1, updates.type()), zero));
  Value num_refs = count(full(b, 1, updates.type()));
  Value shared = 1.0 / (num_updates + 1.0);
  Value update_part = where(wins, where(stays, shared, one / num_updates), zero);
  Value old_part = (where(stays, shared, zero) - 1.0) / num_refs;
  return {scatter_add(tx, indices, at_windows(tx) * old_part + tu * update_part, p)};
}

// Cotangent of the updates: what the windows read from that of the result.
Value read_back(Value ct, const TransposeArgs& t, const Scatter& p) {
  return gather(ct, t.in[1], inverse_of(p, t.types[0].shape, t.types[2].shape));
}

Values set_transpose(Builder& b, const TransposeArgs& t, const Scatter& p) {
  need_unique("scatter", p);
  Values out(3);
  if (t.linear[0]) out[0] = scatter(t.ct[0], t.in[1], zeros(b, t.types[2]), p);
  if (t.linear[2]) out[2] = read_back(t.ct[0], t, p);
  return out;
}
Values add_transpose(Builder&, const TransposeArgs& t, const Scatter& p) {
  Values out(3);
  if (t.linear[0]) out[0] = t.ct[0];
  if (t.linear[2]) out[2] = read_back(t.ct[0], t, p);
  return out;
}
Values mul_transpose(Builder&, const TransposeArgs& t, const Scatter& p) {
  Values out(3);
  if (t.linear[0]) out[0] = scatter_mul(t.ct[0], t.in[1], t.in[2], p);
  if (t.linear[2]) {
    need_unique("scatter-mul", p);
    out[2] = read_back(t.ct[0] * t.in[0], t, p);
  }
  return out;
}

void combine(Update kind, const View& out, std::int64_t i, const View& updates, std::int64_t k) {
  auto pick = [&](bool less) { return (kind == Update::Min) == less; };  // the update is taken
  switch (kind == Update::Set ? Wide::Bool : wide_kind(out.dtype)) {
    case Wide::Bool: {
      if (kind == Update::Set) return copy_element(out, i, updates, k);
      bool x = load_bool(out, i);
      bool y = load_bool(updates, k);
      return store_bool(out, i, kind == Update::Add || kind == Update::Max ? x || y : x && y);
    }
    case Wide::Float: {
      double x = load_float(out, i);
      double y = load_float(updates, k);
      if (kind == Update::Add) return store_float(out, i, x + y);
      if (kind == Update::Mul) return store_float(out, i, x * y);
      if (std::isnan(y) || (!std::isnan(x) && x != y && pick(y < x))) store_float(out, i, y);
      return;
    }
    case Wide::Complex: {
      complexd x = load_complex(out, i);
      complexd y = load_complex(updates, k);
      if (kind == Update::Add) return store_complex(out, i, x + y);
      if (kind == Update::Mul) return store_complex(out, i, x * y);
      bool less = y.real() != x.real() ? y.real() < x.real() : y.imag() < x.imag();
      if (x != y && pick(less)) store_complex(out, i, y);
      return;
    }
    case Wide::Int:
    case Wide::Uint: {
      auto x = load_uint(out, i);
      auto y = load_uint(updates, k);
      if (kind == Update::Add) return store_uint(out, i, x + y);
      if (kind == Update::Mul) return store_uint(out, i, x * y);
      bool less = is_signed_int(out.dtype) ? load_int(updates, k) < load_int(out, i) : y < x;
      if (x != y && pick(less)) store_uint(out, i, y);
    }
  }
}

// Floats are summed in double and rounded once.
void reference(Update kind, ViewSpan in, ViewSpan out, const Scatter& p) {
  View to = out[0];
  HostArray wide;
  bool widen = is_float(to.dtype) && to.dtype != DType::F64 && (kind == Update::Add || kind == Update::Mul);
  if (widen) {
    wide = HostArray(DType::F64, to.shape);
    to = View{DType::F64, to.shape, wide.data()};
    for (std::int64_t i = 0, n = to.size(); i < n; ++i) store_float(to, i, load_float(in[0], i));
  } else if (to.size() > 0) {
    std::memcpy(to.data, in[0].data, at(to.size() * dtype_size(to.dtype)));
  }
  WindowMap map(p, in[0].shape, in[1].shape, in[2].shape);
  walk_windows(numbering(p, "scatter"), map, p.mode, in[0], in[1], in[2].shape, [&](std::int64_t k, std::int64_t i) {
    if (i < 0) return;
    if (widen) {
      double x = load_float(to, i);
      double y = load_float(in[2], k);
      store_float(to, i, kind == Update::Add ? x + y : x * y);
    } else {
      combine(kind, to, i, in[2], k);
    }
  });
  if (!widen) return;
  for (std::int64_t i = 0, n = to.size(); i < n; ++i) store_float(out[0], i, load_float(to, i));
}

std::vector<Sample<Scatter>> samples(Update kind) {
  auto f = [](Shape s) { return Type{DType::F32, std::move(s)}; };
  auto i = [](Shape s) { return Type{DType::I32, std::move(s)}; };
  // One window alone never overlaps another.
  std::vector<Sample<Scatter>> out{
      {{f({6, 4}), i({1}), f({4})}, {{0}, {0}, {0}, {}, {}, IndexMode::Clip, true}},
      {{f({8, 6}), i({2}), f({3, 6})}, {{0, 1}, {}, {1, 0}, {}, {}, IndexMode::FillOrDrop, true}},
      {{f({4, 6}), i({4, 1}), f({4})}, {{}, {1}, {1}, {0}, {0}, IndexMode::Clip, true}},
  };
  if (kind != Update::Mul) {
    out.push_back({{f({6, 4}), i({8, 1}), f({8, 4})}, {{1}, {0}, {0}}});
    out.push_back({{f({4, 6}), i({2, 4, 1}), f({4, 2, 4})}, {{0}, {1}, {1}, {}, {}, IndexMode::Clip}});
    out.push_back({{f({4, 6, 2}), i({3, 4, 1}), f({3, 4, 2})}, {{2}, {1}, {1}, {0}, {1}, IndexMode::Clip}});
  }
  out.push_back({{i({6, 4}), i({8, 1}), i({8, 4})}, {{1}, {0}, {0}}});
  return out;
}

Scatter with_what_is_known(Update kind, Value x, Scatter p) {
  p.onto_zeros = p.onto_zeros || (kind == Update::Add && is_zeros(x));
  return p;
}

// The updates are added to zeros, so that shards of them can be, and then to the array.
std::optional<ir::Division> add_apart(Update kind, const ir::DivideArgs& a, const Scatter& p) {
  DType t = a.in[0].dtype();
  if (kind != Update::Add || p.onto_zeros || is_bool(t) || (a.deterministic && is_inexact(t))) return std::nullopt;
  WindowMap map(p, a.in[0].shape(), a.in[1].shape(), a.in[2].shape());
  bool split = std::any_of(map.batch_of_window.begin(), map.batch_of_window.end(),
                           [&](std::int64_t d) { return a.parts_of(2, d) > 1; });
  if (!split) return std::nullopt;
  return ir::Division{{a.in[0] + scatter_add(zeros_like(a.in[0]), a.in[1], a.in[2], onto_zeros(p))}};
}

// One window whose place is known: updates that are padded to the array's shape, without a gather of either.
std::optional<ir::Division> at_known_place(Update kind, Builder& b, const ir::DivideArgs& a, const Scatter& p) {
  Value x = a.in[0];
  Value updates = a.in[2];
  bool one = a.in[1].rank() == 1 && p.operand_batching_dims.empty();
  if (!one || kind == Update::Mul || (kind == Update::Add && is_bool(x.dtype()))) return std::nullopt;
  if (updates.type().size() == 0) return std::nullopt;
  auto place = known_value(a.in[1]);
  if (!place) return std::nullopt;
  WindowMap map(p, x.shape(), a.in[1].shape(), updates.shape());
  View indices{place->dtype(), place->shape(), place->data()};
  Dims low(at(x.rank()), 0);
  for (std::size_t c = 0; c < p.scatter_dims_to_operand_dims.size(); ++c) {
    auto d = at(p.scatter_dims_to_operand_dims[c]);
    std::int64_t room = x.shape()[d] - map.sizes[d];
    std::int64_t start = load_int(indices, static_cast<std::int64_t>(c));
    if (p.mode == IndexMode::FillOrDrop && (start < 0 || start > room)) return ir::Division{{x}};
    low[d] = std::clamp<std::int64_t>(start, 0, room);
  }
  Shape window(at(x.rank()));
  Dims high(at(x.rank()));
  for (std::size_t d = 0; d < window.size(); ++d) {
    window[d] = map.sizes[d];
    high[d] = x.shape()[d] - low[d] - window[d];
  }
  updates = pad(reshape(updates, window), scalar(b, 0, x.dtype()), low, high);
  ir::Division out;
  if (kind == Update::Add) {
    out.out = {x + updates};
  } else {
    Value inside = inside_window(b, x.shape(), low, window);
    Value new_value = kind == Update::Set ? updates : kind == Update::Min ? min(x, updates) : max(x, updates);
    out.out = {inside ? where(inside, new_value, x) : new_value};
  }
  // Into an array that all devices have: split as the updates are.
  if (a.operands[0].tiled() == 0 && a.operands[2].tiled() != 0 && !a.operands[0].partial && !a.operands[2].partial) {
    ir::Layout left = ir::Layout::replicated(x.rank());
    std::int64_t from = 0;
    for (std::int64_t d = 0; d < x.rank(); ++d) {
      if (contains(p.inserted_window_dims, d)) continue;
      const std::int64_t parts = a.parts_of(2, from);
      // Where shards have to be even, those of the updates are.
      const bool uneven = x.shape()[at(d)] % parts != 0 && a.in[2].shape()[at(from)] % parts == 0;
      if (!uneven) left.dims[at(d)] = a.operands[2].dims[at(from)];
      ++from;
    }
    out.layouts.emplace_back(out.out[0], std::move(left));
  }
  return out;
}

using JvpRule = Values (*)(Builder&, const JvpArgs&, const Scatter&);

ir::OpSpec<Scatter> scatter_spec(const ir::OpDef* self, const char* name, Update kind, JvpRule jvp,
                                 ir::Must<Values(Builder&, const TransposeArgs&, const Scatter&)> transpose) {
  return {
      .name = name,
      .traits = {.exact = kind == Update::Set || kind == Update::Min || kind == Update::Max, .work = ir::Work::Scatter},
      .infer = [name](TypeSpan in, const Scatter& p) { return infer(name, in, p); },
      .factors = [kind](TypeSpan in, TypeSpan, const Scatter& p) { return factors(kind, in, p); },
      .remap = by_default,
      .batch = [self](Builder& b, const BatchArgs& a, const Scatter& p) { return batch(*self, b, a, p); },
      .jvp = jvp,
      .transpose = std::move(transpose),
      .divide = {[self](Builder& b, const ir::DivideArgs& a, const Scatter& p) {
                   return scatter_by_shards(*self, b, a, p);
                 },
                 [kind](Builder&, const ir::DivideArgs& a, const Scatter& p) { return add_apart(kind, a, p); },
                 [kind](Builder& b, const ir::DivideArgs& a, const Scatter& p) {
                   return at_known_place(kind, b, a, p);
                 }},
      .place = place_scatter,
      .reference = [kind](ViewSpan in, ViewSpan out, const Scatter& p) { reference(kind, in, out, p); },
      .samples = [kind] { return samples(kind); },
  };
}

}  // namespace

#define TESSERA_SCATTER(op, text, kind, jvp, transpose)                                              \
  extern const ir::Op<Scatter> op##_definition;                                                      \
  const ir::Op<Scatter> op##_definition{scatter_spec(&op##_definition, text, kind, jvp, transpose)}; \
  const ir::OpDef& def::op = op##_definition;                                                        \
  Value op(Value x, Value indices, Value updates, const Scatter& p) {                                \
    return x.builder->add1(def::op, {x, indices, updates}, attrs(with_what_is_known(kind, x, p)));   \
  }

TESSERA_SCATTER(scatter, "scatter", Update::Set, set_jvp, set_transpose)
TESSERA_SCATTER(scatter_add, "scatter-add", Update::Add, add_jvp, add_transpose)
TESSERA_SCATTER(scatter_mul, "scatter-mul", Update::Mul, mul_jvp, mul_transpose)
TESSERA_SCATTER(scatter_min, "scatter-min", Update::Min, extreme_jvp, Never{"the op is not linear"})
TESSERA_SCATTER(scatter_max, "scatter-max", Update::Max, extreme_jvp, Never{"the op is not linear"})

Gather inverse_of(const Scatter& p, const Shape& operand, const Shape& updates) {
  Dims sizes(operand.size(), 1);
  std::size_t next = 0;
  for (std::int64_t d = 0; d < rank(operand); ++d) {
    if (contains(p.inserted_window_dims, d) || contains(p.operand_batching_dims, d)) continue;
    sizes[at(d)] = updates[at(p.update_window_dims[next++])];
  }
  for (auto d : p.operand_batching_dims) sizes[at(d)] = std::min<std::int64_t>(1, operand[at(d)]);
  return Gather{p.update_window_dims,
                p.inserted_window_dims,
                p.scatter_dims_to_operand_dims,
                p.operand_batching_dims,
                p.indices_batching_dims,
                sizes,
                p.mode,
                0.0,
                p.unique_indices};
}

}  // namespace tessera::ops
