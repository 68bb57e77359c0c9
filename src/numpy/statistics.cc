// SPDX-License-Identifier: Apache-2.0
#include "tessera/statistics.h"

#include <algorithm>
#include <limits>

#include "numpy/reduction_functions.h"
#include "program/composite.h"
#include "tessera/calculus.h"
#include "tessera/creation.h"
#include "tessera/elementary.h"
#include "tessera/indexing.h"
#include "tessera/lax.h"
#include "tessera/products.h"
#include "tessera/sets.h"
#include "tessera/shaping.h"

namespace tessera {

using program::Arrays;
using program::composite;
using program::composites;
using program::kInfinity;
using program::kNaN;
using program::number_like;
using program::promoted;

namespace {}  // namespace

// --- averages -----------------------------------------------------------------------------------------------------

namespace {
// (average, sum of weights).
Arrays averages(const Arrays& v, const AverageOptions& o) {
  if (v.size() == 1) {
    Array m = mean(promoted("average", v, true)[0], {.axis = o.axis, .keepdims = o.keepdims});
    double n = 1;
    for (auto d : program::axes_of("average", o.axis, v[0].ndim())) n *= static_cast<double>(v[0].shape(d));
    return {m, full({}, n, m.dtype())};
  }
  Arrays p = promoted("average", v, true);
  Array w = p[1];
  if (w.shape() != p[0].shape()) {
    const Dims axes = program::axes_of("average", o.axis, p[0].ndim());
    Shape own;
    Shape wide(p[0].shape().size(), 1);
    for (auto d : axes) {
      own.push_back(p[0].shape(d));
      wide[static_cast<std::size_t>(d)] = p[0].shape(d);
    }
    if (!o.axis || w.shape() != own) {
      throw ValueError(str("average: weights have shape ", w.shape(), "; expected ", p[0].shape(), ", or ", own,
                           " along the given axes"));
    }
    w = reshape(w, wide);
  }
  const ReduceOptions r{.axis = o.axis, .keepdims = o.keepdims};
  Array total = sum(w, r);
  return {sum(p[0] * w, r) / total, total};
}
}  // namespace

Array average(const Operand& x, const std::optional<Array>& weights, const AverageOptions& o) {
  Arrays in{x.array()};
  if (weights) in.push_back(*weights);
  return composite("average", x.loc(), in, [&](const Arrays& v) { return averages(v, o)[0]; });
}
Array ptp(const Operand& x, const ReduceOptions& o) {
  program::only("ptp", o, program::Takes::Neither);
  return composite("ptp", {x}, [&](const Arrays& v) { return max(v[0], o) - min(v[0], o); });
}
Array count_nonzero(const Operand& x, const ReduceOptions& o) {
  program::only("count_nonzero", o, program::Takes::Neither);
  ReduceOptions as_int = o;
  as_int.dtype = int32;
  return composite("count_nonzero", {x}, [&](const Arrays& v) { return sum(v[0] != zeros({}, v[0].dtype()), as_int); });
}

// --- without NaN --------------------------------------------------------------------------------------------------

namespace {
using Reduction = Array (*)(const Operand&, const ReduceOptions&);
Array without_nan(const char* name, Reduction f, double fill, bool nan_if_none, const Operand& x,
                  const ReduceOptions& o) {
  return composite(name, {x}, [&](const Arrays& v) {
    if (!is_inexact(v[0].dtype())) return f(v[0], o);
    Array gone = isnan(v[0]);
    Array y = f(where(gone, number_like(v[0], fill), v[0]), o);
    if (!nan_if_none) return y;
    return where(all(gone, {.axis = o.axis, .keepdims = o.keepdims}), number_like(y, kNaN), y);
  });
}
}  // namespace

Array nansum(const Operand& x, const ReduceOptions& o) { return without_nan("nansum", sum, 0, false, x, o); }
Array nanprod(const Operand& x, const ReduceOptions& o) { return without_nan("nanprod", prod, 1, false, x, o); }
Array nanmax(const Operand& x, const ReduceOptions& o) { return without_nan("nanmax", max, -kInfinity, true, x, o); }
Array nanmin(const Operand& x, const ReduceOptions& o) { return without_nan("nanmin", min, kInfinity, true, x, o); }
Array nanmean(const Operand& x, const ReduceOptions& o) {
  program::only("nanmean", o, program::Takes::Where);
  return composite("nanmean", {x}, [&](const Arrays& v) {
    if (!is_inexact(v[0].dtype())) return mean(v[0], o);
    const DType own = o.dtype.value_or(v[0].dtype());
    ReduceOptions r = o;
    // The largest count of a half is small.
    r.dtype = own == float16 || own == bfloat16 ? float32 : own;
    return program::as(nansum(v[0], r) / sum(~isnan(v[0]), r), own);
  });
}
Array nanvar(const Operand& x, const VarOptions& o) {
  return composite("nanvar", {x}, [&](const Arrays& v) {
    Array a = promoted("nanvar", v, true)[0];
    if (o.dtype) a = program::cast(a, *o.dtype, false, Loc::current());
    const DType own = a.dtype();
    if (own == float16 || own == bfloat16) a = program::as(a, float32);
    Array gone = isnan(a);
    const ReduceOptions along{.axis = o.axis, .keepdims = true, .where = o.where};
    const Array centre =
        o.mean ? program::cast(o.mean->array(), a.dtype(), a.weak_type(), Loc::current()) : nanmean(a, along);
    Array centred = where(gone, number_like(a, 0), a - centre);
    Array squares = is_complex(own) ? real(centred * conj(centred)) : square(centred);
    const ReduceOptions kept{.axis = o.axis, .keepdims = o.keepdims, .dtype = squares.dtype(), .where = o.where};
    Array n = sum(~gone, kept) - o.ddof;
    Array result = sum(squares, kept);
    result = where(n > 0, result / where(n > 0, n, 1), number_like(result, kNaN));
    return is_complex(own) ? result : program::cast(result, own, v[0].weak_type() && !o.dtype, Loc::current());
  });
}
Array nanstd(const Operand& x, const VarOptions& o) {
  return composite("nanstd", {x}, [&](const Arrays& v) { return sqrt(nanvar(v[0], o)); });
}

namespace {
using ArgReduction = Array (*)(const Operand&, std::optional<std::int64_t>, bool);
Array arg_without_nan(const char* name, ArgReduction f, double fill, const Operand& x, std::optional<std::int64_t> axis,
                      bool keepdims) {
  return composite(name, {x}, [&](const Arrays& v) {
    if (!is_inexact(v[0].dtype())) return f(v[0], axis, keepdims);
    Array gone = isnan(v[0]);
    Array y = f(where(gone, number_like(v[0], fill), v[0]), axis, keepdims);
    ReduceOptions o{.keepdims = keepdims};
    if (axis) o.axis = Dims{*axis};
    return where(all(gone, o), -1, y);
  });
}
using Running = Array (*)(const Operand&, std::optional<std::int64_t>);
Array running_without_nan(const char* name, Running f, double fill, const Operand& x,
                          std::optional<std::int64_t> axis) {
  return composite(name, {x}, [&](const Arrays& v) {
    return f(is_inexact(v[0].dtype()) ? where(isnan(v[0]), number_like(v[0], fill), v[0]) : v[0], axis);
  });
}
}  // namespace

Array nanargmax(const Operand& x, std::optional<std::int64_t> axis, bool keepdims) {
  return arg_without_nan("nanargmax", argmax, -kInfinity, x, axis, keepdims);
}
Array nanargmin(const Operand& x, std::optional<std::int64_t> axis, bool keepdims) {
  return arg_without_nan("nanargmin", argmin, kInfinity, x, axis, keepdims);
}
Array nancumsum(const Operand& x, std::optional<std::int64_t> axis) {
  return running_without_nan("nancumsum", cumsum, 0, x, axis);
}
Array nancumprod(const Operand& x, std::optional<std::int64_t> axis) {
  return running_without_nan("nancumprod", cumprod, 1, x, axis);
}

namespace {
Array cumulative(const char* name, Running f, double initial, bool widen, const Operand& x,
                 const CumulativeOptions& o) {
  const std::int64_t r = x.array().ndim();
  if (r != 1 && !o.axis)
    throw ValueError(str(name, ": shape ", x.array().shape(), " without an axis; expected rank 1"));
  const std::int64_t d = program::axis_of(name, o.axis.value_or(0), r);
  return composite(name, {x}, [&](const Arrays& v) {
    const DType own = v[0].dtype();
    // Sums of narrow integers are widened as those of `sum`.
    const DType wide = own == int8 || own == int16 ? int32 : own == uint8 || own == uint16 ? uint32 : own;
    Array y =
        f(program::cast(v[0], o.dtype.value_or(widen ? wide : own), v[0].weak_type() && !o.dtype, Loc::current()), d);
    if (!o.include_initial) return y;
    Shape one = y.shape();
    one[static_cast<std::size_t>(d)] = 1;
    return concatenate({full(one, initial, y.dtype()), y}, d);
  });
}
}  // namespace

Array cumulative_sum(const Operand& x, const CumulativeOptions& o) {
  return cumulative("cumulative_sum", cumsum, 0, true, x, o);
}
Array cumulative_prod(const Operand& x, const CumulativeOptions& o) {
  return cumulative("cumulative_prod", cumprod, 1, false, x, o);
}

// --- covariance ---------------------------------------------------------------------------------------------------

namespace {
Array weights_of(const Arrays& v, const CovOptions& o, std::int64_t n) {
  Array w;
  std::size_t next = o.y ? 2 : 1;
  for (const auto& [given, name] : {std::pair{&o.fweights, "fweights"}, std::pair{&o.aweights, "aweights"}}) {
    if (!*given) continue;
    const Array& one = v[next++];
    if (one.shape() != Shape{n})
      throw ValueError(str("cov: ", name, " have shape ", one.shape(), "; expected (", n, ",)"));
    if (given == &o.fweights && !is_integer(one.dtype())) throw TypeError("cov: fweights are not integers");
    w = w.defined() ? w * abs(one) : abs(one);
  }
  return w;
}
Array covariance(const Arrays& v, const CovOptions& o) {
  Arrays p = promoted("cov", o.y ? Arrays{v[0], v[1]} : Arrays{v[0]}, true);
  for (const auto& a : p) {
    if (a.ndim() > 2) throw ValueError(str("cov: shape ", a.shape(), "; expected at most rank 2"));
  }
  auto variables = [&](const Array& a) {
    Array x = atleast_2d(a);
    return !o.rowvar && x.shape(0) != 1 ? transpose(x) : x;
  };
  Array x = !o.rowvar && p[0].ndim() != 1 ? transpose(atleast_2d(p[0])) : atleast_2d(p[0]);
  if (o.y) x = concatenate({x, variables(p[1])}, 0);
  const std::int64_t n = x.shape(1);
  const double ddof = static_cast<double>(o.ddof.value_or(o.bias ? 0 : 1));
  Array w = weights_of(v, o, n);
  Array scaled;
  Array divisor(static_cast<double>(n) - ddof);
  if (w.defined()) {
    w = program::as(w, program::inexact_dtype(program::common_type("cov", {x, w}).dtype));
    Array total = sum(w);
    x = x - lax::expand_dims(sum(x * w, 1) / total, {1});
    scaled = x * w;
    divisor = ddof == 0 ? total : total - ddof;
    if (ddof != 0 && o.aweights) divisor = total - ddof * sum(w * abs(v.back())) / total;
  } else {
    x = x - mean(x, {.axis = Dims{1}, .keepdims = true});
    scaled = x;
  }
  return squeeze(matmul(x, conj(transpose(scaled))) / divisor);
}
Arrays inputs(const Operand& m, const CovOptions& o) {
  Arrays in{m.array()};
  for (const auto* more : {&o.y, &o.fweights, &o.aweights}) {
    if (*more) in.push_back(**more);
  }
  return in;
}
}  // namespace

Array cov(const Operand& m, const CovOptions& o) {
  return composite("cov", m.loc(), inputs(m, o), [&](const Arrays& v) { return covariance(v, o); });
}
Array corrcoef(const Operand& x, const CovOptions& o) {
  return composite("corrcoef", x.loc(), inputs(x, o), [&](const Arrays& v) {
    Array c = covariance(v, o);
    if (c.ndim() == 0) return c / c;
    Array deviation = program::as(sqrt(real(diag(c))), c.dtype());
    c = c / lax::expand_dims(deviation, {1}) / deviation;
    if (!is_complex(c.dtype())) return clip(c, -1, 1);
    return complex(clip(real(c), -1, 1), clip(imag(c), -1, 1));
  });
}

// --- counting -----------------------------------------------------------------------------------------------------

Array bincount(const Operand& x, const BincountOptions& o) {
  Array a = is_bool(x.array().dtype()) ? program::cast(x.array(), int32, false, x.loc()) : x.array();
  if (!is_integer(a.dtype()))
    throw TypeError(str("bincount: x has dtype ", dtype_name(a.dtype()), "; expected integers"));
  if (a.ndim() != 1) throw ValueError(str("bincount: x has shape ", a.shape(), "; expected rank 1"));
  if (o.weights && o.weights->shape() != a.shape()) {
    throw ValueError(str("bincount: weights have shape ", o.weights->shape(), "; expected ", a.shape()));
  }
  std::int64_t length = o.length.value_or(0);
  if (!o.length) {
    std::int64_t largest = -1;  // read now, which throws under a trace
    HostArray values = a.host(x.loc()).astype(int64);
    for (auto i : values.span<std::int64_t>()) largest = std::max(largest, i);
    length = std::max(o.minlength, largest + 1);
    if (a.size() > 0) length = std::max<std::int64_t>(length, 1);
  }
  Arrays in{a};
  if (o.weights) in.push_back(*o.weights);
  return composite("bincount", x.loc(), in, [&](const Arrays& v) {
    Array none = zeros({length}, v.size() > 1 ? v[1].dtype() : int32);
    Array w = v.size() > 1 ? v[1] : ones(v[0].shape(), int32);
    return at(none, {maximum(v[0], zeros({}, v[0].dtype()))}).add(w, {.mode = IndexMode::FillOrDrop});
  });
}
Array digitize(const Operand& x, const Operand& bins, bool right) {
  return composite("digitize", {x, bins}, [&](const Arrays& v) {
    if (v[1].ndim() != 1) throw ValueError(str("digitize: bins have shape ", v[1].shape(), "; expected rank 1"));
    const std::int64_t n = v[1].shape(0);
    if (n == 0) return zeros(v[0].shape(), int32);
    Array up = searchsorted(v[1], v[0], !right);
    Array down = n - searchsorted(lax::rev(v[1], {0}), v[0], !right);
    return where(program::pick(v[1], -1, 0) >= program::pick(v[1], 0, 0), up, down);
  });
}

namespace {
Array edges_between(const Array& low, const Array& high, std::int64_t bins, DType dtype) {
  Array flat = low == high;
  return linspace(where(flat, low - 0.5, low), where(flat, high + 0.5, high), bins + 1, {.dtype = dtype});
}
Array edges_of(const Array& x, std::int64_t bins, const std::optional<std::pair<double, double>>& range) {
  const DType t = program::inexact_dtype(x.dtype());
  if (range) return edges_between(full({}, range->first, t), full({}, range->second, t), bins, t);
  if (x.size() == 0) return edges_between(full({}, 0, t), full({}, 1, t), bins, t);
  return edges_between(program::as(min(x), t), program::as(max(x), t), bins, t);
}
// Numbers of bins, counted from 1; 0 and edges.size() are outside.
Array bin_numbers(const Array& edges, const Array& x) {
  const std::int64_t bins = edges.shape(0) - 1;
  return where(x == program::pick(edges, -1, 0), bins, searchsorted(edges, x, true));
}
Arrays histogram_of(const Arrays& v, const Array& edges, bool density) {
  const Array& x = v[0];
  const Array& w = v[1];
  Array none = zeros({edges.shape(0)}, w.dtype());
  Array counts = program::cut(at(none, {ravel(bin_numbers(edges, x))}).add(ravel(w)), 1, INT64_MAX, 0);
  if (density) counts = counts / diff(edges) / sum(counts);
  return {counts, edges};
}
Arrays with_weights(const Operand& x, const HistogramOptions& o) {
  if (o.weights && o.weights->shape() != x.array().shape()) {
    throw ValueError(str("histogram: weights have shape ", o.weights->shape(), "; expected ", x.array().shape()));
  }
  return o.weights ? Arrays{x.array(), *o.weights} : Arrays{x.array()};
}
void check_bins(const char* name, std::int64_t bins) {
  if (bins <= 0) throw ValueError(str(name, ": bins = ", bins, "; expected a positive count"));
}
Arrays floats(const Arrays& v, std::size_t count) {
  Arrays p = promoted("histogram", Arrays(v.begin(), v.begin() + static_cast<std::ptrdiff_t>(count)), true);
  if (count == 1) p.push_back(ones_like(p[0]));
  return p;
}
}  // namespace

Array histogram_bin_edges(const Operand& x, std::int64_t bins, const std::optional<std::pair<double, double>>& range) {
  check_bins("histogram_bin_edges", bins);
  return composite("histogram_bin_edges", {x}, [&](const Arrays& v) { return edges_of(v[0], bins, range); });
}
HistogramResult histogram(const Operand& x, std::int64_t bins, const HistogramOptions& o) {
  check_bins("histogram", bins);
  Arrays out = composites("histogram", x.loc(), with_weights(x, o), [&](const Arrays& v) {
    Arrays p = floats(v, v.size());
    return histogram_of(p, edges_of(p[0], bins, o.range), o.density);
  });
  return {out[0], out[1]};
}
HistogramResult histogram(const Operand& x, const Array& edges, const HistogramOptions& o) {
  Arrays in = with_weights(x, o);
  in.push_back(edges);
  Arrays out = composites("histogram", x.loc(), in, [&](const Arrays& v) {
    Arrays p = floats(v, v.size() - 1);
    return histogram_of(p, program::as(v.back(), p[0].dtype()), o.density);
  });
  return {out[0], out[1]};
}
HistogramDdResult histogramdd(const Operand& sample, const Dims& bins,
                              const std::optional<std::vector<std::pair<double, double>>>& ranges,
                              const std::optional<Array>& weights, bool density) {
  const Shape shape = sample.array().shape();
  if (shape.size() != 2 || shape[1] != static_cast<std::int64_t>(bins.size())) {
    throw ValueError(
        str("histogramdd: sample has shape ", shape, " and bins ", bins, "; expected a count for each of its columns"));
  }
  for (auto b : bins) check_bins("histogramdd", b);
  if (ranges && ranges->size() != bins.size()) {
    throw ValueError(
        str("histogramdd: ", ranges->size(), " ranges for ", bins.size(), " columns; expected one for each"));
  }
  Arrays in{sample.array()};
  if (weights) in.push_back(*weights);
  Arrays out = composites("histogramdd", sample.loc(), in, [&](const Arrays& v) {
    Arrays p = promoted("histogramdd", v, true);
    Arrays edges;
    Arrays numbers;
    Shape wide;
    for (std::size_t d = 0; d < bins.size(); ++d) {
      Array column = program::pick(p[0], static_cast<std::int64_t>(d), 1);
      edges.push_back(edges_of(column, bins[d], ranges ? std::optional((*ranges)[d]) : std::nullopt));
      numbers.push_back(bin_numbers(edges.back(), column));
      wide.push_back(bins[d] + 2);
    }
    BincountOptions o{.length = size_of(wide)};
    if (p.size() > 1) o.weights = p[1];
    Array counts = reshape(bincount(ravel_multi_index(numbers, wide), o), wide);
    for (std::size_t d = 0; d < bins.size(); ++d) counts = program::cut(counts, 1, -1, static_cast<std::int64_t>(d));
    if (density) {
      counts = program::as(counts, p[0].dtype());
      counts = counts / sum(counts);
      for (std::size_t d = 0; d < bins.size(); ++d) {
        Shape line(bins.size(), 1);
        line[d] = bins[d];
        counts = counts / reshape(diff(edges[d]), line);
      }
    }
    Arrays all{counts};
    all.insert(all.end(), edges.begin(), edges.end());
    return all;
  });
  return {out[0], Arrays(out.begin() + 1, out.end())};
}
HistogramDdResult histogram2d(const Operand& x, const Operand& y, std::int64_t bins) {
  Array sample = stack({x.array(), y.array()}, 1, x.loc());
  return histogramdd(Operand(sample, x.loc()), {bins, bins});
}

}  // namespace tessera
