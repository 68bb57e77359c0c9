// SPDX-License-Identifier: Apache-2.0
// Running reductions along an axis.
#include <cmath>
#include <functional>
#include <limits>
#include <optional>
#include <utility>

#include "ops/define_op.h"
#include "ops/reduce/reduction.h"
#include "ops/shape/dimension_parts.h"
#include "ops/shared_attrs.h"

namespace tessera::ops {

namespace {
// nullopt stands for logsumexp.
using Kind = std::optional<Reduction>;

double log_add_exp(double x, double y) {
  double high = std::max(x, y);
  if (std::isnan(x) || std::isnan(y)) return x + y;
  return std::isinf(high) ? high : high + std::log1p(std::exp(std::min(x, y) - high));
}

void reference(const Kind& kind, ViewSpan in, ViewSpan out, const Cumulative& p) {
  const View& x = in[0];
  WideResult wide(out[0]);
  std::int64_t inner = 1;
  for (auto d = at(p.axis) + 1; d < x.shape.size(); ++d) inner *= x.shape[d];
  auto extent = x.shape[at(p.axis)];
  auto lines = extent == 0 ? 0 : x.size() / extent;
  for (std::int64_t line = 0; line < lines; ++line) {
    auto start = line / inner * inner * extent + line % inner;
    for (std::int64_t n = 0; n < extent; ++n) {
      auto i = start + (p.reverse ? extent - 1 - n : n) * inner;
      auto before = p.reverse ? i + inner : i - inner;
      if (!kind) {
        double low = -std::numeric_limits<double>::infinity();
        store_float(wide.view, i, log_add_exp(n == 0 ? low : load_float(wide.view, before), load_float(x, i)));
        continue;
      }
      n == 0 ? identity(*kind, wide.view, i) : copy_element(wide.view, i, wide.view, before);
      accumulate(*kind, wide.view, i, x, i);
    }
  }
  wide.store(out[0]);
}

// A number and its tangent.
struct Pair {
  Value x;
  Value t;
};
using Combine = Pair (*)(const Pair& first, const Pair& second);

Pair products(const Pair& a, const Pair& b) { return {a.x * b.x, a.x * b.t + a.t * b.x}; }
// Equal extremes share the tangent, as in max and min.
Pair chosen(Value x, const Pair& a, const Pair& b, Value first_wins) {
  Value half = scalar(*x.builder, 0.5, x.dtype());
  return {x, where(eq(a.x, b.x), half * (a.t + b.t), where(first_wins, a.t, b.t))};
}
Pair maxima(const Pair& a, const Pair& b) { return chosen(max(a.x, b.x), a, b, gt(a.x, b.x)); }
Pair minima(const Pair& a, const Pair& b) { return chosen(min(a.x, b.x), a, b, lt(a.x, b.x)); }
// Weights exp(a - y) and exp(b - y) of y = log(exp a + exp b), without overflow; where both are -inf, so is y, and the
// weights are halves.
Value log_add_exp(Value a, Value b) {
  Value high = max(a, b);
  Value zero = scalar(*high.builder, 0, high.dtype());
  return high + log1p(exp(where(eq(a, b), zero, neg(abs(a - b)))));
}
Pair log_sums(const Pair& a, const Pair& b) {
  Value zero = scalar(*a.x.builder, 0, a.x.dtype());
  Value y = log_add_exp(a.x, b.x);
  Value share = logistic(where(eq(a.x, b.x), zero, a.x - b.x));
  return {y, share * a.t + (1.0 - share) * b.t};
}

// Combines each element with those before it in log2(n) steps of doubling distance.
Value scanned_tangent(Pair v, const Cumulative& p, Combine combine) {
  auto n = v.x.shape()[at(p.axis)];
  for (std::int64_t step = 1; step < n; step *= 2) {
    auto cut = [&](Value x, std::int64_t from, std::int64_t to) { return slice_in_dim(x, from, to, p.axis); };
    auto cut_pair = [&](std::int64_t from, std::int64_t to) { return Pair{cut(v.x, from, to), cut(v.t, from, to)}; };
    auto join = [&](Value a, Value b) { return concatenate(Values{a, b}, p.axis); };
    if (p.reverse) {
      Pair sum = combine(cut_pair(step, n), cut_pair(0, n - step));
      v = {join(sum.x, cut(v.x, n - step, n)), join(sum.t, cut(v.t, n - step, n))};
    } else {
      Pair sum = combine(cut_pair(0, n - step), cut_pair(step, n));
      v = {join(cut(v.x, 0, step), sum.x), join(cut(v.t, 0, step), sum.t)};
    }
  }
  return v.t;
}

Types infer(const char* name, const Kind& kind, TypeSpan in, const Cumulative& p) {
  check_count(name, in, 1);
  check_axes(name, "axis", {p.axis}, in[0].rank());
  if (kind) {
    check_kind(name, in, 0, !is_bool(in[0].dtype), "integer, float or complex");
  } else {
    check_kind(name, in, 0, is_float(in[0].dtype), "float");
  }
  return {in[0]};
}

Value combined(const Kind& kind, Value x, Value y) {
  if (!kind) return log_add_exp(x, y);
  switch (*kind) {
    case Reduction::Sum:
      return x + y;
    case Reduction::Prod:
      return x * y;
    case Reduction::Max:
      return max(x, y);
    default:
      return min(x, y);
  }
}
Value neutral(Builder& b, const Kind& kind, DType dtype) {
  HostArray number(dtype, {});
  View view{dtype, {}, number.data()};
  kind ? identity(*kind, view, 0) : store_float(view, 0, -std::numeric_limits<double>::infinity());
  return constant(b, number);
}

// Every shard runs over its own elements; what stands before it, one number a line and shard, is combined with them.
std::optional<ir::Division> divide(Builder& b, const ir::OpDef& op, const Kind& kind, const ir::DivideArgs& a,
                                   const Cumulative& p) {
  Value x = a.in[0];
  DimensionParts parts(p.axis, x.shape()[at(p.axis)], a.parts_of(0, p.axis));
  bool rounds = is_inexact(x.dtype()) && kind != Reduction::Max && kind != Reduction::Min;
  bool whole = parts.parts == 1 || parts.chunk() == 1;
  if (whole || x.type().size() == 0 || (rounds && a.deterministic)) return std::nullopt;
  // Each element is rounded once, as where the dimension is whole.
  bool narrow = rounds && is_float(x.dtype()) && dtype_size(x.dtype()) < 4;
  if (narrow) x = convert(x, DType::F32);
  auto shifted = [&](Value v, std::int64_t by) {
    Dims before(at(v.rank()), 0);
    Dims behind = before;
    before[at(p.axis)] = by;
    behind[at(p.axis)] = -by;
    return pad(v, neutral(b, kind, v.dtype()), before, behind);
  };
  auto run = [&](Value v, std::int64_t axis) { return b.add1(op, {v}, attrs(Cumulative{axis, p.reverse})); };
  Value within = run(cut_in_parts(x, parts, neutral(b, kind, x.dtype())), p.axis + 1);
  std::int64_t last = p.reverse ? 0 : parts.chunk() - 1;
  Value totals = run(squeeze(slice_in_dim(within, last, last + 1, p.axis + 1), {p.axis + 1}), p.axis);
  Value before = shifted(totals, p.reverse ? -1 : 1);
  Value y = combined(kind, broadcast_back(before, within.type(), {p.axis + 1}), within);
  y = join_parts(y, parts);
  return ir::Division{{narrow ? convert(y, a.in[0].dtype()) : y}};
}

ir::OpSpec<Cumulative> spec(const ir::OpDef& (*self)(), const char* name, Kind kind,
                            ir::Must<Values(Builder&, const JvpArgs&, const Cumulative&)> jvp,
                            ir::Must<Values(Builder&, const TransposeArgs&, const Cumulative&)> transpose) {
  return {
      .name = name,
      .traits = {.linearity = kind == Reduction::Sum ? Linearity::Joint : Linearity::None,
                 .exact = kind == Reduction::Max || kind == Reduction::Min,
                 .work = ir::Work::Scan,
                 .activity = "a dimension that is reduced step by step"},
      .infer = [name, kind](TypeSpan in, const Cumulative& p) { return infer(name, kind, in, p); },
      .factors =
          [](TypeSpan in, TypeSpan, const Cumulative& p) {
            FactorRule r;
            r.operands = {{}};
            for (std::int64_t d = 0; d < in[0].rank(); ++d) {
              r.operands[0].push_back(
                  {r.add(in[0].shape[at(d)], d == p.axis ? Factor::Kind::Whole : Factor::Kind::Pass)});
            }
            r.results = r.operands;
            return r;
          },
      .remap = by_default,
      .batch =
          [self](Builder& b, const BatchArgs& a, const Cumulative& p) {
            return Batched{{b.add1(self(), {a.in[0]}, attrs(Cumulative{p.axis + 1, p.reverse}))}, {true}};
          },
      .jvp = std::move(jvp),
      .transpose = std::move(transpose),
      .divide = {[self, kind](Builder& b, const ir::DivideArgs& a, const Cumulative& p) {
        return divide(b, self(), kind, a, p);
      }},
      .reference = [kind](ViewSpan in, ViewSpan out, const Cumulative& p) { reference(kind, in, out, p); },
      .samples =
          [kind] {
            Type x{DType::F32, {4, 6}};
            std::vector<Sample<Cumulative>> out{
                {{x}, {1, false}}, {{x}, {0, true}}, {{Type{DType::F32, {2, 5, 3}}}, {1, true}}};
            out.push_back({{Type{DType::BF16, {7}}}, {0, false}});
            if (kind) out.push_back({{Type{DType::I32, {4, 6}}}, {1, false}});
            if (kind == Reduction::Sum || kind == Reduction::Prod) {
              out.push_back({{Type{DType::C64, {4, 3}}}, {0, false}});
            }
            return out;
          },
  };
}

ir::Must<Values(Builder&, const JvpArgs&, const Cumulative&)> scanned(Combine combine) {
  return [combine](Builder&, const JvpArgs& a, const Cumulative& p) {
    return Values{scanned_tangent({a.in[0], a.tangents[0]}, p, combine)};
  };
}
Value cumulative(const ir::OpDef& op, Value x, std::int64_t axis, bool reverse) {
  return x.builder->add1(op, {x}, attrs(Cumulative{axis, reverse}));
}
}  // namespace

#define TESSERA_CUMULATIVE(op, kind, jvp, transpose)                                  \
  static const base::Immortal<ir::Op<Cumulative>> op##_definition{                    \
      spec([]() -> const ir::OpDef& { return def::op; }, #op, kind, jvp, transpose)}; \
  const ir::OpDef& def::op = op##_definition.value;                                   \
  Value op(Value x, std::int64_t axis, bool reverse) { return cumulative(def::op, x, axis, reverse); }

TESSERA_CUMULATIVE(cumsum, Reduction::Sum, linear, ([](Builder&, const TransposeArgs& t, const Cumulative& p) {
                     return Values{cumsum(t.ct[0], p.axis, !p.reverse)};
                   }))
TESSERA_CUMULATIVE(cumprod, Reduction::Prod, scanned(products), Never{"the op is not linear"})
TESSERA_CUMULATIVE(cummax, Reduction::Max, scanned(maxima), Never{"the op is not linear"})
TESSERA_CUMULATIVE(cummin, Reduction::Min, scanned(minima), Never{"the op is not linear"})
TESSERA_CUMULATIVE(cumlogsumexp, std::nullopt, scanned(log_sums), Never{"the op is not linear"})

}  // namespace tessera::ops
