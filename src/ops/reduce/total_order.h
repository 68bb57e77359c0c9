// SPDX-License-Identifier: Apache-2.0
// The larger and the smaller of two floats as IEEE 754's maximum and minimum: a NaN wins, and -0 is below 0.
#pragma once

#include <algorithm>
#include <cmath>

namespace tessera::ops {

inline double maximum_of(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) ? a : b;
  return a == b ? (std::signbit(a) ? b : a) : std::max(a, b);
}
inline double minimum_of(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) ? a : b;
  return a == b ? (std::signbit(a) ? a : b) : std::min(a, b);
}

}  // namespace tessera::ops
