// SPDX-License-Identifier: Apache-2.0
// argmax and argmin: the first place of the extreme element along an axis; NaN counts as the extreme one.
#include <cmath>
#include <limits>

#include "core/integer_range.h"
#include "ops/define_op.h"
#include "ops/shared_attrs.h"

namespace tessera::ops {

namespace {
template <class T>
bool beats(bool maximum, T x, T best) {
  if constexpr (std::is_same_v<T, double>) {
    if (std::isnan(best)) return false;
    if (std::isnan(x)) return true;
  }
  return maximum ? x > best : x < best;
}

// `load` reads an element as a number of its kind.
template <class Load>
void search(bool maximum, const View& in, const View& out, std::int64_t axis, Load load) {
  std::int64_t inner = 1;
  for (auto d = at(axis) + 1; d < in.shape.size(); ++d) inner *= in.shape[d];
  auto extent = in.shape[at(axis)];
  for (std::int64_t k = 0, n = out.size(); k < n; ++k) {
    auto start = k / inner * inner * extent + k % inner;
    auto best = load(in, start);
    std::int64_t where = 0;
    for (std::int64_t i = 1; i < extent; ++i) {
      auto x = load(in, start + i * inner);
      if (!beats(maximum, x, best)) continue;
      best = x;
      where = i;
    }
    is_float(out.dtype) ? store_float(out, k, static_cast<double>(where)) : store_int(out, k, where);
  }
}

void reference(bool maximum, ViewSpan in, ViewSpan out, const ArgReduce& p) {
  switch (wide_kind(in[0].dtype)) {
    case Wide::Float:
      return search(maximum, in[0], out[0], p.axis, load_float);
    case Wide::Uint:
      return search(maximum, in[0], out[0], p.axis, load_uint);
    default:
      return search(maximum, in[0], out[0], p.axis, load_int);
  }
}

Types infer(const char* name, TypeSpan in, const ArgReduce& p) {
  check_count(name, in, 1);
  check_kind(name, in, 0, !is_complex(in[0].dtype), "bool, integer or float");
  check_axes(name, "axis", {p.axis}, in[0].rank());
  if (!is_integer(p.index_dtype)) {
    throw TypeError(str("[", name, "] index_dtype: ", dtype_name(p.index_dtype), "; expected an integer dtype"));
  }
  if (in[0].shape[at(p.axis)] == 0) {
    bad_attr(name, "axis", str(p.axis, " is empty in shape ", in[0].shape, "; expected at least one element"));
  }
  Shape shape = in[0].shape;
  shape.erase(shape.begin() + p.axis);
  return {Type{p.index_dtype, shape}};
}

// The place of each element among those that are searched, row-major.
Value places(Value x, const Dims& axes, DType dtype) {
  Value out;
  std::int64_t stride = 1;
  for (auto i = axes.size(); i-- > 0;) {
    Value along = iota(*x.builder, dtype, x.shape(), axes[i]);
    Value here = stride == 1 ? along : along * static_cast<double>(stride);
    out = out ? out + here : here;
    stride *= x.shape()[at(axes[i])];
  }
  return out;
}

// The least place that holds the extreme element: two reductions over positions of one number a line each.
std::optional<ir::Division> divide(const ir::DivideArgs& a, const ArgReduce& p, bool maximum) {
  Value x = a.in[0];
  Dims axes{p.axis};
  if (a.unflattened && x.rank() == 1) {
    x = a.unflattened;
    axes.clear();
    for (std::int64_t d = 0; d < x.rank(); ++d) axes.push_back(d);
  } else if (a.parts_of(0, p.axis) == 1) {
    return std::nullopt;
  }
  std::int64_t count = 1;
  for (auto d : axes) count *= x.shape()[at(d)];
  if (count > core::largest_integer(p.index_dtype)) return std::nullopt;  // the index would wrap
  DType wide = count > std::numeric_limits<std::int32_t>::max() ? DType::I64 : DType::I32;
  if (is_bool(x.dtype())) x = convert(x, DType::U8);
  Value best = broadcast_back(maximum ? reduce_max(x, axes) : reduce_min(x, axes), x.type(), axes);
  Value hit = eq(x, best);
  if (is_float(x.dtype())) hit = or_(hit, ne(x, x));
  Value none = scalar(*x.builder, static_cast<double>(count), wide);
  return ir::Division{{convert(reduce_min(where(hit, places(x, axes, wide), none), axes), p.index_dtype)}};
}

ir::OpSpec<ArgReduce> spec(const ir::OpDef* self, const char* name, bool maximum) {
  return {
      .name = name,
      .traits = {.whole_entry = ir::WholeEntry::Dropped},
      .infer = [name](TypeSpan in, const ArgReduce& p) { return infer(name, in, p); },
      .factors =
          [](TypeSpan in, TypeSpan out, const ArgReduce& p) {
            Dims map;
            for (std::int64_t d = 0; d < out[0].rank(); ++d) map.push_back(d < p.axis ? d : d + 1);
            return FactorRule::mapped(in[0], out[0], map);
          },
      .remap = by_default,
      .batch =
          [self](Builder& b, const BatchArgs& a, const ArgReduce& p) {
            return Batched{{b.add1(*self, {a.in[0]}, attrs(ArgReduce{p.axis + 1, p.index_dtype}))}, {true}};
          },
      .jvp = Never{"an index has no tangent"},
      .transpose = Never{"the op is not linear"},
      .divide = {[maximum](Builder&, const ir::DivideArgs& a, const ArgReduce& p) { return divide(a, p, maximum); }},
      .reference = [maximum](ViewSpan in, ViewSpan out, const ArgReduce& p) { reference(maximum, in, out, p); },
      .samples =
          [] {
            std::vector<Sample<ArgReduce>> out;
            for (auto t : {DType::F32, DType::I32, DType::U8, DType::Bool, DType::BF16}) {
              out.push_back({{Type{t, {4, 6}}}, {1, DType::I32}});
            }
            out.push_back({{Type{DType::F32, {4, 6, 2}}}, {1, DType::U8}});
            out.push_back({{Type{DType::F32, {4, 6}}}, {0, DType::I64}});
            out.push_back({{Type{DType::F32, {5}}}, {0, DType::I32}});
            return out;
          },
  };
}
}  // namespace

extern const ir::Op<ArgReduce> argmax_definition;
extern const ir::Op<ArgReduce> argmin_definition;
const ir::Op<ArgReduce> argmax_definition{spec(&argmax_definition, "argmax", true)};
const ir::Op<ArgReduce> argmin_definition{spec(&argmin_definition, "argmin", false)};
const ir::OpDef& def::argmax = argmax_definition;
const ir::OpDef& def::argmin = argmin_definition;

Value argmax(Value x, std::int64_t axis, DType index_dtype) {
  return x.builder->add1(def::argmax, {x}, attrs(ArgReduce{axis, index_dtype}));
}
Value argmin(Value x, std::int64_t axis, DType index_dtype) {
  return x.builder->add1(def::argmin, {x}, attrs(ArgReduce{axis, index_dtype}));
}

}  // namespace tessera::ops
