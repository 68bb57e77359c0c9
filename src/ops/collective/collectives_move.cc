// SPDX-License-Identifier: Apache-2.0
// all_gather, all_to_all, ppermute, pbroadcast.
#include <algorithm>

#include "ops/collective/collectives.h"
#include "ops/collective/collectives_common.h"

namespace tessera::ops {

FactorRule whole_dims(const Type& in, const Type& out, const Dims& dims) {
  Dims map;
  for (std::int64_t d = 0; d < in.rank(); ++d) {
    map.push_back(std::find(dims.begin(), dims.end(), d) == dims.end() ? d : -1);
  }
  return FactorRule::mapped(in, out, map, false);
}

void check_divides(const char* op, const char* what, const Type& t, std::int64_t dim, std::int64_t n) {
  if (t.shape[at(dim)] % n != 0) {
    throw ValueError(str("[", op, "] ", what, " ", dim, " of ", t, " has size ", t.shape[at(dim)],
                         ", which is not divisible by the ", n, " instances"));
  }
}

namespace {

// The own slice of a value that is equal along the names: what instance r contributed to the gathered dimension.
Value own_slice(Value x, const AllGather& p) {
  Builder& b = *x.builder;
  const Collective& c = p;
  std::int64_t n = x.shape()[at(p.dim)] / p.group_size();
  Values starts(at(x.rank()), scalar(b, 0, DType::I32));
  starts[at(p.dim)] = axis_index(b, c) * scalar(b, static_cast<double>(n), DType::I32);
  Dims sizes = x.shape();
  sizes[at(p.dim)] = n;
  return dynamic_slice(x, starts, sizes);
}

Values gather_transpose(Builder& b, const TransposeArgs& t, const AllGather& p) {
  if (p.to_invariant && p.checked) return {own_slice(t.ct[0], p)};
  PsumScatter q;
  static_cast<Collective&>(q) = p;
  q.dim = p.dim;
  return {b.add1(def::psum_scatter, {t.ct[0]}, attrs(q))};
}

// The source receives the sum of all cotangents, the others nothing.
Values broadcast_transpose(Builder& b, const TransposeArgs& t, const Pbroadcast& p) {
  const Collective& c = p;
  Value sum = psum(t.ct[0], c);
  Value mine = eq(axis_index(b, c), scalar(b, static_cast<double>(p.source), DType::I32));
  return {where(mine, sum, zeros_like(sum))};
}

Types infer_exchange(TypeSpan in, const AllToAll& p) {
  check_count("all_to_all", in, 1);
  Type t = in[0];
  check_axes("all_to_all", "split_axis", {p.split}, t.rank());
  check_axes("all_to_all", "concat_axis", {p.concat}, t.rank());
  check_divides("all_to_all", "split_axis", t, p.split, p.group_size());
  t.shape[at(p.split)] /= p.group_size();
  t.shape[at(p.concat)] *= p.group_size();
  return {t};
}

}  // namespace

TESSERA_DEFINE_OP(all_gather, AllGather,
                  {
                      .name = "all_gather",
                      .traits = {.linearity = Linearity::Joint, .collective = true},
                      .infer =
                          [](TypeSpan in, const AllGather& p) {
                            check_count("all_gather", in, 1);
                            Type t = in[0];
                            check_axes("all_gather", "axis", {p.dim}, t.rank());
                            t.shape[at(p.dim)] *= p.group_size();
                            return Types{t};
                          },
                      .factors = [](TypeSpan in, TypeSpan out,
                                    const AllGather& p) { return whole_dims(in[0], out[0], {p.dim}); },
                      .remap = by_default,
                      .batch = batch_gather,
                      .jvp = linear,
                      .transpose = gather_transpose,
                      .reference = Never{kNeedsMesh},
                      .samples = Never{kNeedsMesh},
                  });

TESSERA_DEFINE_OP(all_to_all, AllToAll,
                  {
                      .name = "all_to_all",
                      .traits = {.linearity = Linearity::Joint, .collective = true},
                      .infer = infer_exchange,
                      .factors =
                          [](TypeSpan in, TypeSpan out, const AllToAll& p) {
                            return whole_dims(in[0], out[0], {p.split, p.concat});
                          },
                      .remap = by_default,
                      .batch = batch_exchange,
                      .jvp = linear,
                      .transpose =
                          [](Builder& b, const TransposeArgs& t, const AllToAll& p) {
                            AllToAll q = p;
                            std::swap(q.split, q.concat);
                            return Values{b.add1(def::all_to_all, {t.ct[0]}, attrs(q))};
                          },
                      .reference = Never{kNeedsMesh},
                      .samples = Never{kNeedsMesh},
                  });

TESSERA_DEFINE_OP(ppermute, Ppermute,
                  {
                      .name = "ppermute",
                      .traits = {.linearity = Linearity::Joint, .collective = true},
                      .infer =
                          [](TypeSpan in, const Ppermute&) {
                            check_count("ppermute", in, 1);
                            return Types{in[0]};
                          },
                      .factors = by_default,
                      .remap = by_default,
                      .batch = batch_permute,
                      .jvp = linear,
                      .transpose =
                          [](Builder& b, const TransposeArgs& t, const Ppermute& p) {
                            Ppermute q = p;
                            for (auto& pair : q.pairs) std::swap(pair[0], pair[1]);
                            return Values{b.add1(def::ppermute, {t.ct[0]}, attrs(q))};
                          },
                      .reference = Never{kNeedsMesh},
                      .samples = Never{kNeedsMesh},
                  });

TESSERA_DEFINE_OP(pbroadcast, Pbroadcast,
                  {
                      .name = "pbroadcast",
                      .traits = {.linearity = Linearity::Joint, .collective = true},
                      .infer =
                          [](TypeSpan in, const Pbroadcast&) {
                            check_count("pbroadcast", in, 1);
                            return Types{in[0]};
                          },
                      .factors = by_default,
                      .remap = by_default,
                      .batch = batch_broadcast,
                      .jvp = linear,
                      .transpose = broadcast_transpose,
                      .reference = Never{kNeedsMesh},
                      .samples = Never{kNeedsMesh},
                  });

Value all_gather(Value x, const AllGather& p) {
  return p.names.list.empty() ? x : x.builder->add1(def::all_gather, {x}, attrs(p));
}
Value all_to_all(Value x, const AllToAll& p) {
  // Groups of one exchange nothing.
  if (p.group_size() == 1) return x;
  return x.builder->add1(def::all_to_all, {x}, attrs(p));
}
Value ppermute(Value x, const Ppermute& p) { return x.builder->add1(def::ppermute, {x}, attrs(p)); }
Value pbroadcast(Value x, const Pbroadcast& p) { return x.builder->add1(def::pbroadcast, {x}, attrs(p)); }

}  // namespace tessera::ops
