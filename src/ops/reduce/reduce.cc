// SPDX-License-Identifier: Apache-2.0
// Reductions over whole axes.
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "ops/define_op.h"
#include "ops/reduce/reduction.h"
#include "ops/shared_attrs.h"

namespace tessera::ops {

namespace {

void reduce_reference(Reduction r, ViewSpan in, ViewSpan out, const Dims& axes) {
  const View& x = in[0];
  WideResult wide(out[0]);
  for (std::int64_t k = 0, n = out[0].size(); k < n; ++k) identity(r, wide.view, k);
  Dims strides = row_strides(reduced_shape(x.shape, axes));
  std::int64_t i = 0;
  for_each_position(x.shape, [&](const Dims& position) {
    accumulate(r, wide.view, flat(reduced_shape(position, axes), strides), x, i++);
  });
  wide.store(out[0]);
}

// Max and min share the tangent among equal extreme elements.
Values extreme_jvp(Builder&, const JvpArgs& a, const Axes& p) {
  Value x = a.in[0];
  Value hit = convert(eq(x, broadcast_back(a.out[0], x.type(), p.axes)), x.dtype());
  Value count = reduce_sum(hit, p.axes);
  return {reduce_sum(a.tangents[0] * hit, p.axes) / count};
}

// d prod(x) = sum_i t_i * prod_{j != i} x_j, written with an n x n mask so that zeros in x do no harm.
Values prod_jvp(Builder& b, const JvpArgs& a, const Axes& p) {
  Value x = a.in[0];
  Dims order;
  Shape kept;
  std::int64_t n = 1;
  for (std::int64_t d = 0; d < x.rank(); ++d) {
    if (std::find(p.axes.begin(), p.axes.end(), d) == p.axes.end()) {
      order.push_back(d);
      kept.push_back(x.shape()[at(d)]);
    }
  }
  for (auto d : p.axes) {
    order.push_back(d);
    n *= x.shape()[at(d)];
  }
  Shape line = kept;
  line.push_back(n);
  x = reshape(transpose(x, order), line);
  Value t = reshape(transpose(a.tangents[0], order), line);
  Shape square = line;
  square.push_back(n);
  Dims dims;
  auto last = rank(kept);
  for (std::int64_t d = 0; d < last; ++d) dims.push_back(d);
  dims.push_back(last + 1);
  Value same = eq(iota(b, DType::I32, square, last), iota(b, DType::I32, square, last + 1));
  Value others = reduce_prod(where(same, scalar(b, 1, x.dtype()), broadcast_in_dim(x, square, dims)), {last + 1});
  return {reduce_sum(t * others, {last})};
}

ir::OpSpec<Axes> reduce_spec(const ir::OpDef* self, const char* name, Reduction r,
                             ir::Must<Values(Builder&, const JvpArgs&, const Axes&)> jvp,
                             ir::Must<Values(Builder&, const TransposeArgs&, const Axes&)> transpose) {
  return {
      .name = name,
      .traits = {.linearity = r == Reduction::Sum ? Linearity::Joint : Linearity::None,
                 .exact = picks(r),
                 .reduction = r},
      .infer =
          [name, r](TypeSpan in, const Axes& p) {
            check_count(name, in, 1);
            check_axes(name, "axes", p.axes, in[0].rank());
            if (!reducible(r, in[0].dtype)) {
              throw TypeError(str("[", name, "] operand 0 has dtype ", dtype_name(in[0].dtype), "; convert it first"));
            }
            return Types{Type{in[0].dtype, reduced_shape(in[0].shape, p.axes), in[0].weak}};
          },
      .factors =
          [r](TypeSpan in, TypeSpan, const Axes& p) {
            FactorRule rule;
            rule.operands.emplace_back();
            rule.results.emplace_back();
            for (std::int64_t d = 0; d < in[0].rank(); ++d) {
              bool reduced = std::find(p.axes.begin(), p.axes.end(), d) != p.axes.end();
              int f = rule.add(in[0].shape[at(d)], reduced ? Factor::Kind::Reduce : Factor::Kind::Pass, r);
              rule.operands[0].push_back({f});
              if (!reduced) rule.results[0].push_back({f});
            }
            return rule;
          },
      .remap = by_default,
      .batch =
          [self](Builder& b, const BatchArgs& a, const Axes& p) {
            return Batched{{b.add1(*self, {a.in[0]}, attrs(Axes{shifted(p.axes)}))}, {true}};
          },
      .jvp = std::move(jvp),
      .transpose = std::move(transpose),
      .reference = [r](ViewSpan in, ViewSpan out, const Axes& p) { reduce_reference(r, in, out, p.axes); },
      .samples =
          [r] {
            DType t = r == Reduction::And || r == Reduction::Or ? DType::Bool : DType::F32;
            std::vector<Sample<Axes>> out{
                {{Type{t, {4, 6}}}, {{1}}}, {{Type{t, {4, 6}}}, {{0, 1}}}, {{Type{t, {2, 4, 6}}}, {{1}}}};
            if (t == DType::F32) out.push_back({{Type{DType::I32, {4, 6}}}, {{0}}});
            return out;
          },
  };
}
}  // namespace

#define TESSERA_REDUCE(op, text, kind, jvp, transpose)                                           \
  extern const ir::Op<Axes> op##_definition;                                                     \
  const ir::Op<Axes> op##_definition{reduce_spec(&op##_definition, text, kind, jvp, transpose)}; \
  const ir::OpDef& def::op = op##_definition

TESSERA_REDUCE(reduce_sum, "reduce_sum", Reduction::Sum, linear, ([](Builder&, const TransposeArgs& t, const Axes& p) {
                 return Values{broadcast_back(t.ct[0], t.types[0], p.axes)};
               }));
TESSERA_REDUCE(reduce_max, "reduce_max", Reduction::Max, extreme_jvp, Never{"the op is not linear"});
TESSERA_REDUCE(reduce_min, "reduce_min", Reduction::Min, extreme_jvp, Never{"the op is not linear"});
TESSERA_REDUCE(reduce_prod, "reduce_prod", Reduction::Prod, prod_jvp, Never{"the op is not linear"});
TESSERA_REDUCE(reduce_and, "reduce_and", Reduction::And, Never{"bool and integers have no tangent"},
               Never{"the op is not linear"});
TESSERA_REDUCE(reduce_or, "reduce_or", Reduction::Or, Never{"bool and integers have no tangent"},
               Never{"the op is not linear"});

namespace {
Value reduce(const ir::OpDef& op, Value x, const Dims& axes) {
  return axes.empty() ? x : x.builder->add1(op, {x}, attrs(Axes{axes}));
}
}  // namespace

Value reduce_sum(Value x, const Dims& axes) { return reduce(def::reduce_sum, x, axes); }
Value reduce_max(Value x, const Dims& axes) { return reduce(def::reduce_max, x, axes); }
Value reduce_min(Value x, const Dims& axes) { return reduce(def::reduce_min, x, axes); }
Value reduce_prod(Value x, const Dims& axes) { return reduce(def::reduce_prod, x, axes); }
Value broadcast_back(Value x, const Type& full, const Dims& axes) {
  Dims dims;
  for (std::int64_t d = 0; d < full.rank(); ++d) {
    if (std::find(axes.begin(), axes.end(), d) == axes.end()) dims.push_back(d);
  }
  return axes.empty() ? x : broadcast_in_dim(x, full.shape, dims);
}

}  // namespace tessera::ops
