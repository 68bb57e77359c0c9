// SPDX-License-Identifier: Apache-2.0
#include "engines/cpu/kernels/elementwise/special_kernels.h"

#include <math.h>  // lgamma_r

#include <cmath>
#include <limits>
#include <numbers>

namespace tessera::kernels {

double lgamma_of(double x) {
  int sign;
  return ::lgamma_r(x, &sign);
}

float lgamma_of(float x) {
  int sign;
  return ::lgammaf_r(x, &sign);
}

double digamma_of(double x) {
  if (x <= 0 && std::floor(x) == x) return std::numeric_limits<double>::quiet_NaN();
  double shift = 0;
  if (x < 0.5) {  // reflection; the exact distance to a whole number keeps the tangent accurate
    shift = -std::numbers::pi / std::tan(std::numbers::pi * std::remainder(x, 1.0));
    x = 1 - x;
  }
  while (x < 10) {
    shift -= 1 / x;
    x += 1;
  }
  // Asymptotic series: ln x - 1/2x - sum B_2k / (2k x^2k).
  double y = 1 / (x * x);
  double tail =
      y * (1.0 / 12 - y * (1.0 / 120 -
                           y * (1.0 / 252 - y * (1.0 / 240 - y * (1.0 / 132 - y * (691.0 / 32760 - y * (1.0 / 12)))))));
  return shift + std::log(x) - 0.5 / x - (std::isinf(x) ? 0 : tail);
}

float digamma_of(float x) { return static_cast<float>(digamma_of(static_cast<double>(x))); }

}  // namespace tessera::kernels
