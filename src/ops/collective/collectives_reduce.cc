// SPDX-License-Identifier: Apache-2.0
// psum, pmax, pmin, psum_scatter; and pvary, which is the transpose of a sum.
#include "ops/collective/collectives.h"
#include "ops/collective/collectives_common.h"

namespace tessera::ops {

namespace {

Types infer_same(const char* op, TypeSpan in) {
  check_count(op, in, 1);
  return {in[0]};
}

void check_sum(const char* op, TypeSpan in) {
  if (!in.empty() && is_bool(in[0].dtype)) {
    throw TypeError(str("[", op, "] operand 0 is ", in[0], "; expected numbers (bool has no sum; convert it)"));
  }
}

Values psum_transpose(Builder& b, const TransposeArgs& t, const Collective& p) {
  // Where the sum is known to be equal everywhere its cotangent is so too, and every instance gets it as it is.
  if (p.invariant()) return {pvary(t.ct[0], p)};
  return {b.add1(def::psum, {t.ct[0]}, attrs(p))};
}

constexpr const char* kNoDerivative = "differentiation of this operation is not defined; use psum of a selection";

}  // namespace

TESSERA_DEFINE_OP(psum, Collective,
                  {
                      .name = "psum",
                      .traits = {.linearity = Linearity::Joint, .collective = true, .reduction = Reduction::Sum},
                      .infer =
                          [](TypeSpan in, const Collective&) {
                            check_sum("psum", in);
                            return infer_same("psum", in);
                          },
                      .factors = by_default,
                      .remap = by_default,
                      .batch = [](Builder& b, const BatchArgs& a,
                                  const Collective& p) { return batch_reduce(b, def::psum, a, p); },
                      .jvp = linear,
                      .transpose = psum_transpose,
                      .reference = Never{kNeedsMesh},
                      .samples = Never{kNeedsMesh},
                  });

#define TESSERA_EXTREME(op, which)                                                                                     \
  TESSERA_DEFINE_OP(                                                                                                   \
      op, Collective,                                                                                                  \
      {                                                                                                                \
          .name = #op,                                                                                                 \
          .traits = {.collective = true, .reduction = Reduction::which},                                               \
          .infer = [](TypeSpan in, const Collective&) { return infer_same(#op, in); },                                 \
          .factors = by_default,                                                                                       \
          .remap = by_default,                                                                                         \
          .batch = [](Builder& b, const BatchArgs& a, const Collective& p) { return batch_reduce(b, def::op, a, p); }, \
          .jvp = Never{kNoDerivative},                                                                                 \
          .transpose = Never{kNoDerivative},                                                                           \
          .reference = Never{kNeedsMesh},                                                                              \
          .samples = Never{kNeedsMesh},                                                                                \
      })
TESSERA_EXTREME(pmax, Max);
TESSERA_EXTREME(pmin, Min);
#undef TESSERA_EXTREME

TESSERA_DEFINE_OP(pvary, Collective,
                  {
                      .name = "pvary",
                      .traits = {.linearity = Linearity::Joint, .collective = true},
                      .infer = [](TypeSpan in, const Collective&) { return infer_same("pvary", in); },
                      .factors = by_default,
                      .remap = by_default,
                      .batch = [](Builder& b, const BatchArgs& a,
                                  const Collective& p) { return batch_same(b, def::pvary, a, attrs(p)); },
                      .jvp = linear,
                      .transpose = [](Builder& b, const TransposeArgs& t,
                                      const Collective& p) { return Values{b.add1(def::psum, {t.ct[0]}, attrs(p))}; },
                      .reference = Never{kNeedsMesh},
                      .samples = Never{kNeedsMesh},
                  });

TESSERA_DEFINE_OP(psum_scatter, PsumScatter,
                  {
                      .name = "psum_scatter",
                      .traits = {.linearity = Linearity::Joint, .collective = true},
                      .infer =
                          [](TypeSpan in, const PsumScatter& p) {
                            check_count("psum_scatter", in, 1);
                            check_sum("psum_scatter", in);
                            Type t = in[0];
                            check_axes("psum_scatter", "scatter_dimension", {p.dim}, t.rank());
                            check_divides("psum_scatter", "scatter_dimension", t, p.dim, p.group_size());
                            t.shape[at(p.dim)] /= p.group_size();
                            return Types{t};
                          },
                      .factors = [](TypeSpan in, TypeSpan out,
                                    const PsumScatter& p) { return whole_dims(in[0], out[0], {p.dim}); },
                      .remap = by_default,
                      .batch = batch_scatter,
                      .jvp = linear,
                      .transpose =
                          [](Builder& b, const TransposeArgs& t, const PsumScatter& p) {
                            AllGather q;
                            static_cast<Collective&>(q) = p;
                            q.dim = p.dim;
                            return Values{b.add1(def::all_gather, {t.ct[0]}, attrs(q))};
                          },
                      .reference = Never{kNeedsMesh},
                      .samples = Never{kNeedsMesh},
                  });

Value psum(Value x, const Collective& p) {
  return p.names.list.empty() ? x : x.builder->add1(def::psum, {x}, attrs(p));
}
Value pmax(Value x, const Collective& p) {
  return p.names.list.empty() ? x : x.builder->add1(def::pmax, {x}, attrs(p));
}
Value pmin(Value x, const Collective& p) {
  return p.names.list.empty() ? x : x.builder->add1(def::pmin, {x}, attrs(p));
}
Value psum_scatter(Value x, const PsumScatter& p) {
  return p.names.list.empty() ? x : x.builder->add1(def::psum_scatter, {x}, attrs(p));
}
Value pvary(Value x, const Collective& p) {
  return p.names.list.empty() ? x : x.builder->add1(def::pvary, {x}, attrs(p));
}

}  // namespace tessera::ops
