// SPDX-License-Identifier: Apache-2.0
// Incomplete gamma and beta functions: a prefix, computed without cancellation, times a series or continued fraction.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/special_numbers.h"
#include "core/special_values.h"

namespace tessera::core {

namespace {
constexpr int kMaxSteps = 1000000;  // about 8 sqrt(a) steps are needed

// log(1 + x) - x, exact also where both nearly agree.
double log1p_minus(double x) {
  if (std::abs(x) > 0.5) return std::log1p(x) - x;
  double r = x / (2 + x);
  double square = r * r;
  double sum = 0;
  double power = 1;
  for (int k = 3; k < 60; k += 2) {
    sum += power / k;
    power *= square;
    if (power < kEps / 16) break;
  }
  return r * (2 * square * sum - x);
}

// log gamma(z) - ((z - 1/2) log z - z + log(2 pi) / 2), for z >= 10.
double stirling_rest(double z) {
  static constexpr double terms[] = {1.0 / 12,   -1.0 / 360,      1.0 / 1260, -1.0 / 1680,
                                     1.0 / 1188, -691.0 / 360360, 1.0 / 156};
  double y = 1 / (z * z);
  double sum = 0;
  for (int k = 6; k >= 0; --k) sum = sum * y + terms[k];
  return sum / z;
}

// x^a exp(-x) / gamma(a)
double gamma_prefix(double a, double x) {
  if (a < 10) {
    double half = std::exp(-x / 2);
    return a / std::tgamma(1 + a) * std::pow(x, a) * half * half;
  }
  double off = (x - a) / a;
  double exponent = off < -0.5 ? std::log(x / a) - off : log1p_minus(off);
  return std::sqrt(a / (2 * std::numbers::pi)) * std::exp(a * exponent - stirling_rest(a));
}

struct Dual {
  double value = 0;
  double by_a = 0;
};

// 1 + x/(a+1) + x^2/((a+1)(a+2)) + …
Dual gamma_series(double a, double x) {
  Dual sum{1, 0};
  Dual term{1, 0};
  double r = a;
  for (int i = 0; i < kMaxSteps; ++i) {
    r += 1;
    term.by_a = term.by_a * (x / r) - term.value * x / (r * r);
    term.value *= x / r;
    sum.value += term.value;
    sum.by_a += term.by_a;
    if (term.value < kEps / 8 * sum.value && std::abs(term.by_a) <= kEps / 8 * std::abs(sum.by_a)) break;
  }
  return sum;
}

// Continued fraction of igammac / prefix, by forward recurrence of numerators p and denominators q.
Dual gamma_fraction(double a, double x) {
  double y = 1 - a;
  double z = x + y + 1;
  Dual p2{1, 0};
  Dual q2{x, 0};
  Dual p1{x + 1, 0};
  Dual q1{z * x, -x};
  auto ratio = [](const Dual& p, const Dual& q) {
    double v = p.value / q.value;
    return Dual{v, (p.by_a - v * q.by_a) / q.value};
  };
  Dual answer = ratio(p1, q1);
  for (int i = 1; i < kMaxSteps; ++i) {
    double c = i;
    y += 1;
    z += 2;
    double yc = y * c;
    auto next = [&](const Dual& one, const Dual& two) {
      return Dual{one.value * z - two.value * yc, one.by_a * z - one.value - two.by_a * yc + two.value * c};
    };
    Dual p = next(p1, p2);
    Dual q = next(q1, q2);
    p2 = p1, q2 = q1, p1 = p, q1 = q;
    if (q.value != 0) {
      Dual before = answer;
      answer = ratio(p, q);
      if (std::abs(answer.value - before.value) <= kEps * std::abs(answer.value) &&
          std::abs(answer.by_a - before.by_a) <= kEps * std::abs(answer.by_a)) {
        break;
      }
    }
    if (std::abs(p.value) > 1 / kEps) {
      for (Dual* d : {&p1, &q1, &p2, &q2}) d->value *= kEps, d->by_a *= kEps;
    }
  }
  return answer;
}

bool use_fraction(double a, double x) { return x > 1 && x > a; }
}  // namespace

double igamma(double a, double x) {
  if (!(x >= 0 && a >= 0) || (a == 0 && x == 0)) return kNan;
  if (x == 0) return 0;
  if (a == 0 || std::isinf(x)) return 1;
  if (std::isinf(a)) return 0;
  if (use_fraction(a, x)) return 1 - gamma_prefix(a, x) * gamma_fraction(a, x).value;
  return gamma_prefix(a, x) / a * gamma_series(a, x).value;
}

double igammac(double a, double x) {
  if (!(x >= 0 && a >= 0) || (a == 0 && x == 0)) return kNan;
  if (x == 0) return 1;
  if (a == 0 || std::isinf(x)) return 0;
  if (std::isinf(a)) return 1;
  if (use_fraction(a, x)) return gamma_prefix(a, x) * gamma_fraction(a, x).value;
  return 1 - gamma_prefix(a, x) / a * gamma_series(a, x).value;
}

double igamma_grad_a(double a, double x) {
  if (!(x >= 0 && a > 0)) return kNan;
  if (x == 0 || std::isinf(x)) return 0;
  if (use_fraction(a, x)) {
    Dual f = gamma_fraction(a, x);
    return -gamma_prefix(a, x) * (f.value * (std::log(x) - digamma(a)) + f.by_a);
  }
  Dual s = gamma_series(a, x);
  return gamma_prefix(a, x) / a * (s.value * (std::log(x) - digamma(a + 1)) + s.by_a);
}

double random_gamma_grad(double a, double x) {
  if (!(x >= 0 && a > 0)) return kNan;
  if (x == 0) return 0;
  if (use_fraction(a, x)) {
    Dual f = gamma_fraction(a, x);
    return x * (f.value * (std::log(x) - digamma(a)) + f.by_a);
  }
  Dual s = gamma_series(a, x);
  return -x / a * (s.value * (std::log(x) - digamma(a + 1)) + s.by_a);
}

namespace {
// x^a (1 - x)^b gamma(a + b) / (gamma(a) gamma(b)); `y` is 1 - x.
double beta_prefix(double a, double b, double x, double y) {
  double n = a + b;
  if (std::min(a, b) >= 10) {
    double u = (y < x ? b * x - a * y : x * n - a) / a;  // x n / a - 1 and y n / b - 1
    double v = -u * a / b;
    double exponent = a * log1p_minus(u) + b * log1p_minus(v);
    return std::sqrt(a / n * b / (2 * std::numbers::pi)) *
           std::exp(exponent + stirling_rest(n) - stirling_rest(a) - stirling_rest(b));
  }
  double small = std::min(a, b);
  double large = std::max(a, b);
  double log_power = a * std::log(x) + b * (x < 0.5 ? std::log1p(-x) : std::log(y));
  double inverse_gamma = small / std::tgamma(1 + small);
  if (large < 10) return std::exp(log_power) * inverse_gamma * large * std::tgamma(1 + n) / n / std::tgamma(1 + large);
  // log gamma(n) - log gamma(large) without taking a difference of large numbers
  double growth =
      (large - 0.5) * std::log1p(small / large) + small * std::log(n) - small + stirling_rest(n) - stirling_rest(large);
  return std::exp(log_power + growth) * inverse_gamma;
}

// Continued fraction of https://dlmf.nist.gov/8.17.E22 by Lentz's method.
double beta_fraction(double a, double b, double x) {
  constexpr double tiny = 1e-300;
  auto keep = [](double v) { return std::abs(v) < tiny ? tiny : v; };
  double c = 1;
  double d = 1 / keep(1 - (a + b) * x / (a + 1));
  double h = d;
  for (int m = 1; m < kMaxSteps; ++m) {
    double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
    d = 1 / keep(1 + even * d);
    c = keep(1 + even / c);
    h *= d * c;
    double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
    d = 1 / keep(1 + odd * d);
    c = keep(1 + odd / c);
    h *= d * c;
    if (std::abs(d * c - 1) <= kEps) break;
  }
  return h;
}
}  // namespace

double betainc(double a, double b, double x) {
  if (!(a >= 0 && b >= 0 && x >= 0 && x <= 1)) return kNan;
  bool at_zero = a == 0 || b == kInf;  // all mass at 0, at 1
  bool at_one = b == 0 || a == kInf;
  if (at_zero && at_one) return kNan;
  if (at_zero) return x > 0 ? 1 : 0;
  if (at_one) return x < 1 ? 0 : 1;
  if (x == 0 || x == 1) return x;
  double y = 1 - x;
  if (x < (a + 1) / (a + b + 2)) return beta_prefix(a, b, x, y) * beta_fraction(a, b, x) / a;
  return 1 - beta_prefix(a, b, x, y) * beta_fraction(b, a, y) / b;
}

}  // namespace tessera::core
