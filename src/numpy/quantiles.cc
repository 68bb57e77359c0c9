// SPDX-License-Identifier: Apache-2.0
#include <limits>
#include <numeric>

#include "program/composite.h"
#include "tessera/lax.h"
#include "tessera/statistics.h"

namespace tessera {

using program::Arrays;
using program::composite;
using program::kNaN;

namespace {

// The reduced axes as one, the last.
Array flattened(const Array& x, const Dims& axes) {
  Dims order;
  Shape shape;
  std::int64_t n = 1;
  for (std::int64_t d = 0; d < x.ndim(); ++d) {
    if (std::find(axes.begin(), axes.end(), d) == axes.end()) {
      order.push_back(d);
      shape.push_back(x.shape(d));
    }
  }
  for (auto d : axes) {
    order.push_back(d);
    n *= x.shape(d);
  }
  shape.push_back(n);
  return reshape(transpose(x, order), shape);
}

// Elements of sorted rows at numbers of shape q + rows; q stands in front.
Array elements_at(const Array& rows, const Array& places) {
  const std::int64_t q = places.ndim() - (rows.ndim() - 1);
  if (q == 0)
    return lax::squeeze(take_along_axis(rows, lax::expand_dims(places, {rows.ndim() - 1}), -1), {rows.ndim() - 1});
  return moveaxis(take_along_axis(rows, moveaxis(places, {0}, {rows.ndim() - 1}), -1), {rows.ndim() - 1}, {0});
}

Array by_interpolation(const Array& rows, const Array& q, const Array& counts, QuantileMethod method) {
  const std::int64_t r = rows.ndim() - 1;
  // Positions of shape q + rows.
  Dims behind(static_cast<std::size_t>(r));
  std::iota(behind.begin(), behind.end(), q.ndim());
  Array last = program::with_leading(counts, q.ndim()) - 1;
  Array position = lax::expand_dims(q, behind) * last;
  Array low = floor(position);
  Array high = ceil(position);
  Array high_weight = position - low;
  Array low_weight = 1 - high_weight;
  auto value = [&](const Array& at) {
    Array inside = maximum(minimum(at, last), 0);
    Shape shape = q.shape();
    shape.insert(shape.end(), rows.shape().begin(), rows.shape().end() - 1);
    return elements_at(rows, astype(broadcast_to(inside, shape), int32));
  };
  switch (method) {
    case QuantileMethod::Lower:
      return value(low);
    case QuantileMethod::Higher:
      return value(high);
    case QuantileMethod::Nearest:
      return where(high_weight <= 0.5, value(low), value(high));
    case QuantileMethod::Midpoint:
      return (value(low) + value(high)) * 0.5;
    default:
      return astype(value(low), q.dtype()) * low_weight + astype(value(high), q.dtype()) * high_weight;
  }
}

// The first element at which the share of elements reaches q.
Array by_distribution(const Array& rows, const Array& q, const Array& counts) {
  const std::int64_t r = rows.ndim() - 1;
  Dims behind(static_cast<std::size_t>(r));
  std::iota(behind.begin(), behind.end(), q.ndim());
  Array target = lax::expand_dims(q, behind) * program::with_leading(counts, q.ndim());
  Array place = clip(ceil(target) - 1, 0, program::with_leading(counts, q.ndim()) - 1);
  Shape shape = q.shape();
  shape.insert(shape.end(), rows.shape().begin(), rows.shape().end() - 1);
  return elements_at(rows, astype(broadcast_to(place, shape), int32));
}

Array quantiles(const char* name, const Operand& x, const Operand& q, const QuantileOptions& o, bool skip_nan) {
  return composite(name, {x, q}, [&](const Arrays& v) {
    if (is_complex(v[0].dtype())) throw TypeError(str(name, ": x is complex; expected a real dtype"));
    if (v[1].ndim() > 1) throw ValueError(str(name, ": q has shape ", v[1].shape(), "; expected rank 0 or 1"));
    Array a = program::promoted(name, {v[0]}, true)[0];
    // Shares have at least x's digits; weak ones take x's dtype, halves are interpolated in float32.
    Array share = program::promoted(name, {v[1]}, true)[0];
    const bool halves = share.weak_type() && dtype_size(a.dtype()) < 4;
    share = program::as(share, halves              ? float32
                               : share.weak_type() ? a.dtype()
                                                   : promote_types(share.dtype(), a.dtype()));
    const Dims axes = program::axes_of(name, o.axis, a.ndim());
    Array rows = flattened(a, axes);
    const std::int64_t r = rows.ndim() - 1;
    Array nan = program::number_like(rows, kNaN);
    if (!skip_nan) rows = where(any(isnan(rows), {.axis = Dims{r}, .keepdims = true}), nan, rows);
    rows = sort(rows, r);
    Array counts = skip_nan ? sum(~isnan(rows), {.axis = Dims{r}, .dtype = share.dtype()})
                            : full({}, rows.shape(r), share.dtype());
    Array y =
        o.method == QuantileMethod::InvertedCdf
            ? by_distribution(rows, share, broadcast_to(counts, Shape(rows.shape().begin(), rows.shape().end() - 1)))
            : by_interpolation(rows, share, broadcast_to(counts, Shape(rows.shape().begin(), rows.shape().end() - 1)),
                               o.method);
    y = program::cast(y, a.dtype(), a.weak_type() && y.weak_type(), Loc::current());
    if (!o.keepdims) return y;
    Shape kept = share.shape();
    for (std::int64_t d = 0; d < a.ndim(); ++d) {
      kept.push_back(std::find(axes.begin(), axes.end(), d) == axes.end() ? a.shape(d) : 1);
    }
    return reshape(y, kept);
  });
}

Operand hundredth(const Operand& q) {
  return Operand(program::composite("percentile", {q}, [](const Arrays& v) { return v[0] / 100; }), q.loc());
}
QuantileOptions middle(const MedianOptions& o) {
  return {.axis = o.axis, .method = QuantileMethod::Midpoint, .keepdims = o.keepdims};
}

}  // namespace

Array quantile(const Operand& x, const Operand& q, const QuantileOptions& o) {
  return quantiles("quantile", x, q, o, false);
}
Array nanquantile(const Operand& x, const Operand& q, const QuantileOptions& o) {
  return quantiles("nanquantile", x, q, o, true);
}
Array percentile(const Operand& x, const Operand& q, const QuantileOptions& o) {
  return quantiles("percentile", x, hundredth(q), o, false);
}
Array nanpercentile(const Operand& x, const Operand& q, const QuantileOptions& o) {
  return quantiles("nanpercentile", x, hundredth(q), o, true);
}
Array median(const Operand& x, const MedianOptions& o) {
  return quantiles("median", x, Operand(0.5, x.loc()), middle(o), false);
}
Array nanmedian(const Operand& x, const MedianOptions& o) {
  return quantiles("nanmedian", x, Operand(0.5, x.loc()), middle(o), true);
}

}  // namespace tessera
