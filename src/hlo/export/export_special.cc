// SPDX-License-Identifier: Apache-2.0
// Special functions that neither StableHLO nor CHLO has: composites whose decompositions are the usual series and
// continued fractions, in float64, with a loop that ends when all elements have converged.
#include <limits>

#include "base/strings.h"
#include "hlo/export/export.h"
#include "ops/ops.h"

namespace tessera::hlo {

namespace {
namespace def = ops::def;
using ir::Eqn;
using ir::Type;
using ir::Types;

// A float64 or bool array, written as it is computed.
struct Num {
  Writer* w = nullptr;
  Text t;
  Num made(const char* op, const Texts& in) const { return {w, w->op(op, in, in[0].type)}; }
  Num number(double v) const { return {w, w->constant(v, DType::F64, t.type.shape)}; }
};
Num operator+(const Num& x, const Num& y) { return x.made("stablehlo.add", {x.t, y.t}); }
Num operator-(const Num& x, const Num& y) { return x.made("stablehlo.subtract", {x.t, y.t}); }
Num operator*(const Num& x, const Num& y) { return x.made("stablehlo.multiply", {x.t, y.t}); }
Num operator/(const Num& x, const Num& y) { return x.made("stablehlo.divide", {x.t, y.t}); }
Num operator+(const Num& x, double y) { return x + x.number(y); }
Num operator-(const Num& x, double y) { return x - x.number(y); }
Num operator*(const Num& x, double y) { return x * x.number(y); }
Num operator-(double x, const Num& y) { return y.number(x) - y; }
Num operator/(double x, const Num& y) { return y.number(x) / y; }
Num operator-(const Num& x) { return x.made("stablehlo.negate", {x.t}); }
Num abs(const Num& x) { return x.made("stablehlo.abs", {x.t}); }
Num exp(const Num& x) { return x.made("stablehlo.exponential", {x.t}); }
Num log(const Num& x) { return x.made("stablehlo.log", {x.t}); }
Num log1p(const Num& x) { return x.made("stablehlo.log_plus_one", {x.t}); }
Num lgamma(const Num& x) { return x.made("chlo.lgamma", {x.t}); }
Num digamma(const Num& x) { return x.made("chlo.digamma", {x.t}); }
Num rsqrt(const Num& x) { return x.made("stablehlo.rsqrt", {x.t}); }
Num compared(const Num& x, const Num& y, const char* how) { return {x.w, x.w->compare(x.t, y.t, how)}; }
Num operator<(const Num& x, const Num& y) { return compared(x, y, "LT"); }
Num operator>(const Num& x, const Num& y) { return compared(x, y, "GT"); }
Num operator>(const Num& x, double y) { return x > x.number(y); }
Num operator==(const Num& x, double y) { return compared(x, x.number(y), "EQ"); }
Num both(const Num& x, const Num& y) { return x.made("stablehlo.and", {x.t, y.t}); }
Num either(const Num& x, const Num& y) { return x.made("stablehlo.or", {x.t, y.t}); }
Num pick(const Num& which, const Num& yes, const Num& no) { return {yes.w, yes.w->select(which.t, yes.t, no.t)}; }

using Nums = std::vector<Num>;
constexpr double kEps = std::numeric_limits<double>::epsilon();
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kSteps = 2000;

// Repeats `step`, which gives the values again and which elements go on; those that do not keep theirs.
Nums iterate(const Nums& start, const std::function<std::pair<Nums, Num>(const Nums&, const Num& k)>& step) {
  Writer& w = *start[0].w;
  const Shape& shape = start[0].t.type.shape;
  Texts carried{w.constant(1, DType::F64), w.constant(1, DType::Bool, shape)};
  for (const auto& s : start) carried.push_back(s.t);
  Dims all;
  for (std::size_t d = 0; d < shape.size(); ++d) all.push_back(static_cast<std::int64_t>(d));
  Type flag{DType::Bool, {}, false};
  Texts end = w.while_loop(
      carried,
      [&](const Texts& a) {
        Text any = all.empty() ? a[1] : w.reduce({a[1]}, {flag}, all, "or")[0];
        return w.op("stablehlo.and", {any, w.compare(a[0], w.constant(kSteps, DType::F64), "LT")}, flag);
      },
      [&](const Texts& a) {
        Nums before;
        for (std::size_t i = 2; i < a.size(); ++i) before.push_back({&w, a[i]});
        auto [after, goes_on] = step(before, {&w, w.wide(a[0], shape)});
        Num active{&w, a[1]};
        Texts out{w.op("stablehlo.add", {a[0], w.constant(1, DType::F64)}, a[0].type), both(active, goes_on).t};
        for (std::size_t i = 0; i < after.size(); ++i) out.push_back(pick(active, after[i], before[i]).t);
        return out;
      });
  Nums out;
  for (std::size_t i = 2; i < end.size(); ++i) out.push_back({&w, end[i]});
  return out;
}

struct Dual {
  Num value, by_a;
};
// 1 + x/(a+1) + x^2/((a+1)(a+2)) + …, and its derivative by a.
Dual gamma_series(const Num& a, const Num& x) {
  Nums end = iterate({a.number(1), a.number(0), a.number(1), a.number(0)}, [&](const Nums& v, const Num& k) {
    Num r = a + k;
    Num by_a = v[3] * (x / r) - v[2] * x / (r * r), term = v[2] * (x / r);
    Num sum = v[0] + term, sum_by_a = v[1] + by_a;
    Num goes_on = either(term > sum * (kEps / 8), abs(by_a) > abs(sum_by_a) * (kEps / 8));
    return std::pair(Nums{sum, sum_by_a, term, by_a}, goes_on);
  });
  return {end[0], end[1]};
}
// Continued fraction of igammac / prefix: numerators p and denominators q by forward recurrence.
Dual gamma_fraction(const Num& a, const Num& x) {
  Num zero = a.number(0), one = a.number(1), z0 = x - a + 2.0;
  // p2, p2', q2, q2', p1, p1', q1, q1', answer, answer'
  Num v0 = (x + 1.0) / (z0 * x), d0 = v0 / z0;
  Nums start{one, zero, x, zero, x + 1.0, zero, z0 * x, -x, v0, d0};
  Nums end = iterate(start, [&](const Nums& v, const Num& k) {
    Num y = 1.0 - a + k, z = z0 + k * 2.0, yk = y * k;
    auto next = [&](std::size_t i) {
      return std::pair(v[i + 4] * z - v[i] * yk, v[i + 5] * z - v[i + 4] - v[i + 1] * yk + v[i] * k);
    };
    auto [p, dp] = next(0);
    auto [q, dq] = next(2);
    Num answer = p / q, by_a = (dp - answer * dq) / q;
    Num goes_on = either(abs(answer - v[8]) > abs(answer) * kEps, abs(by_a - v[9]) > abs(by_a) * kEps);
    Num scale = pick(abs(p) > 1 / kEps, a.number(kEps), one);
    Nums out;
    for (const auto& n : {v[4], v[5], v[6], v[7], p, dp, q, dq}) out.push_back(n * scale);
    out.push_back(answer);
    out.push_back(by_a);
    return std::pair(out, goes_on);
  });
  return {end[8], end[9]};
}
Num gamma_prefix(const Num& a, const Num& x) { return exp(a * log(x) - x - lgamma(a)); }

// What both ways need, on operands at which they are defined; the others are put right at the end.
struct Gamma {
  Num a, x, wrong, fraction_serves;
  Dual fraction, series;
  Num prefix;
};
Gamma gamma_of(const Num& a0, const Num& x0) {
  auto at_least_zero = [](const Num& v) { return compared(v, v.number(0), "GE"); };
  Num right = both(at_least_zero(a0), at_least_zero(x0));
  Num usual = both(both(both(a0 > 0, x0 > 0), right), both(a0 < a0.number(kInfinity), x0 < x0.number(kInfinity)));
  Num a = pick(usual, a0, a0.number(1)), x = pick(usual, x0, x0.number(1));
  Num serves = both(x > 1, x > a);
  Num one = a.number(1);
  Dual f = gamma_fraction(a, pick(serves, x, a + 2.0));
  Dual s = gamma_series(a, pick(serves, one, x));
  return {a, x, right, serves, f, s, gamma_prefix(a, x)};
}
Num nan_like(const Num& x) { return x.number(std::numeric_limits<double>::quiet_NaN()); }

Num igamma_of(const Num& a, const Num& x, bool upper) {
  Gamma g = gamma_of(a, x);
  Num below = pick(g.fraction_serves, 1.0 - g.prefix * g.fraction.value, g.prefix / g.a * g.series.value);
  Num above = pick(g.fraction_serves, g.prefix * g.fraction.value, 1.0 - g.prefix / g.a * g.series.value);
  Num r = upper ? above : below;
  Num none = a.number(upper ? 1 : 0), all = a.number(upper ? 0 : 1);
  r = pick(a == kInfinity, none, r);
  r = pick(either(a == 0.0, x == kInfinity), all, r);
  r = pick(x == 0.0, pick(a == 0.0, nan_like(x), none), r);
  return pick(g.wrong, r, nan_like(x));
}
Num gradient_of(const Num& a, const Num& x, bool sampled) {
  Gamma g = gamma_of(a, x);
  Num high = g.fraction.value * (log(g.x) - digamma(g.a)) + g.fraction.by_a;
  Num low = g.series.value * (log(g.x) - digamma(g.a + 1.0)) + g.series.by_a;
  Num r = sampled ? pick(g.fraction_serves, g.x * high, -(g.x / g.a * low))
                  : pick(g.fraction_serves, -(g.prefix * high), g.prefix / g.a * low);
  r = pick(sampled ? x == 0.0 : either(x == 0.0, x == kInfinity), x.number(0), r);
  return pick(both(g.wrong, a > 0), r, nan_like(x));
}

// https://dlmf.nist.gov/8.17.E22 by Lentz's method.
Num beta_fraction(const Num& a, const Num& b, const Num& x) {
  auto keep = [](const Num& v) { return pick(abs(v) > 1e-300, v, v.number(1e-300)); };
  Num d0 = 1.0 / keep(1.0 - (a + b) * x / (a + 1.0));
  Nums end = iterate({a.number(1), d0, d0}, [&](const Nums& v, const Num& m) {
    Num two = m * 2.0;
    Num even = m * (b - m) * x / ((a + two - 1.0) * (a + two));
    Num d = 1.0 / keep(even * v[1] + 1.0), c = keep(even / v[0] + 1.0);
    Num h = v[2] * d * c;
    Num odd = -((a + m) * (a + b + m) * x / ((a + two) * (a + two + 1.0)));
    d = 1.0 / keep(odd * d + 1.0);
    c = keep(odd / c + 1.0);
    return std::pair(Nums{c, d, h * d * c}, abs(d * c - 1.0) > kEps);
  });
  return end[2];
}
Num betainc_of(const Num& a0, const Num& b0, const Num& x0) {
  Num inside = both(both(a0 > 0, b0 > 0), both(x0 > 0, x0 < x0.number(1)));
  inside = both(inside, both(a0 < a0.number(kInfinity), b0 < b0.number(kInfinity)));
  Num a = pick(inside, a0, a0.number(1)), b = pick(inside, b0, b0.number(1)), x = pick(inside, x0, x0.number(0.5));
  Num low = x < (a + 1.0) / (a + b + 2.0);
  Num prefix = exp(a * log(x) + b * log1p(-x) + lgamma(a + b) - lgamma(a) - lgamma(b));
  Num f = beta_fraction(pick(low, a, b), pick(low, b, a), pick(low, x, 1.0 - x));
  Num r = pick(low, prefix * f / a, 1.0 - prefix * f / b);
  auto at_least_zero = [](const Num& v) { return compared(v, v.number(0), "GE"); };
  Num right = both(both(at_least_zero(a0), at_least_zero(b0)), both(at_least_zero(x0), at_least_zero(1.0 - x0)));
  Num mass_at_zero = either(a0 == 0.0, b0 == kInfinity), mass_at_one = either(b0 == 0.0, a0 == kInfinity);
  Num zero = a.number(0), one = a.number(1);
  r = pick(either(x0 == 0.0, x0 == 1.0), x0, r);
  r = pick(mass_at_one, pick(x0 == 1.0, one, zero), r);
  r = pick(mass_at_zero, pick(x0 == 0.0, zero, one), r);
  r = pick(both(mass_at_zero, mass_at_one), nan_like(x0), r);
  return pick(right, r, nan_like(x0));
}

// A power series up to 35, an asymptotic one behind.
Num bessel_of(const Num& x0) {
  Num x = abs(x0), far = x > 35;
  Num near_x = pick(far, x.number(1), x), quarter = near_x * near_x * 0.25;
  Nums sum = iterate({x.number(1), x.number(1)}, [&](const Nums& v, const Num& k) {
    Num term = v[1] * quarter / (k * k), total = v[0] + term;
    return std::pair(Nums{total, term}, term > total * (kEps / 16));
  });
  Num far_x = pick(far, x, x.number(40)), eight = far_x * 8.0, total = x.number(1), term = total;
  for (int k = 1; k < 24; ++k) {
    term = term * x.number((2.0 * k - 1) * (2.0 * k - 1)) / (eight * static_cast<double>(k));
    total = total + term;
  }
  Num result = pick(far, total * rsqrt(far_x * 6.283185307179586), sum[0] * exp(-near_x));
  result = pick(x == kInfinity, x.number(0), result);
  return pick(compared(x0, x0, "NE"), x0, result);
}

Texts special(Writer& w, const Eqn& e, const Texts& in, const Types& out) {
  Texts wide;
  for (const auto& t : in) wide.push_back(w.wide(t, out[0].shape));
  return w.composite(e, wide, out, [&](const Texts& a) {
    Nums v;
    for (const auto& t : a) v.push_back({&w, w.convert(t, DType::F64)});
    Num r = e.op == &def::bessel_i0e                    ? bessel_of(v[0])
            : e.op == &def::regularized_incomplete_beta ? betainc_of(v[0], v[1], v[2])
            : e.op == &def::igamma_grad_a               ? gradient_of(v[0], v[1], false)
            : e.op == &def::random_gamma_grad           ? gradient_of(v[0], v[1], true)
                                                        : igamma_of(v[0], v[1], e.op == &def::igammac);
    return Texts{w.convert(r.t, out[0].dtype)};
  });
}
}  // namespace

void add_special_writers(WriterTable& t) {
  for (const auto* op : {&def::bessel_i0e, &def::regularized_incomplete_beta, &def::igamma, &def::igammac,
                         &def::igamma_grad_a, &def::random_gamma_grad}) {
    t[op] = special;
  }
}

}  // namespace tessera::hlo
