// SPDX-License-Identifier: Apache-2.0
#include "program/composite.h"
#include "tessera/calculus.h"
#include "tessera/creation.h"
#include "tessera/indexing.h"
#include "tessera/lax.h"
#include "tessera/linalg.h"
#include "tessera/numpy.h"
#include "tessera/shaping.h"

namespace tessera {

using program::Arrays;
using program::composite;
using program::composites;
using program::cut;
using program::pick;
using program::promoted;

Array polyval(const Operand& p, const Operand& x) {
  return composite("polyval", {p, x}, [](const Arrays& v) {
    Arrays a = promoted("polyval", v);
    // Horner's scheme, written out: polynomials are short.
    Array y = zeros_like(a[1]);
    for (std::int64_t i = 0; i < a[0].shape(0); ++i) y = y * a[1] + pick(a[0], i, 0);
    return y;
  });
}

namespace {
Array sum_of(const Arrays& p) {
  const bool first = p[0].shape(0) >= p[1].shape(0);
  const Array& large = first ? p[0] : p[1];
  const Array& small = first ? p[1] : p[0];
  return large + lax::pad(small, zeros({}, small.dtype()), {{large.shape(0) - small.shape(0), 0, 0}});
}
}  // namespace

Array polyadd(const Operand& a, const Operand& b) {
  return composite("polyadd", {a, b}, [](const Arrays& v) { return sum_of(promoted("polyadd", v)); });
}
Array polysub(const Operand& a, const Operand& b) {
  return composite("polysub", {a, b}, [](const Arrays& v) {
    Arrays p = promoted("polysub", v);
    return sum_of({p[0], -p[1]});
  });
}
Array polymul(const Operand& a, const Operand& b) {
  return composite("polymul", {a, b}, [](const Arrays& v) {
    Arrays p = promoted("polymul", v, true);
    for (auto& x : p) {
      if (x.shape(0) == 0) x = zeros({1}, x.dtype());
    }
    return convolve(p[0], p[1]);
  });
}
std::pair<Array, Array> polydiv(const Operand& u, const Operand& w) {
  Arrays out = composites("polydiv", {u, w}, [](const Arrays& v) {
    Arrays p = promoted("polydiv", v, true);
    Array rest = p[0];
    const std::int64_t n = p[1].shape(0);
    const std::int64_t steps = rest.shape(0) - n + 1;
    Array scale = 1.0 / pick(p[1], 0, 0);
    if (steps <= 0) return Arrays{zeros({1}, rest.dtype()), rest};
    Arrays quotient;
    for (std::int64_t k = 0; k < steps; ++k) {
      Array d = scale * pick(rest, k, 0);
      quotient.push_back(d);
      rest = at(rest, {span(k, k + n)}).add(-d * p[1]);
    }
    return Arrays{stack(quotient), rest};
  });
  return {out[0], out[1]};
}

namespace {
// Products of m falling factors, for each power that stays: (i)(i-1)…(i-m+1).
Array factors(std::int64_t from, std::int64_t to, std::int64_t m, DType t) {
  return prod(maximum(astype(reshape(arange(from, to), {1, -1}) - reshape(arange(m), {-1, 1}), t), 1),
              {.axis = Dims{0}});
}
void check_order(const char* name, std::int64_t m) {
  if (m < 0) throw ValueError(str(name, ": m = ", m, "; expected no negative order"));
}
}  // namespace

Array polyder(const Operand& p, std::int64_t m) {
  check_order("polyder", m);
  return composite("polyder", {p}, [&](const Arrays& v) {
    Array a = promoted("polyder", v, true)[0];
    if (m == 0) return a;
    const std::int64_t n = a.shape(0);
    return cut(a, 0, -m, 0) * lax::rev(factors(m, n, m, a.dtype()), {0});
  });
}
Array polyint(const Operand& p, std::int64_t m, const std::optional<Array>& constants) {
  check_order("polyint", m);
  Arrays in{p.array()};
  if (constants) in.push_back(*constants);
  return composite("polyint", p.loc(), in, [&](const Arrays& v) {
    Arrays a = promoted("polyint", v, true);
    if (m == 0) return a[0];
    Array k = a.size() > 1 ? atleast_1d(a[1]) : zeros({m}, a[0].dtype());
    if (k.shape(0) == 1) k = broadcast_to(k, {m});
    if (k.shape() != Shape{m})
      throw ValueError(str("polyint: constants have shape ", k.shape(), "; expected 1 or ", m));
    Array divisors = lax::rev(factors(0, a[0].shape(0) + m, m, a[0].dtype()), {0});
    return concatenate({a[0], k}, 0) / divisors;
  });
}
Array poly(const Operand& zeros_of) {
  return composite("poly", {zeros_of}, [](const Arrays& v) {
    Array z = atleast_1d(promoted("poly", v, true)[0]);
    if (z.ndim() != 1) throw ValueError(str("poly: zeros have shape ", z.shape(), "; expected rank 1"));
    Array a = ones({1}, z.dtype());
    for (std::int64_t k = 0; k < z.shape(0); ++k) {
      a = convolve(a, concatenate({ones({1}, z.dtype()), -cut(z, k, k + 1, 0)}, 0));
    }
    return a;
  });
}
Array polyfit(const Operand& x, const Operand& y, std::int64_t deg, const std::optional<Array>& weights) {
  if (deg < 0) throw ValueError(str("polyfit: deg = ", deg, "; expected no negative degree"));
  if (x.array().ndim() != 1 || y.array().ndim() < 1 || x.array().shape(0) != y.array().shape(0)) {
    throw ValueError(str("polyfit: x and y have shapes ", x.array().shape(), " and ", y.array().shape(),
                         "; expected vectors of equal length"));
  }
  Arrays in{x.array(), y.array()};
  if (weights) in.push_back(*weights);
  return composite("polyfit", x.loc(), in, [&](const Arrays& v) {
    Arrays p = promoted("polyfit", v, true);
    Array lhs = vander(p[0], deg + 1);
    Array rhs = p[1];
    if (weights) {
      Array w = lax::expand_dims(p[2], {1});
      lhs = lhs * w;
      rhs = rhs.ndim() == 1 ? rhs * p[2] : rhs * w;
    }
    // Columns of length 1 keep the problem well scaled.
    Array scale = sqrt(sum(lhs * lhs, 0));
    const double rcond = static_cast<double>(p[0].shape(0)) * program::float_info(p[0].dtype()).epsilon;
    Array c = linalg::lstsq(lhs / scale, rhs, rcond).x;
    return c.ndim() == 1 ? c / scale : c / lax::expand_dims(scale, {1});
  });
}

}  // namespace tessera
