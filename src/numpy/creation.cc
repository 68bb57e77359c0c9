// SPDX-License-Identifier: Apache-2.0
#include "tessera/creation.h"

#include <cmath>
#include <numbers>
#include <numeric>

#include "base/index.h"
#include "numpy/placed.h"
#include "program/composite.h"
#include "tessera/elementary.h"
#include "tessera/lax.h"
#include "tessera/numpy.h"
#include "tessera/shaping.h"

namespace tessera {

using program::Arrays;
using program::composite;
using program::composites;

namespace {
// start + step * (0, 1, …), computed in at least float32.
Array progression(double start, double step, std::int64_t n, DType dtype, const Loc& loc) {
  return composite("arange", loc, {}, [&](const Arrays&) {
    const DType working = dtype == float16 || dtype == bfloat16 ? float32 : dtype;
    auto number = [&](double v) { return full({}, v, working); };
    Array x = is_complex(working) ? astype(iota(real_dtype(working), {n}), working) : iota(working, {n});
    if (step != 1) x = number(step) * x;
    if (start != 0) x = number(start) + x;
    return astype(x, dtype);
  });
}
std::int64_t steps(double start, double stop, double step) {
  if (step == 0) throw ValueError("arange: step = 0; expected another number");
  if (!std::isfinite(start) || !std::isfinite(stop) || !std::isfinite(step)) {
    throw ValueError(str("arange: start = ", start, ", stop = ", stop, ", step = ", step, "; expected finite numbers"));
  }
  return std::max<std::int64_t>(0, static_cast<std::int64_t>(std::ceil((stop - start) / step)));
}
}  // namespace

Array detail::float_range(double start, double stop, double step, DType dtype, const Loc& loc) {
  return progression(start, step, steps(start, stop, step), dtype, loc);
}
Array arange(std::int64_t stop, DType dtype, const Loc& loc) { return arange(0, stop, 1, dtype, loc); }
Array arange(std::int64_t start, std::int64_t stop, DType dtype, const Loc& loc) {
  return arange(start, stop, 1, dtype, loc);
}
Array arange(std::int64_t start, std::int64_t stop, std::int64_t step, DType dtype, const Loc& loc) {
  if (step == 0) throw ValueError("arange: step = 0; expected another number");
  // Exact where doubles are not: a distance is below 2^64.
  const bool up = step > 0;
  const auto distance = up ? static_cast<std::uint64_t>(stop) - static_cast<std::uint64_t>(start)
                           : static_cast<std::uint64_t>(start) - static_cast<std::uint64_t>(stop);
  const auto by = up ? static_cast<std::uint64_t>(step) : 0 - static_cast<std::uint64_t>(step);
  const bool any = up ? stop > start : stop < start;
  const std::uint64_t count = any ? (distance - 1) / by + 1 : 0;
  if (count > static_cast<std::uint64_t>(INT64_MAX)) {
    throw ValueError(str("arange: ", start, " to ", stop, " by ", step, " has more elements than an array can have"));
  }
  const auto n = static_cast<std::int64_t>(count);
  if (!is_integer(dtype)) return progression(static_cast<double>(start), static_cast<double>(step), n, dtype, loc);
  return composite("arange", loc, {}, [&](const Arrays&) {
    auto number = [&](std::int64_t v) { return astype(Array(HostArray::scalar(v)), dtype); };
    Array x = iota(dtype, {n});
    if (step != 1) x = number(step) * x;
    return start != 0 ? number(start) + x : x;
  });
}

// --- numbers between two ends -------------------------------------------------------------------------------------

namespace {
struct SpaceTypes {
  DType result, working;
};
SpaceTypes space_types(const char* name, const Arrays& ends, const SpaceOptions& o) {
  const DType own = o.dtype.value_or(program::inexact_dtype(program::common_type(name, ends).dtype));
  return {own, program::inexact_dtype(own)};
}

// Weighted means of both ends, as JAX computes them; the last is the end itself.
Array spaced(const Array& from, const Array& to, std::int64_t num, const SpaceOptions& o, DType working) {
  Shape shape = program::broadcast_shapes("linspace", {from.shape(), to.shape()});
  const std::int64_t axis = program::axis_of("linspace", o.axis, rank(shape) + 1);
  Array a = lax::expand_dims(broadcast_to(from, shape), {axis});
  Array b = lax::expand_dims(broadcast_to(to, shape), {axis});
  if (num == 1) return a;
  if (num == 0) return lax::slice_in_dim(a, 0, 0, 1, axis);
  const std::int64_t div = o.endpoint ? num - 1 : num;
  Shape line(shape.size() + 1, 1);
  line[at(axis)] = div;
  Array step = iota(real_dtype(working), line, axis) / static_cast<double>(div);
  step = program::as(step, working);
  Array out = a * (1 - step) + b * step;
  return o.endpoint ? concatenate({out, b}, axis) : out;
}
}  // namespace

Array linspace(const Operand& start, const Operand& stop, std::int64_t num, const SpaceOptions& o) {
  if (num < 0) throw ValueError(str("linspace: num = ", num, "; expected no negative count"));
  return composite("linspace", {start, stop}, [&](const Arrays& v) {
    auto [result, working] = space_types("linspace", v, o);
    Array out = spaced(program::as(v[0], working), program::as(v[1], working), num, o, working);
    return astype(is_integer(result) ? floor(out) : out, result);
  });
}
Array logspace(const Operand& start, const Operand& stop, std::int64_t num, double base, const SpaceOptions& o) {
  return composite("logspace", {start, stop}, [&](const Arrays& v) {
    auto [result, working] = space_types("logspace", v, o);
    SpaceOptions floats = o;
    floats.dtype = std::nullopt;
    return astype(power(base, linspace(program::as(v[0], working), program::as(v[1], working), num, floats)), result);
  });
}
Array geomspace(const Operand& start, const Operand& stop, std::int64_t num, const SpaceOptions& o) {
  return composite("geomspace", {start, stop}, [&](const Arrays& v) {
    auto [result, working] = space_types("geomspace", v, o);
    Array from = program::as(v[0], working);
    Array sign_of = sign(from);
    SpaceOptions inner = o;
    inner.dtype = working;
    inner.axis = 0;
    Array y = sign_of * logspace(log10(from / sign_of), log10(program::as(v[1], working) / sign_of), num, 10, inner);
    return astype(moveaxis(y, {0}, {o.axis}), result);
  });
}

// --- likes, diagonals ---------------------------------------------------------------------------------------------

Array asarray(const Operand& x, std::optional<DType> dtype) {
  Array a = x.array();
  if (dtype) a = is_integer(*dtype) ? program::meet("asarray", a, *dtype, false, x.loc()) : astype(x, *dtype);
  return arrays::materialize(a);
}
Array full_like(const Operand& x, const Operand& value, std::optional<DType> dtype) {
  return program::typed_as(program::type_of(x.array(), "full_like").sharding,
                           [&] { return full(x.array().shape(), value, dtype.value_or(x.array().dtype())); });
}
Array empty(const Shape& shape, DType dtype, const Loc& loc) { return zeros(shape, dtype, loc); }
Array empty_like(const Operand& x) { return zeros_like(x); }
Array identity(std::int64_t n, DType dtype, const Loc& loc) { return eye(n, std::nullopt, 0, dtype, loc); }

Array diag(const Operand& v, std::int64_t k) {
  const std::int64_t r = v.array().ndim();
  if (r == 2) return diagonal(v, k);
  if (r != 1) throw ValueError(str("diag: shape ", v.array().shape(), "; expected rank 1 or 2"));
  return composite("diag", {v}, [&](const Arrays& in) {
    const std::int64_t n = in[0].shape(0) + std::abs(k);
    Array zero = zeros({}, in[0].dtype());
    Array padded = lax::pad(in[0], zero, {{std::max<std::int64_t>(0, -k), std::max<std::int64_t>(0, k), 0}});
    return where(eye(n, std::nullopt, k, bool_), lax::expand_dims(padded, {1}), zero);
  });
}
Array diagflat(const Operand& v, std::int64_t k) {
  return composite("diagflat", {v}, [&](const Arrays& in) { return diag(ravel(in[0]), k); });
}
Array vander(const Operand& x, std::optional<std::int64_t> n, bool increasing) {
  if (x.array().ndim() != 1) throw ValueError(str("vander: shape ", x.array().shape(), "; expected rank 1"));
  const std::int64_t count = n.value_or(x.array().shape(0));
  if (count < 0) throw ValueError(str("vander: n = ", count, "; expected no negative count"));
  return composite("vander", {x}, [&](const Arrays& v) {
    const DType t = v[0].dtype();
    Array powers = iota(real_dtype(t), {1, count}, 1);
    if (!increasing) powers = lax::rev(powers, {1});
    return power(lax::expand_dims(v[0], {1}), astype(powers, t));
  });
}

// --- grids --------------------------------------------------------------------------------------------------------

std::vector<Array> meshgrid(const std::vector<Array>& axes, const MeshgridOptions& o, const Loc& loc) {
  return composites("meshgrid", loc, axes, [&](const Arrays& v) {
    Shape shape;
    for (const auto& a : v) {
      if (a.ndim() != 1) throw ValueError(str("meshgrid: an axis has shape ", a.shape(), "; expected rank 1"));
      shape.push_back(o.sparse ? 1 : a.shape(0));
    }
    const bool swap = !o.matrix_indexing && v.size() >= 2;
    if (swap) std::swap(shape[0], shape[1]);
    Arrays out;
    for (std::size_t i = 0; i < v.size(); ++i) {
      const std::size_t d = swap && i < 2 ? 1 - i : i;
      Shape own = shape;
      own[d] = v[i].shape(0);
      out.push_back(broadcast_in_dim(v[i], own, {static_cast<std::int64_t>(d)}));
    }
    return out;
  });
}
Array indices(const Shape& shape, DType dtype, const Loc& loc) {
  return composite("indices", loc, {}, [&](const Arrays&) {
    Arrays out;
    for (std::int64_t d = 0; d < rank(shape); ++d) out.push_back(iota(dtype, shape, d));
    return out.empty() ? zeros({0}, dtype) : stack(out);
  });
}
Array fromfunction(const std::function<Array(const std::vector<Array>&)>& f, const Shape& shape, DType dtype,
                   const Loc& loc) {
  Arrays coordinates;
  for (std::int64_t d = 0; d < rank(shape); ++d) coordinates.push_back(iota(dtype, shape, d, loc));
  return f(coordinates);
}

namespace {
// Known now: written down rather than computed.
std::pair<Array, Array> triangle_indices(std::int64_t n, std::int64_t m, bool (*inside)(std::int64_t, std::int64_t),
                                         std::int64_t k) {
  std::vector<std::int32_t> rows;
  std::vector<std::int32_t> columns;
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t j = 0; j < m; ++j) {
      if (!inside(j - i, k)) continue;
      rows.push_back(static_cast<std::int32_t>(i));
      columns.push_back(static_cast<std::int32_t>(j));
    }
  }
  return {Array(HostArray::from(rows)), Array(HostArray::from(columns))};
}
}  // namespace

