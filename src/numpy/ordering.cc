// SPDX-License-Identifier: Apache-2.0
// Sorting, arg-reductions, running and windowed reductions.
#include <algorithm>

#include "numpy/lax/window_options.h"
#include "numpy/placed.h"
#include "ops/reduce/sorting.h"
#include "ops/shared_attrs.h"
#include "program/composite.h"
#include "program/graph_fragment.h"
#include "tessera/lax.h"
#include "tessera/numpy.h"

namespace tessera {

using ir::Builder;
using ir::Value;
using ir::Values;
using program::graph_fragment;
using program::graph_fragment1;
using program::on;

namespace program {
ops::Window window_of(const char* name, const Shape& shape, const Dims& window, const lax::WindowOptions& o) {
  auto r = shape.size();
  auto fit = [&](const char* what, const Dims& v, std::int64_t otherwise) {
    if (v.empty()) return Dims(r, otherwise);
    if (v.size() != r)
      throw ValueError(str(name, ": ", what, " ", v, " for shape ", shape, "; expected one entry a dimension"));
    return v;
  };
  ops::Window w;
  w.dimensions = fit("window", window, 1);
  w.strides = fit("strides", o.strides, 1);
  w.base_dilation = fit("base_dilation", o.base_dilation, 1);
  w.window_dilation = fit("window_dilation", o.window_dilation, 1);
  w.low = Dims(r, 0);
  w.high = Dims(r, 0);
  if (o.same && !o.padding.empty()) throw ValueError(str(name, ": both same and padding are given; expected one"));
  if (!o.padding.empty() && o.padding.size() != r) {
    throw ValueError(
        str(name, ": padding has ", o.padding.size(), " entries for shape ", shape, "; expected one a dimension"));
  }
  for (std::size_t d = 0; d < o.padding.size(); ++d) {
    if (o.padding[d].interior != 0) {
      throw ValueError(str(name, ": padding[", d, "].interior = ", o.padding[d].interior,
                           "; expected 0 (base_dilation puts space between elements)"));
    }
    w.low[d] = o.padding[d].low;
    w.high[d] = o.padding[d].high;
  }
  for (std::size_t d = 0; d < r && o.same; ++d) {
    std::int64_t n = shape[d] == 0 ? 0 : (shape[d] - 1) * w.base_dilation[d] + 1;
    std::int64_t reach = (w.dimensions[d] - 1) * w.window_dilation[d] + 1;
    std::int64_t out = (n + w.strides[d] - 1) / w.strides[d];
    std::int64_t total = std::max<std::int64_t>(0, (out - 1) * w.strides[d] + reach - n);
    w.low[d] = total / 2;
    w.high[d] = total - total / 2;
  }
  return w;
}
}  // namespace program

namespace lax {

namespace {
using Cumulative = Value (*)(Value, std::int64_t, bool);
Array cumulative(const char* name, Cumulative f, const Operand& x, std::int64_t axis, bool reverse) {
  std::int64_t d = program::axis_of(name, axis, x.array().ndim());
  return graph_fragment1(name, x.loc(), {x.array()}, [&](Builder&, const Values& v) { return f(v[0], d, reverse); });
}
using ArgReduce = Value (*)(Value, std::int64_t, DType);
Array arg_reduce(const char* name, ArgReduce f, const Operand& x, std::int64_t axis, DType index_dtype) {
  std::int64_t d = program::axis_of(name, axis, x.array().ndim());
  return graph_fragment1(name, x.loc(), {x.array()},
                         [&](Builder&, const Values& v) { return f(v[0], d, index_dtype); });
}

using Windowed = Value (*)(Value, const ops::Window&);
Array windowed(const char* name, Windowed f, const Operand& x, const Dims& window, const WindowOptions& o) {
  ops::Window w = program::window_of(name, x.array().shape(), window, o);
  return graph_fragment1(name, x.loc(), {x.array()}, [&](Builder&, const Values& v) { return f(v[0], w); });
}
}  // namespace

Array argmax(const Operand& x, std::int64_t axis, DType t) { return arg_reduce("argmax", ops::argmax, x, axis, t); }
Array argmin(const Operand& x, std::int64_t axis, DType t) { return arg_reduce("argmin", ops::argmin, x, axis, t); }
Array cumsum(const Operand& x, std::int64_t axis, bool r) { return cumulative("cumsum", ops::cumsum, x, axis, r); }
Array cumprod(const Operand& x, std::int64_t axis, bool r) { return cumulative("cumprod", ops::cumprod, x, axis, r); }
Array cummax(const Operand& x, std::int64_t axis, bool r) { return cumulative("cummax", ops::cummax, x, axis, r); }
Array cummin(const Operand& x, std::int64_t axis, bool r) { return cumulative("cummin", ops::cummin, x, axis, r); }
Array cumlogsumexp(const Operand& x, std::int64_t axis, bool r) {
  return cumulative("cumlogsumexp", ops::cumlogsumexp, x, axis, r);
}
Array reduce_window_sum(const Operand& x, const Dims& w, const WindowOptions& o) {
  return windowed("reduce_window_sum", ops::reduce_window_sum, x, w, o);
}
Array reduce_window_max(const Operand& x, const Dims& w, const WindowOptions& o) {
  return windowed("reduce_window_max", ops::reduce_window_max, x, w, o);
}
Array reduce_window_min(const Operand& x, const Dims& w, const WindowOptions& o) {
  return windowed("reduce_window_min", ops::reduce_window_min, x, w, o);
}

std::vector<Array> sort(const std::vector<Array>& operands, std::int64_t dimension, std::int64_t num_keys, bool stable,
                        const Loc& loc) {
  if (operands.empty()) throw ValueError("sort: operands is empty; expected at least one array");
  std::int64_t d = program::axis_of("sort", dimension, operands[0].ndim());
  return program::graph_fragment_as_given("sort", loc, operands,
                                          [&](Builder&, const Values& v) { return ops::sort(v, d, num_keys, stable); });
}
std::pair<Array, Array> top_k(const Operand& x, std::int64_t k, std::int64_t axis) {
  std::int64_t d = program::axis_of("top_k", axis, x.array().ndim());
  auto out =
      graph_fragment("top_k", x.loc(), {x.array()}, [&](Builder&, const Values& v) { return ops::top_k(v[0], k, d); });
  return {out[0], out[1]};
}

}  // namespace lax

namespace {
using LaxArg = Array (*)(const Operand&, std::int64_t, DType);
Array arg_reduce(const char* name, LaxArg f, const Operand& x, std::optional<std::int64_t> axis, bool keepdims) {
  Array a = x.array();
  const Shape shape = a.shape();
  if (!axis) a = ravel(x);
  std::int64_t d = axis ? program::axis_of(name, *axis, rank(shape)) : 0;
  if (a.shape(d) == 0) throw ValueError(str(name, ": axis ", d, " of shape ", shape, " is empty"));
  Array y = f(on(a, x.loc()), d, int32);
  if (!keepdims) return y;
  Shape kept = shape;
  for (std::size_t k = 0; k < kept.size(); ++k) {
    if (!axis || static_cast<std::int64_t>(k) == d) kept[k] = 1;
  }
  return reshape(on(y, x.loc()), kept);
}
// Bool is summed in 32 bits; small integers are not, as in JAX.
Array widened(const Operand& x) {
  return is_bool(x.array().dtype()) ? program::cast(x.array(), int32, false, x.loc()) : x.array();
}
}  // namespace

namespace {
// The elements of an operand that is scanned through all dimensions.
Array flat(const char* name, const Array& x, const Loc& loc) {
  if (program::is_split(program::checked_sharding(x, name))) {
    throw ShardingTypeError(str(name, ": without an axis the operand must be replicated (unsharded); it is ",
                                program::type_of(x, name), ". Reshard it, or give an axis that is not split"));
  }
  return ravel(on(x, loc));
}
}  // namespace

Array argmax(const Operand& x, std::optional<std::int64_t> axis, bool keepdims) {
  return arg_reduce("argmax", lax::argmax, x, axis, keepdims);
}
Array argmin(const Operand& x, std::optional<std::int64_t> axis, bool keepdims) {
  return arg_reduce("argmin", lax::argmin, x, axis, keepdims);
}
Array cumsum(const Operand& x, std::optional<std::int64_t> axis) {
  Array a = widened(x);
  return axis ? lax::cumsum(on(a, x.loc()), *axis) : lax::cumsum(on(flat("cumsum", a, x.loc()), x.loc()), 0);
}
Array cumprod(const Operand& x, std::optional<std::int64_t> axis) {
  Array a = widened(x);
  return axis ? lax::cumprod(on(a, x.loc()), *axis) : lax::cumprod(on(flat("cumprod", a, x.loc()), x.loc()), 0);
}

Array sort(const Operand& x, std::int64_t axis, bool descending) {
  std::int64_t d = program::axis_of("sort", axis, x.array().ndim());
  Array y = lax::sort({x.array()}, d, 1, true, x.loc())[0];
  return descending ? lax::rev(on(y, x.loc()), {d}) : y;
}
Array argsort(const Operand& x, std::int64_t axis, bool descending) {
  const Loc& loc = x.loc();
  std::int64_t d = program::axis_of("argsort", axis, x.array().ndim());
  std::int64_t n = x.array().shape(d);
  Array order = program::graph_fragment_as_given("argsort", loc, {x.array()}, [&](Builder& b, const Values& v) {
    // Sorting the reversed array and reversing back keeps equal elements in their order.
    const Value keys = descending ? ops::rev(v[0], {d}) : v[0];
    const Value places = program::split_like(keys, ops::iota(b, DType::I32, keys.shape(), d));
    return Values{ops::sort(Values{keys, places}, d, 1, true)[1]};
  })[0];
  if (!descending) return order;
  return subtract(Operand(n - 1, loc), on(lax::rev(on(order, loc), {d}), loc));
}
namespace {
// Before in the order of sort: NaN behind everything, complex numbers by real, then imaginary part.
Array before(const Array& x, const Array& y) {
  if (!is_complex(x.dtype())) return is_float(x.dtype()) ? (x < y) | (isnan(y) & ~isnan(x)) : x < y;
  Array a = real(x);
  Array b = real(y);
  return before(a, b) | (~before(b, a) & before(imag(x), imag(y)));
}
}  // namespace

Array searchsorted(const Operand& sorted, const Operand& v, bool right) {
  if (sorted.array().ndim() != 1)
    throw ValueError(str("searchsorted: sorted has shape ", sorted.array().shape(), "; expected rank 1"));
  return program::composite("searchsorted", {sorted, v}, [&](const std::vector<Array>& in) {
    const ir::TypeShardingPtr wanted = program::checked_sharding(in[1], "searchsorted");
    if (program::is_split(wanted)) {
      throw UnimplementedError(str("searchsorted: v is ", program::type_of(in[1], "searchsorted"),
                                   "; expected it unsplit: reshard it, or call inside auto_axes"));
    }
    return program::typed_as(wanted, [&] {
      std::vector<Array> p = program::promoted("searchsorted", in);
      const std::int64_t n = p[0].shape(0);
      Array place = zeros(p[1].shape(), int32);
      if (n == 0) return place;
      // How many elements stand in front, bit by bit from the highest.
      std::int64_t bit = 1;
      while (2 * bit <= n) bit *= 2;
      for (; bit > 0; bit /= 2) {
        Array next = place + bit;
        Array element = take(p[0], next - 1, 0, TakeMode::Clip);
        Array in_front = right ? ~before(p[1], element) : before(element, p[1]);
        place = where((next <= n) & in_front, next, place);
      }
      return place;
    });
  });
}

}  // namespace tessera
