// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <initializer_list>
#include <limits>
#include <numbers>

#include "program/composite.h"
#include "tessera/elementary.h"
#include "tessera/lax.h"
#include "tessera/ops.h"
#include "tessera/special.h"

namespace tessera::special {

using program::Arrays;
using program::composite;
using program::kInfinity;
using program::kNaN;
using program::number_like;
using program::promoted;

namespace {

Arrays reals(const char* name, const Arrays& v) {
  Arrays p = promoted(name, v, true);
  if (is_complex(p[0].dtype())) throw TypeError(str("special::", name, ": dtype is complex; expected a real dtype"));
  return p;
}
// Float32 or float64: what approximations were made for.
Array full_float(const char* name, const Array& x) {
  if (x.dtype() != float32 && x.dtype() != float64) {
    throw TypeError(str("special::", name, ": dtype is ", dtype_name(x.dtype()), "; expected float32 or float64"));
  }
  return x;
}
// Highest power first.
Array polynomial(std::initializer_list<double> coefficients, const Array& x) {
  Array y = zeros_like(x);
  for (double c : coefficients) y = y * x + c;
  return y;
}

}  // namespace

Array xlogy(const Operand& x, const Operand& y) {
  return composite("xlogy", {x, y}, [](const Arrays& v) {
    Arrays p = promoted("xlogy", v, true);
    return where((p[0] != 0) | isnan(p[1]), p[0] * log(p[1]), number_like(p[0], 0));
  });
}
Array xlog1py(const Operand& x, const Operand& y) {
  return composite("xlog1py", {x, y}, [](const Arrays& v) {
    Arrays p = promoted("xlog1py", v, true);
    return where((p[0] != 0) | isnan(p[1]), p[0] * log1p(p[1]), number_like(p[0], 0));
  });
}
Array entr(const Operand& x) {
  return composite("entr", {x}, [](const Arrays& v) {
    Array a = reals("entr", v)[0];
    return where(a < 0, number_like(a, -kInfinity), -xlogy(a, a));
  });
}
Array rel_entr(const Operand& x, const Operand& y) {
  return composite("rel_entr", {x, y}, [](const Arrays& v) {
    Arrays p = reals("rel_entr", v);
    Array both = (p[0] > 0) & (p[1] > 0);
    Array none = (p[0] == 0) & (p[1] >= 0);
    Array a = where(both, p[0], 1);
    Array b = where(both, p[1], 1);
    return where(both, xlogy(a, a) - xlogy(a, b), where(none, number_like(p[0], 0), kInfinity));
  });
}
Array kl_div(const Operand& x, const Operand& y) {
  return composite("kl_div", {x, y}, [](const Arrays& v) {
    Arrays p = reals("kl_div", v);
    return rel_entr(p[0], p[1]) - p[0] + p[1];
  });
}
Array logit(const Operand& x) {
  return composite("logit", {x}, [](const Arrays& v) {
    Array a = promoted("logit", v, true)[0];
    return log(a / (1 - a));
  });
}
Array expit(const Operand& x) { return logistic(x); }

// --- the normal distribution (formulas of Cephes, as in jax.scipy.special) ------------------------------------------

namespace {
Array normal_cdf(const Array& x) {
  const double half_sqrt2 = std::numbers::sqrt2 / 2;
  Array w = x * half_sqrt2;
  Array z = abs(w);
  Array tail = erfc(z);
  return 0.5 * where(z < half_sqrt2, 1 + erf(w), where(w > 0, 2 - tail, tail));
}
// log of the asymptotic series 1 - 1/x^2 + 3/x^4 - 15/x^6, with its scale.
Array log_lower_tail(const Array& x) {
  Array x2 = square(x);
  Array series = 1 - 1 / x2 + 3 / square(x2) - 15 / (x2 * square(x2));
  return -0.5 * x2 - log(-x) - 0.5 * std::log(2 * std::numbers::pi) + log(series);
}
}  // namespace

Array ndtr(const Operand& x) {
  return composite("ndtr", {x}, [](const Arrays& v) { return normal_cdf(full_float("ndtr", v[0])); });
}
Array log_ndtr(const Operand& x) {
  return composite("log_ndtr", {x}, [](const Arrays& v) {
    Array a = full_float("log_ndtr", v[0]);
    const double lower = a.dtype() == float64 ? -20 : -10;
    const double upper = a.dtype() == float64 ? 8 : 5;
    // Beyond `upper` log(1 - p) is -p; below `lower` the series holds. Each branch sees arguments it can take.
    Array high = a > upper;
    Array p = normal_cdf(where(high, -a, maximum(a, lower)));
    return where(high, -p, where(a > lower, log(p), log_lower_tail(minimum(a, lower))));
  });
}
Array ndtri(const Operand& q) {
  return composite("ndtri", {q}, [](const Arrays& v) {
    Array p = full_float("ndtri", v[0]);
    const double boundary = std::exp(-2.0);
    Array upper = p > 1 - boundary;
    Array c = where(upper, 1 - p, p);
    c = where(c == 0, 0.5, c);
    Array w = c - 0.5;
    Array ww = square(w);
    Array middle =
        w + w * ww *
                (polynomial({-59.96335010141079, 98.00107541859997, -56.67628574690703, 13.931260938727968,
                             -1.2391658386738125},
                            ww) /
                 polynomial({1.0, 1.9544885833814176, 4.676279128988815, 86.36024213908905, -225.46268785411937,
                             200.26021238006066, -82.03722561683334, 15.90562251262117, -1.1833162112133},
                            ww));
    middle = middle * -std::sqrt(2 * std::numbers::pi);
    Array z = sqrt(-2 * log(c));
    Array first = z - log(z) / z;
    Array i = 1 / z;
    Array far =
        polynomial({3.2377489177694603, 6.915228890689842, 3.9388102529247444, 1.3330346081580755, 0.20148538954917908,
                    0.012371663481782003, 0.00030158155350823543, 2.6580697468673755e-06, 6.239745391849833e-09},
                   i) /
        polynomial({1.0, 6.02427039364742, 3.6798356385616087, 1.3770209948908132, 0.21623699359449663,
                    0.013420400608854318, 0.00032801446468212774, 2.8924786474538068e-06, 6.790194080099813e-09},
                   i) /
        z;
    Array near =
        polynomial({4.0554489230596245, 31.525109459989388, 57.16281922464213, 44.08050738932008, 14.684956192885803,
                    2.1866330685079025, -0.1402560791713545, -0.03504246268278482, -0.0008574567851546854},
                   i) /
        polynomial({1.0, 15.779988325646675, 45.39076351288792, 41.3172038254672, 15.04253856929075, 2.504649462083094,
                    -0.14218292285478779, -0.03808064076915783, -0.0009332594808954574},
                   i) /
        z;
    Array x = where(c > boundary, middle, where(z >= 8, first - far, first - near));
    x = where(upper, x, -x);
    return where(p == 0, number_like(p, -kInfinity), where(p == 1, number_like(p, kInfinity), x));
  });
}

// --- the gamma family -----------------------------------------------------------------------------------------------

Array gammasgn(const Operand& x) {
  return composite("gammasgn", {x}, [](const Arrays& v) {
    Array a = reals("gammasgn", v)[0];
    Array below = floor(a);
    Array undefined = ((a < 0) & (a == below)) | isnan(a);
    Array odd = ((a < 0) & (below % 2 != 0)) | ((a == 0) & signbit(a));
    return where(undefined, number_like(a, kNaN), where(odd, number_like(a, -1), number_like(a, 1)));
  });
}
Array gamma(const Operand& x) {
  return composite("gamma", {x}, [](const Arrays& v) {
    Array a = reals("gamma", v)[0];
    return gammasgn(a) * exp(lgamma(a));
  });
}
Array gammaln(const Operand& x) { return lgamma(x); }
Array gammainc(const Operand& a, const Operand& x) { return igamma(a, x); }
Array gammaincc(const Operand& a, const Operand& x) { return igammac(a, x); }
Array multigammaln(const Operand& a, std::int64_t d) {
  return composite("multigammaln", {a}, [&](const Arrays& v) {
    Array x = reals("multigammaln", v)[0];
    const auto n = static_cast<double>(d);
    Array y = full(x.shape(), 0.25 * n * (n - 1) * std::log(std::numbers::pi), x.dtype());
    for (std::int64_t i = 0; i < d; ++i) y = y + lgamma(x - static_cast<double>(i) / 2);
    return y;
  });
}
Array betaln(const Operand& a, const Operand& b) {
  return composite("betaln", {a, b}, [](const Arrays& v) {
    Arrays p = reals("betaln", v);
    return lgamma(p[0]) + lgamma(p[1]) - lgamma(p[0] + p[1]);
  });
}
Array beta(const Operand& a, const Operand& b) {
  return composite("beta", {a, b}, [](const Arrays& v) {
    Arrays p = reals("beta", v);
    return gammasgn(p[0]) * gammasgn(p[1]) * gammasgn(p[0] + p[1]) * exp(betaln(p[0], p[1]));
  });
}
Array poch(const Operand& z, const Operand& m) {
  return composite("poch", {z, m}, [](const Arrays& v) {
    Arrays p = reals("poch", v);
    return where(p[1] == 0, number_like(p[0], 1), gamma(p[0] + p[1]) / gamma(p[0]));
  });
}
Array factorial(const Operand& n) {
  return composite("factorial", {n}, [](const Arrays& v) {
    Array a = reals("factorial", v)[0];
    return where(a < 0, 0, exp(lgamma(a + 1)));
  });
}
Array comb(const Operand& n, const Operand& k, bool repetition) {
  return composite("comb", {n, k}, [&](const Arrays& v) {
    Arrays p = reals("comb", v);
    if (repetition) return where((p[1] == 0) & (p[0] >= 0), 1.0, comb(p[0] + p[1] - 1, p[1]));
    Array fits = (p[1] <= p[0]) & (p[0] >= 0) & (p[1] >= 0);
    Array a = where(fits, p[0], 0.0);
    Array b = where(fits, p[1], 0.0);
    return where(fits, exp(lgamma(a + 1) - lgamma(b + 1) - lgamma(a + 1 - b)), 0.0);
  });
}

// --- others ---------------------------------------------------------------------------------------------------------

namespace {
Array box_cox(const Array& log_x, const Array& lambda) {
  Array zero = lambda == 0;
  Array safe = where(zero, 1, lambda);
  return where(zero, log_x, expm1(safe * log_x) / safe);
}
}  // namespace

Array boxcox(const Operand& x, const Operand& lambda) {
  return composite("boxcox", {x, lambda}, [](const Arrays& v) {
    Arrays p = reals("boxcox", v);
    return box_cox(log(p[0]), p[1]);
  });
}
Array boxcox1p(const Operand& x, const Operand& lambda) {
  return composite("boxcox1p", {x, lambda}, [](const Arrays& v) {
    Arrays p = reals("boxcox1p", v);
    return box_cox(log1p(p[0]), p[1]);
  });
}
Array erfcx(const Operand& x) {
  return composite("erfcx", {x}, [](const Arrays& v) {
    Array a = reals("erfcx", v)[0];
    const bool wide = a.dtype() == float64;
    if (!wide) a = program::cast(a, float32, a.weak_type(), Loc::current());
    // Where erfc is about to vanish the asymptotic series has converged.
    Array far = a > (wide ? 25.0 : 9.0);
    Array near = where(far, 1, a);
    Array t = 1 / (2 * square(where(far, a, 100)));
    Array series = zeros_like(a);
    for (int k = 9; k > 0; --k) series = (1 + series) * (1 - 2 * k) * t;
    Array tail = (1 + series) / (where(far, a, 1) * std::sqrt(std::numbers::pi));
    Array y = where(far, tail, exp(square(near)) * erfc(near));
    return program::cast(y, program::inexact_dtype(v[0].dtype()), v[0].weak_type(), Loc::current());
  });
}
Array i0(const Operand& x) { return tessera::i0(x); }
Array i0e(const Operand& x) { return bessel_i0e(x); }
Array i1e(const Operand& x) { return bessel_i1e(x); }
Array i1(const Operand& x) {
  return composite("i1", {x}, [](const Arrays& v) {
    Array a = reals("i1", v)[0];
    return exp(abs(a)) * bessel_i1e(a);
  });
}
Array spence(const Operand& x) {
  return composite("spence", {x}, [](const Arrays& v) {
    Array a = full_float("spence", v[0]);
    // Reflections bring every argument near 1, where the quotient of polynomials holds (Cephes).
    Array ordinary = (a > 0) & (a != 1);
    Array z = where(ordinary, a, 0.75);
    Array large = z > 2;
    z = where(large, 1 / z, z);
    Array above = z > 1.5;
    Array below = z < 0.5;
    Array w = where(above, 1 / z - 1, where(below, -z, z - 1));
    Array y = -w *
              polynomial({4.6512858607399003e-05, 0.007315890452380947, 0.13384763957830903, 0.8796913117545303,
                          2.7114985119655346, 4.256971560081218, 3.297713409852251, 1.0},
                         w) /
              polynomial({0.0006909904889125533, 0.02540437639325444, 0.2829748606025681, 1.4117259775183106,
                          3.6380053334513707, 5.03278880143317, 3.547713409852251, 1.0},
                         w);
    const double sixth = std::numbers::pi * std::numbers::pi / 6;
    y = where(below, sixth - log(z) * log(1 - z) - y, y);
    y = where(large | above, -0.5 * square(log(z)) - y, y);
    return where(a == 0, sixth, where(a == 1, 0, where(a > 0, y, kNaN)));
  });
}

}  // namespace tessera::special
