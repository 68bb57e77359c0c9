// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <numeric>

#include "ops/linalg/linalg_ops.h"
#include "program/composite.h"
#include "program/graph_fragment.h"
#include "tessera/creation.h"
#include "tessera/fft.h"
#include "tessera/lax.h"
#include "tessera/numpy.h"
#include "tessera/shaping.h"

namespace tessera::fft {

using ops::FftType;
using program::Arrays;
using program::composite;

namespace {

// Exactly n elements along an axis.
Array fitted(const Array& x, std::int64_t n, std::int64_t d) {
  if (x.shape(d) == n) return x;
  if (x.shape(d) > n) return program::cut(x, 0, n, d);
  std::vector<lax::PadDim> config(static_cast<std::size_t>(x.ndim()));
  config[static_cast<std::size_t>(d)].high = n - x.shape(d);
  return lax::pad(x, zeros({}, x.dtype()), config);
}

// One transform along one axis. `points` counts them on the side that has all of them.
Array along(const char* name, const Array& x, FftType type, std::int64_t points, std::int64_t d) {
  if (points <= 0)
    throw ValueError(str("fft::", name, ": ", points, " points along axis ", d, "; expected a positive count"));
  const DType t = x.dtype();
  if (type == FftType::Rfft && is_complex(t)) {
    throw TypeError(str("fft::", name, ": operand has dtype ", dtype_name(t), "; expected a real one"));
  }
  Array a = fitted(x, type == FftType::Irfft ? points / 2 + 1 : points, d);
  a = program::as(a, type == FftType::Rfft ? (t == float64 ? float64 : float32) : complex_dtype(t));
  const std::int64_t last = a.ndim() - 1;
  return program::graph_fragment1(name, Loc::current(), {a}, [&](ir::Builder&, const ir::Values& v) {
    return ops::move_dim(ops::fft(ops::move_dim(v[0], d, last), type, {points}), last, d);
  });
}

Array scaled(const Array& x, Norm norm, bool inverse, double n) {
  // Transforms back are divided by n already.
  const double factor = norm == Norm::Backward ? 1
                        : norm == Norm::Ortho  ? (inverse ? std::sqrt(n) : 1 / std::sqrt(n))
                        : inverse              ? n
                                               : 1 / n;
  return factor == 1 ? x : x * factor;
}
bool is_inverse(FftType t) { return t == FftType::Ifft || t == FftType::Irfft; }

Array line(const char* name, const Operand& x, FftType type, const Options& o) {
  return composite(name, {x}, [&](const Arrays& v) {
    const std::int64_t d = program::axis_of(name, o.axis, v[0].ndim());
    const std::int64_t n = o.n.value_or(type == FftType::Irfft ? 2 * (v[0].shape(d) - 1) : v[0].shape(d));
    return scaled(along(name, v[0], type, n, d), o.norm, is_inverse(type), static_cast<double>(n));
  });
}

Dims axes_for(const char* name, const Array& x, const OptionsN& o) {
  if (o.s && o.axes && o.s->size() != o.axes->size()) {
    throw ValueError(str("fft::", name, ": s ", *o.s, " and axes ", *o.axes, " differ in length"));
  }
  Dims axes;
  if (o.axes) {
    for (auto d : *o.axes) axes.push_back(program::axis_of(name, d, x.ndim()));
  } else {
    axes.resize(o.s ? o.s->size() : x.shape().size());
    std::iota(axes.begin(), axes.end(), x.ndim() - static_cast<std::int64_t>(axes.size()));
  }
  Dims sorted = axes;
  std::sort(sorted.begin(), sorted.end());
  if (axes.empty() || axes[0] < 0 || std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end()) {
    throw ValueError(str("fft::", name, ": axes ", axes, " of shape ", x.shape(), "; expected distinct ones"));
  }
  return axes;
}

Array volume(const char* name, const Operand& x, FftType type, const OptionsN& o) {
  return composite(name, {x}, [&](const Arrays& v) {
    const Dims axes = axes_for(name, v[0], o);
    Shape s;
    for (std::size_t i = 0; i < axes.size(); ++i) {
      const bool half = type == FftType::Irfft && i + 1 == axes.size();
      s.push_back(o.s ? (*o.s)[i] : half ? 2 * (v[0].shape(axes[i]) - 1) : v[0].shape(axes[i]));
    }
    Array y = v[0];
    const FftType plain = is_inverse(type) ? FftType::Ifft : FftType::Fft;
    auto last = [&] { y = along(name, y, type, s.back(), axes.back()); };
    if (!is_inverse(type)) last();
    for (std::size_t i = axes.size() - 1; i-- > 0;) y = along(name, y, plain, s[i], axes[i]);
    if (is_inverse(type)) last();
    return scaled(y, o.norm, is_inverse(type), static_cast<double>(size_of(s)));
  });
}
OptionsN plane(const char* name, OptionsN o) {
  if (!o.axes) o.axes = Dims{-2, -1};
  if (o.axes->size() != 2) throw ValueError(str("fft::", name, ": axes ", *o.axes, "; expected two"));
  return o;
}

// The scale of hfft stands on the other side.
Norm opposite(Norm n) { return n == Norm::Backward ? Norm::Forward : n == Norm::Forward ? Norm::Backward : n; }

Array shifted(const char* name, const Operand& x, const MaybeDims& axes, bool back) {
  return composite(name, {x}, [&](const Arrays& v) {
    Dims all = program::axes_of(name, axes, v[0].ndim());
    Dims amount;
    for (auto d : all) amount.push_back(back ? -(v[0].shape(d) / 2) : v[0].shape(d) / 2);
    return roll(v[0], amount, all);
  });
}

}  // namespace

Array fft(const Operand& x, const Options& o) { return line("fft", x, FftType::Fft, o); }
Array ifft(const Operand& x, const Options& o) { return line("ifft", x, FftType::Ifft, o); }
Array rfft(const Operand& x, const Options& o) { return line("rfft", x, FftType::Rfft, o); }
Array irfft(const Operand& x, const Options& o) { return line("irfft", x, FftType::Irfft, o); }
Array hfft(const Operand& x, const Options& o) {
  Options back = o;
  back.norm = opposite(o.norm);
  return composite("hfft", {x}, [&](const Arrays& v) { return irfft(conj(v[0]), back); });
}
Array ihfft(const Operand& x, const Options& o) {
  Options forward = o;
  forward.norm = opposite(o.norm);
  return composite("ihfft", {x}, [&](const Arrays& v) { return conj(rfft(v[0], forward)); });
}

Array fftn(const Operand& x, const OptionsN& o) { return volume("fftn", x, FftType::Fft, o); }
Array ifftn(const Operand& x, const OptionsN& o) { return volume("ifftn", x, FftType::Ifft, o); }
Array rfftn(const Operand& x, const OptionsN& o) { return volume("rfftn", x, FftType::Rfft, o); }
Array irfftn(const Operand& x, const OptionsN& o) { return volume("irfftn", x, FftType::Irfft, o); }
Array fft2(const Operand& x, OptionsN o) { return fftn(x, plane("fft2", std::move(o))); }
Array ifft2(const Operand& x, OptionsN o) { return ifftn(x, plane("ifft2", std::move(o))); }
Array rfft2(const Operand& x, OptionsN o) { return rfftn(x, plane("rfft2", std::move(o))); }
Array irfft2(const Operand& x, OptionsN o) { return irfftn(x, plane("irfft2", std::move(o))); }

Array fftfreq(std::int64_t n, double d, DType dtype, const Loc& loc) {
  if (n <= 0) throw ValueError(str("fft::fftfreq: n = ", n, "; expected a positive count"));
  return composite("fftfreq", loc, {}, [&](const Arrays&) {
    Array k = (arange(n) + n / 2) % n - n / 2;
    return astype(k, dtype) / (d * static_cast<double>(n));
  });
}
Array rfftfreq(std::int64_t n, double d, DType dtype, const Loc& loc) {
  if (n <= 0) throw ValueError(str("fft::rfftfreq: n = ", n, "; expected a positive count"));
  return composite("rfftfreq", loc, {},
                   [&](const Arrays&) { return arange(n / 2 + 1, dtype) / (d * static_cast<double>(n)); });
}
Array fftshift(const Operand& x, const MaybeDims& axes) { return shifted("fftshift", x, axes, false); }
Array ifftshift(const Operand& x, const MaybeDims& axes) { return shifted("ifftshift", x, axes, true); }

}  // namespace tessera::fft