std::pair<Array, Array> tril_indices(std::int64_t n, std::int64_t k, std::optional<std::int64_t> m, const Loc&) {
  return triangle_indices(
      n, m.value_or(n), [](std::int64_t d, std::int64_t at) { return d <= at; }, k);
}
std::pair<Array, Array> triu_indices(std::int64_t n, std::int64_t k, std::optional<std::int64_t> m, const Loc&) {
  return triangle_indices(
      n, m.value_or(n), [](std::int64_t d, std::int64_t at) { return d >= at; }, k);
}
std::vector<Array> diag_indices(std::int64_t n, std::int64_t ndim, const Loc& loc) {
  return std::vector<Array>(at(ndim), arange(n, loc));
}

// --- windows ------------------------------------------------------------------------------------------------------

namespace {
Array window(const char* name, std::int64_t n, const Loc& loc, const std::function<Array(const Array&, double)>& f) {
  if (n < 0) throw ValueError(str(name, ": n = ", n, "; expected no negative count"));
  if (n <= 1) return ones({n}, float32, loc);
  return composite(name, loc, {}, [&](const Arrays&) { return f(iota(float32, {n}), static_cast<double>(n - 1)); });
}
}  // namespace

Array bartlett(std::int64_t n, const Loc& loc) {
  return window("bartlett", n, loc, [](const Array& i, double last) { return 1 - abs(2 * i - last) / last; });
}
Array blackman(std::int64_t n, const Loc& loc) {
  return window("blackman", n, loc, [](const Array& i, double last) {
    Array t = 2 * std::numbers::pi * i / last;
    return 0.42 - 0.5 * cos(t) + 0.08 * cos(2 * t);
  });
}
Array hamming(std::int64_t n, const Loc& loc) {
  return window("hamming", n, loc,
                [](const Array& i, double last) { return 0.54 - 0.46 * cos(2 * std::numbers::pi * i / last); });
}
Array hanning(std::int64_t n, const Loc& loc) {
  return window("hanning", n, loc,
                [](const Array& i, double last) { return 0.5 * (1 - cos(2 * std::numbers::pi * i / last)); });
}
Array kaiser(std::int64_t n, double beta, const Loc& loc) {
  return window("kaiser", n, loc, [&](const Array& i, double last) {
    Array t = (i - last / 2) / (last / 2);
    return i0(beta * sqrt(1 - square(t))) / i0(beta);
  });
}

}  // namespace tessera
