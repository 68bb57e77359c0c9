// SPDX-License-Identifier: Apache-2.0
#include "core/special_values.h"

#include <math.h>  // lgamma_r

#include <cmath>
#include <numbers>

#include "core/special_numbers.h"

namespace tessera::core {

double log_gamma(double x) {
  int sign;
  return ::lgamma_r(x, &sign);
}

double digamma(double x) {
  if (std::isnan(x) || (x <= 0 && std::floor(x) == x)) return kNan;
  if (std::isinf(x)) return x;
  double shift = 0;
  if (x < 0.5) {  // reflection; the exact distance to the nearest whole number keeps the tangent accurate everywhere
    shift = -std::numbers::pi / std::tan(std::numbers::pi * std::remainder(x, 1.0));
    x = 1 - x;
  }
  for (; x < 10; x += 1) shift -= 1 / x;
  // log x - 1/(2x) - sum of B_2k / (2k x^2k)
  static constexpr double terms[] = {1.0 / 12,  -1.0 / 120,     1.0 / 252, -1.0 / 240,
                                     1.0 / 132, -691.0 / 32760, 1.0 / 12,  -3617.0 / 8160};
  double y = 1 / (x * x);
  double tail = 0;
  for (int k = 7; k >= 0; --k) tail = (tail + terms[k]) * y;
  return shift + std::log(x) - 0.5 / x - tail;
}

// Euler-Maclaurin: a direct sum up to a base w > 9, an integral, and corrections with Bernoulli numbers.
double zeta(double x, double q) {
  if (std::isnan(x) || std::isnan(q) || x < 1) return kNan;
  if (x == 1) return kInf;
  if (q <= 0) {
    if (q == std::floor(q)) return std::fmod(x, 2) == 0 ? kInf : kNan;
    if (x != std::floor(x)) return kNan;
  }
  if (std::isinf(x)) return q > 1 ? 0 : q == 1 ? 1 : kInf;
  if (std::isinf(q)) return 0;
  static constexpr double ratios[] = {12.0,  // (2k)! / B_2k
                                      -720.0,
                                      30240.0,
                                      -1209600.0,
                                      47900160.0,
                                      -1.8924375803183791606e9,
                                      7.47242496e10,
                                      -2.950130727918164224e12,
                                      1.1646782814350067249e14,
                                      -4.5979787224074726105e15,
                                      1.8152105401943546773e17,
                                      -7.1661652561756670113e18};
  double sum = std::pow(q, -x);
  double w = q;
  double term = 0;
  for (int i = 0; i < 9 || w <= 9; ++i) {
    w += 1;
    term = std::pow(w, -x);
    sum += term;
    if (w > 0 && std::abs(term) < kEps * std::abs(sum) / 16) return sum;
  }
  sum += term * w / (x - 1) - 0.5 * term;
  double rising = 1;
  for (int k = 0; k < 12; ++k) {
    rising *= x + 2 * k;
    term /= w;
    double correction = rising * term / ratios[k];
    sum += correction;
    if (std::abs(correction) < kEps * std::abs(sum) / 16) break;
    rising *= x + 2 * k + 1;
    term /= w;
  }
  return sum;
}

double polygamma(double n, double x) {
  if (std::isnan(n) || n < 0 || n != std::floor(n)) return kNan;
  if (n == 0) return digamma(x);
  double z = zeta(n + 1, x);
  double size = n < 170 ? std::tgamma(n + 1) * z : std::exp(log_gamma(n + 1) + std::log(z));
  return std::fmod(n, 2) == 0 ? -size : size;
}

// A rational first guess within 0.3 %, then Halley's steps, each of which triples the digits.
double erf_inv(double x) {
  if (std::isnan(x) || std::abs(x) > 1) return kNan;
  if (std::abs(x) == 1) return std::copysign(kInf, x);
  if (x == 0) return x;
  double magnitude = std::abs(x);
  double rest = 1 - magnitude;
  double log_both = std::log1p(-magnitude) + std::log1p(magnitude);
  double half = 2 / (std::numbers::pi * 0.147) + log_both / 2;
  double shifted = -log_both / 0.147;
  double y = std::sqrt(shifted / (std::sqrt(half * half + shifted) + half));
  for (int step = 0; step < 3; ++step) {
    // Near 1 the complement keeps the digits.
    double error = magnitude < 0.5 ? std::erf(y) - magnitude : rest - std::erfc(y);
    double newton = error / (2 * std::numbers::inv_sqrtpi * std::exp(-y * y));
    y -= newton / (1 + newton * y);
  }
  return std::copysign(y, x);
}

namespace {
// Every term of the power series is positive, so it loses nothing up to where the asymptotic series is exact.
double bessel_ie(int order, double x) {
  if (x > 35) {
    double mu = 4.0 * order * order;
    double sum = 1;
    double term = 1;
    for (int k = 1; k < 60; ++k) {
      term *= -(mu - (2.0 * k - 1) * (2.0 * k - 1)) / (k * 8 * x);
      sum += term;
      if (std::abs(term) < kEps / 16) break;
    }
    return sum / (std::sqrt(2 * std::numbers::pi) * std::sqrt(x));  // 2 pi x may overflow
  }
  double quarter = x * x / 4;
  double term = order == 0 ? 1 : x / 2;
  double sum = term;
  for (int k = 1; k < 500; ++k) {
    term *= quarter / (static_cast<double>(k) * (k + order));
    sum += term;
    if (term < kEps * sum / 16) break;
  }
  return sum * std::exp(-x);
}
}  // namespace

double bessel_i0e(double x) { return std::isnan(x) ? x : std::isinf(x) ? 0 : bessel_ie(0, std::abs(x)); }
double bessel_i1e(double x) {
  return std::isnan(x) ? x : std::copysign(std::isinf(x) ? 0 : bessel_ie(1, std::abs(x)), x);
}

}  // namespace tessera::core
