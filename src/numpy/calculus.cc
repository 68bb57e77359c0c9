// SPDX-License-Identifier: Apache-2.0
#include "tessera/calculus.h"

#include <cmath>
#include <limits>

#include "program/composite.h"
#include "tessera/elementary.h"
#include "tessera/lax.h"
#include "tessera/numpy.h"

namespace tessera {

using program::Arrays;
using program::composite;
using program::composites;
using program::cut;
using program::pick;
using program::promoted;

namespace {
constexpr std::int64_t kEnd = INT64_MAX;

Array difference(const Array& x, std::int64_t d) {
  Array a = cut(x, 1, kEnd, d);
  Array b = cut(x, 0, -1, d);
  return is_bool(x.dtype()) ? a != b : a - b;
}
}  // namespace

Array diff(const Operand& x, const DiffOptions& o) {
  if (o.n < 0) throw ValueError(str("diff: n = ", o.n, "; expected no negative count"));
  const std::int64_t d = program::axis_of("diff", o.axis, x.array().ndim());
  Arrays in{x.array()};
  if (o.prepend) in.push_back(*o.prepend);
  if (o.append) in.push_back(*o.append);
  return composite("diff", x.loc(), in, [&](const Arrays& v) {
    Array a = v[0];
    auto fit = [&](const Array& end) {
      Shape one = v[0].shape();
      one[static_cast<std::size_t>(d)] = 1;
      return end.ndim() == 0 ? broadcast_to(end, one) : end;
    };
    if (o.prepend) a = concatenate({fit(v[1]), a}, d);
    if (o.append) a = concatenate({a, fit(v.back())}, d);
    for (std::int64_t i = 0; i < o.n; ++i) a = difference(a, d);
    return a;
  });
}
Array ediff1d(const Operand& x, const std::optional<Array>& to_end, const std::optional<Array>& to_begin) {
  Arrays in{x.array()};
  if (to_begin) in.push_back(*to_begin);
  if (to_end) in.push_back(*to_end);
  return composite("ediff1d", x.loc(), in, [&](const Arrays& v) {
    Array a = difference(ravel(v[0]), 0);
    if (to_begin) a = concatenate({ravel(program::as(v[1], a.dtype())), a}, 0);
    if (to_end) a = concatenate({a, ravel(program::as(v.back(), a.dtype()))}, 0);
    return a;
  });
}

namespace {
Array gradient_along(const Array& a, const Array& h, std::int64_t d) {
  if (h.ndim() > 1) throw ValueError(str("gradient: spacing has shape ", h.shape(), "; expected rank 0 or 1"));
  Array first = cut(a, 1, 2, d) - cut(a, 0, 1, d);
  Array last = cut(a, -1, kEnd, d) - cut(a, -2, -1, d);
  if (h.ndim() == 0) {
    Array inner = (cut(a, 2, kEnd, d) - cut(a, 0, -2, d)) * 0.5 / h;
    return concatenate({first / h, inner, last / h}, d);
  }
  if (h.shape(0) != a.shape(d)) {
    throw ValueError(str("gradient: spacing has ", h.shape(0), " coordinates for extent ", a.shape(d)));
  }
  Shape line(a.shape().size(), 1);
  line[static_cast<std::size_t>(d)] = h.shape(0);
  Array at = reshape(h, line);
  Array left = cut(at, 1, -1, d) - cut(at, 0, -2, d);
  Array right = cut(at, 2, kEnd, d) - cut(at, 1, -1, d);
  Array inner = -right / (left * (left + right)) * cut(a, 0, -2, d) +
                (right - left) / (left * right) * cut(a, 1, -1, d) +
                left / (right * (left + right)) * cut(a, 2, kEnd, d);
  return concatenate(
      {first / (cut(at, 1, 2, d) - cut(at, 0, 1, d)), inner, last / (cut(at, -1, kEnd, d) - cut(at, -2, -1, d))}, d);
}
}  // namespace

std::vector<Array> gradient(const Operand& f, const std::vector<Array>& spacing, const MaybeDims& axis) {
  Dims axes;
  if (axis) {
    for (auto d : *axis) axes.push_back(program::axis_of("gradient", d, f.array().ndim()));
  } else {
    axes = program::axes_of("gradient", std::nullopt, f.array().ndim());
  }
  if (spacing.size() > 1 && spacing.size() != axes.size()) {
    throw ValueError(str("gradient: ", spacing.size(), " spacings for ", axes.size(), " axes"));
  }
  for (auto d : axes) {
    if (f.array().shape(d) < 2) {
      throw ValueError(
          str("gradient: dimension ", d, " of shape ", f.array().shape(), "; expected at least 2 elements"));
    }
  }
  Arrays in{f.array()};
  in.insert(in.end(), spacing.begin(), spacing.end());
  return composites("gradient", f.loc(), in, [&](const Arrays& v) {
    Arrays p = promoted("gradient", v, true);
    Arrays out;
    for (std::size_t i = 0; i < axes.size(); ++i) {
      Array h = p.size() == 1 ? Array(1.0) : p[p.size() == 2 ? 1 : 1 + i];
      out.push_back(gradient_along(p[0], h, axes[i]));
    }
    return out;
  });
}

Array trapezoid(const Operand& y, const std::optional<Array>& x, double dx, std::int64_t axis) {
  Arrays in{y.array()};
  if (x) in.push_back(*x);
  return composite("trapezoid", y.loc(), in, [&](const Arrays& v) {
    Arrays p = promoted("trapezoid", v, true);
    Array f = moveaxis(p[0], {axis}, {-1});
    if (!x) return dx * (sum(f, -1) - 0.5 * (pick(f, 0, -1) + pick(f, -1, -1)));
    Array widths = p[1].ndim() == 1 ? difference(p[1], 0) : moveaxis(diff(p[1], {.axis = axis}), {axis}, {-1});
    return 0.5 * sum(widths * (cut(f, 1, kEnd, -1) + cut(f, 0, -1, -1)), -1);
  });
}

Array interp(const Operand& x, const Operand& xp, const Operand& fp, const InterpOptions& o) {
  Arrays in{x.array(), xp.array(), fp.array()};
  if (o.left) in.push_back(*o.left);
  if (o.right) in.push_back(*o.right);
  return composite("interp", x.loc(), in, [&](const Arrays& v) {
    if (v[1].ndim() != 1 || v[1].shape() != v[2].shape()) {
      throw ValueError(
          str("interp: xp and fp have shapes ", v[1].shape(), " and ", v[2].shape(), "; expected equal vectors"));
    }
    Arrays p = promoted("interp", {v[0], v[1]}, true);
    if (is_complex(p[0].dtype())) throw TypeError("interp: x is complex; expected a real dtype");
    Array at = p[0];
    Array xs = p[1];
    Array fs = promoted("interp", {v[2]}, true)[0];
    if (o.period) {
      const double period = std::abs(*o.period);
      at = at % period;
      Arrays sorted = lax::sort({xs % period, fs}, 0, 1);
      xs = concatenate({cut(sorted[0], -1, kEnd, 0) - period, sorted[0], cut(sorted[0], 0, 1, 0) + period}, 0);
      fs = concatenate({cut(sorted[1], -1, kEnd, 0), sorted[1], cut(sorted[1], 0, 1, 0)}, 0);
    }
    Array i = clip(searchsorted(xs, at, true), 1, xs.shape(0) - 1);
    auto of = [](const Array& a, const Array& k) { return take(a, k, 0, TakeMode::Clip); };
    Array x0 = of(xs, i - 1);
    Array f0 = of(fs, i - 1);
    Array dx = of(xs, i) - x0;
    const double eps = program::float_info(xs.dtype()).epsilon;
    Array narrow = abs(dx) <= eps * eps;
    Array y = where(narrow, f0, f0 + (at - x0) / where(narrow, 1, dx) * (of(fs, i) - f0));
    if (o.extrapolate || o.period) return y;
    y = where(at < pick(xs, 0, 0), o.left ? v[3] : pick(fs, 0, 0), y);
    return where(at > pick(xs, -1, 0), o.right ? v.back() : pick(fs, -1, 0), y);
  });
}

Array unwrap(const Operand& p, std::optional<double> discont, std::int64_t axis, double period) {
  return composite("unwrap", {p}, [&](const Arrays& v) {
    const bool whole = is_integer(v[0].dtype()) && period == std::floor(period);
    Array a = whole ? v[0] : promoted("unwrap", v, true)[0];
    const std::int64_t d = program::axis_of("unwrap", axis, a.ndim());
    if (a.shape(d) == 0) return a;
    auto number = [&](double x) { return program::number_like(a, x); };
    Array interval = number(whole ? std::floor(period / 2) : period / 2);
    Array step = difference(a, d);
    Array mod = remainder(step + interval, number(period)) - interval;
    mod = where((mod == -interval) & (step > 0), interval, mod);
    Array correction = where(abs(step) < discont.value_or(period / 2), 0, mod - step);
    return concatenate({cut(a, 0, 1, d), cut(a, 1, kEnd, d) + cumsum(correction, d)}, d);
  });
}

// --- convolution --------------------------------------------------------------------------------------------------

namespace {
Array convolved(const char* name, const Array& a, Array b, ConvolveMode mode, bool flipped) {
  const std::int64_t m = b.shape(0);
  lax::ConvOptions o;
  o.dimension_numbers = {"NCH", "OIH", "NCH"};
  switch (mode) {
    case ConvolveMode::Full:
      o.padding = {{m - 1, m - 1}};
      break;
    case ConvolveMode::Same:
      o.padding = {{m / 2, m - m / 2 - 1}};
      break;
    case ConvolveMode::Valid:
      o.padding = {{0, 0}};
      break;
  }
  if (a.size() == 0 || m == 0)
    throw ValueError(str(name, ": shapes ", a.shape(), " and ", b.shape(), "; expected no empty vector"));
  if (flipped) b = lax::rev(b, {0});
  return ravel(lax::conv_general_dilated(reshape(a, {1, 1, -1}), reshape(b, {1, 1, -1}), o));
}
Arrays two_vectors(const char* name, const Arrays& v) {
  if (v[0].ndim() != 1 || v[1].ndim() != 1) {
    throw ValueError(str(name, ": shapes ", v[0].shape(), " and ", v[1].shape(), "; expected rank 1"));
  }
  return promoted(name, v, true);
}
}  // namespace

Array convolve(const Operand& a, const Operand& b, ConvolveMode mode) {
  return composite("convolve", {a, b}, [&](const Arrays& v) {
    Arrays p = two_vectors("convolve", v);
    if (p[0].shape(0) < p[1].shape(0)) std::swap(p[0], p[1]);
    return convolved("convolve", p[0], p[1], mode, true);
  });
}
Array correlate(const Operand& a, const Operand& b, ConvolveMode mode) {
  return composite("correlate", {a, b}, [&](const Arrays& v) {
    Arrays p = two_vectors("correlate", v);
    p[1] = conj(p[1]);
    if (p[0].shape(0) >= p[1].shape(0)) return convolved("correlate", p[0], p[1], mode, false);
    return lax::rev(convolved("correlate", p[1], p[0], mode, false), {0});
  });
}

}  // namespace tessera
