// SPDX-License-Identifier: Apache-2.0
// Reductions, windows, running totals.
#include <algorithm>

#include "base/strings.h"
#include "hlo/export/export.h"
#include "ops/ops.h"
#include "ops/shared_attrs.h"

namespace tessera::hlo {

namespace {
namespace def = ops::def;
using ir::Eqn;
using ir::Type;
using ir::Types;

Texts reduction_text(Writer& w, const Eqn& e, const Texts& in, const Types& out, std::string how) {
  const Dims& axes = ir::get<ops::Axes>(e.attrs).axes;
  bool flags = is_bool(in[0].type.dtype);
  if (flags && how == "add") how = "or";
  if (flags && how == "multiply") how = "and";
  return w.reduce(in, out, axes, how);
}
#define TESSERA_REDUCE(name, how) \
  Texts name(Writer& w, const Eqn& e, const Texts& in, const Types& out) { return reduction_text(w, e, in, out, how); }
TESSERA_REDUCE(reduce_sum, "add")
TESSERA_REDUCE(reduce_max, "maximum")
TESSERA_REDUCE(reduce_min, "minimum")
TESSERA_REDUCE(reduce_prod, "multiply")
TESSERA_REDUCE(reduce_and, "and")
TESSERA_REDUCE(reduce_or, "or")
TESSERA_REDUCE(reduce_xor, "xor")
#undef TESSERA_REDUCE

// Keeps of two pairs of a number and its place that with the extreme number; NaN is the extreme one, of equal ones the
// first.
std::string extreme_pair(Writer& w, DType t, DType place, bool largest) {
  Type number{t, {}, false}, index{place, {}, false}, flag{DType::Bool, {}, false};
  return w.region({number, index, number, index}, [&](const Texts& a) {
    auto join = [&](const char* op, const Text& l, const Text& r) { return w.op(op, {l, r}, flag); };
    Text better = w.compare(a[0], a[2], largest ? "GT" : "LT");
    Text same = w.compare(a[0], a[2], "EQ");
    if (is_inexact(t)) {
      Text mine = w.compare(a[0], a[0], "NE"), both = join("stablehlo.and", mine, w.compare(a[2], a[2], "NE"));
      better = join("stablehlo.and", join("stablehlo.or", better, mine), w.op("stablehlo.not", {both}, flag));
      same = join("stablehlo.or", same, both);
    }
    Text earlier = join("stablehlo.and", same, w.compare(a[1], a[3], "LT"));
    Text take = join("stablehlo.or", better, earlier);
    return Texts{w.select(take, a[0], a[2]), w.select(take, a[1], a[3])};
  });
}
// A place that no element has: whatever equals the number at the start wins against it.
Text no_place(Writer& w, DType place) { return w.identity("minimum", place); }

Texts arg_extreme(Writer& w, const Eqn& e, const Texts& in, const Types& out, bool largest) {
  const auto& p = ir::get<ops::ArgReduce>(e.attrs);
  Text x = is_bool(in[0].type.dtype) ? w.convert(in[0], DType::I32) : in[0];
  DType t = x.type.dtype;
  Text places = w.iota(p.index_dtype, x.type.shape, p.axis);
  std::string body = extreme_pair(w, t, p.index_dtype, largest);
  Types results{{t, out[0].shape, false}, out[0]};
  Text start = w.identity(largest ? "maximum" : "minimum", t), none = no_place(w, p.index_dtype);
  return {w.generic("stablehlo.reduce", {x, places, start, none}, results, "dimensions = " + array_text({p.axis}),
                    body)[1]};
}
Texts argmax(Writer& w, const Eqn& e, const Texts& in, const Types& out) { return arg_extreme(w, e, in, out, true); }
Texts argmin(Writer& w, const Eqn& e, const Texts& in, const Types& out) { return arg_extreme(w, e, in, out, false); }

std::string window_text(const ops::Window& v) {
  std::vector<Dims> pads;
  for (std::size_t i = 0; i < v.low.size(); ++i) pads.push_back({v.low[i], v.high[i]});
  std::string text;
  if (!v.base_dilation.empty()) text += str("base_dilations = ", array_text(v.base_dilation), ", ");
  if (!pads.empty()) text += str("padding = ", matrix_text(pads), ", ");
  if (!v.window_dilation.empty()) text += str("window_dilations = ", array_text(v.window_dilation), ", ");
  return str(text, "window_dimensions = ", array_text(v.dimensions), ", window_strides = ", array_text(v.strides));
}
Texts window_by(Writer& w, const ops::Window& v, const Texts& in, const Types& out, const std::string& how) {
  DType t = in[0].type.dtype;
  return w.generic("stablehlo.reduce_window", {in[0], w.identity(how, t)}, out, window_text(v), w.reducer(how, t));
}
Texts reduce_window_sum(Writer& w, const Eqn& e, const Texts& in, const Types& out) {
  return window_by(w, ir::get<ops::Window>(e.attrs), in, out, "add");
}
Texts reduce_window_max(Writer& w, const Eqn& e, const Texts& in, const Types& out) {
  return window_by(w, ir::get<ops::Window>(e.attrs), in, out, "maximum");
}
Texts reduce_window_min(Writer& w, const Eqn& e, const Texts& in, const Types& out) {
  return window_by(w, ir::get<ops::Window>(e.attrs), in, out, "minimum");
}

// A running total is a window that begins before the array.
ops::Window running(const Eqn& e, const Shape& shape) {
  const auto& p = ir::get<ops::Cumulative>(e.attrs);
  auto axis = static_cast<std::size_t>(p.axis);
  ops::Window v;
  v.dimensions = v.strides = v.base_dilation = v.window_dilation = Dims(shape.size(), 1);
  v.low = v.high = Dims(shape.size(), 0);
  std::int64_t n = std::max<std::int64_t>(shape[axis], 1);
  v.dimensions[axis] = n;
  (p.reverse ? v.high : v.low)[axis] = n - 1;
  return v;
}
Texts cumsum(Writer& w, const Eqn& e, const Texts& in, const Types& out) {
  return window_by(w, running(e, out[0].shape), in, out, "add");
}
Texts cumprod(Writer& w, const Eqn& e, const Texts& in, const Types& out) {
  return window_by(w, running(e, out[0].shape), in, out, "multiply");
}
Texts cummax(Writer& w, const Eqn& e, const Texts& in, const Types& out) {
  return window_by(w, running(e, out[0].shape), in, out, "maximum");
}
Texts cummin(Writer& w, const Eqn& e, const Texts& in, const Types& out) {
  return window_by(w, running(e, out[0].shape), in, out, "minimum");
}
Texts cumlogsumexp(Writer& w, const Eqn& e, const Texts& in, const Types& out) {
  Type number{in[0].type.dtype, {}, false};
  Text start = w.identity("maximum", number.dtype);
  std::string body = w.region({number, number}, [&](const Texts& a) {
    Text high = w.op("stablehlo.maximum", a, number), gap = w.op("stablehlo.subtract", a, number);
    Text size = w.op("stablehlo.negate", {w.op("stablehlo.abs", {gap}, number)}, number);
    Text rest = w.op("stablehlo.log_plus_one", {w.op("stablehlo.exponential", {size}, number)}, number);
    Text sum = w.op("stablehlo.add", {high, rest}, number);
    // Equal infinities have no difference.
    return Texts{w.select(w.compare(gap, gap, "NE"), w.op("stablehlo.add", a, number), sum)};
  });
  return w.generic("stablehlo.reduce_window", {in[0], start}, out, window_text(running(e, out[0].shape)), body);
}

std::string region_of(Writer& w, const ir::Graph& g) {
  return w.region(g.input_types(), [&](const Texts& a) { return w.inline_graph(g, a); });
}
Texts reduce(Writer& w, const Eqn& e, const Texts& in, const Types& out) {
  const auto& p = ir::get<ops::Reduce>(e.attrs);
  return w.generic("stablehlo.reduce", in, out, "dimensions = " + array_text(p.axes), region_of(w, *p.body));
}
Texts reduce_window(Writer& w, const Eqn& e, const Texts& in, const Types& out) {
  const auto& p = ir::get<ops::ReduceWindow>(e.attrs);
  return w.generic("stablehlo.reduce_window", in, out, window_text(p), region_of(w, *p.body));
}

// By window: the number of the extreme element among all elements, and whether there is one.
std::pair<Text, Text> selected(Writer& w, const Text& x, const ops::SelectWindow& p, const Shape& windows) {
  Shape flat{size_of(x.type.shape)};
  Text places = w.reshape(w.iota(DType::I32, flat, 0), x.type.shape);
  Text start = w.identity(p.maximum ? "maximum" : "minimum", x.type.dtype), none = no_place(w, DType::I32);
  std::string body = extreme_pair(w, x.type.dtype, DType::I32, p.maximum);
  Types types{{x.type.dtype, windows, false}, {DType::I32, windows, false}};
  Text place = w.generic("stablehlo.reduce_window", {x, places, start, none}, types, window_text(p), body)[1];
  return {place, w.compare(place, w.wide(none, windows), "NE")};
}
Text column_of(Writer& w, const Text& places) { return w.reshape(places, {size_of(places.type.shape), 1}); }

Texts select_and_scatter_add(Writer& w, const Eqn& e, const Texts& in, const Types& out) {
  const auto& p = ir::get<ops::SelectWindow>(e.attrs);
  const Text &source = in[0], &x = in[1];
  DType t = x.type.dtype;
  auto all = [](const Dims& d, auto test) { return std::all_of(d.begin(), d.end(), test); };
  auto is_one = [](std::int64_t v) { return v == 1; };
  auto not_negative = [](std::int64_t v) { return v >= 0; };
  if (source.type.dtype == t && all(p.base_dilation, is_one) && all(p.window_dilation, is_one) &&
      all(p.low, not_negative) && all(p.high, not_negative)) {
    Type number{t, {}, false};
    std::string choose = w.region(
        {number, number}, [&](const Texts& a) { return Texts{w.compare(a[0], a[1], p.maximum ? "GE" : "LE")}; });
    std::string add = w.reducer("add", t);
    ops::Window v = p;
    v.base_dilation.clear();
    v.window_dilation.clear();
    return w.generic("stablehlo.select_and_scatter", {x, source, w.constant(0, t)}, out, window_text(v),
                     str(choose, ", ", add));
  }
  Shape flat{size_of(out[0].shape)};
  Text place = selected(w, x, p, source.type.shape).first;  // windows of padding alone name a place outside
  Type sums{out[0].dtype, flat, false};
  Text sum = w.generic(
      "stablehlo.scatter",
      {w.constant(0, out[0].dtype, flat), column_of(w, place), w.reshape(source, {size_of(source.type.shape)})}, {sums},
      "indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims "
      "= [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = false",
      w.reducer("add", out[0].dtype))[0];
  return {w.reshape(sum, out[0].shape)};
}
Texts select_and_gather_add(Writer& w, const Eqn& e, const Texts& in, const Types& out) {
  const auto& p = ir::get<ops::SelectWindow>(e.attrs);
  auto [place, there] = selected(w, in[1], p, out[0].shape);
  Text source = w.reshape(in[0], {size_of(in[0].type.shape)});
  Type picked{out[0].dtype, {size_of(out[0].shape)}, false};
  Text v = w.generic("stablehlo.gather", {source, column_of(w, place)}, picked,
                     "dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0], start_index_map = [0], "
                     "index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1>");
  return {w.select(there, w.reshape(v, out[0].shape), w.constant(0, out[0].dtype, out[0].shape))};
}
}  // namespace

void add_reduction_writers(WriterTable& t) {
  t[&def::reduce_sum] = reduce_sum;
  t[&def::reduce_max] = reduce_max;
  t[&def::reduce_min] = reduce_min;
  t[&def::reduce_prod] = reduce_prod;
  t[&def::reduce_and] = reduce_and;
  t[&def::reduce_or] = reduce_or;
  t[&def::reduce_xor] = reduce_xor;
  t[&def::argmax] = argmax;
  t[&def::argmin] = argmin;
  t[&def::cumsum] = cumsum;
  t[&def::cumprod] = cumprod;
  t[&def::cummax] = cummax;
  t[&def::cummin] = cummin;
  t[&def::cumlogsumexp] = cumlogsumexp;
  t[&def::reduce] = reduce;
  t[&def::reduce_window] = reduce_window;
  t[&def::reduce_window_sum] = reduce_window_sum;
  t[&def::reduce_window_max] = reduce_window_max;
  t[&def::reduce_window_min] = reduce_window_min;
  t[&def::select_and_scatter_add] = select_and_scatter_add;
  t[&def::select_and_gather_add] = select_and_gather_add;
}

}  // namespace tessera::hlo
