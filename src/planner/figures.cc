// SPDX-License-Identifier: Apache-2.0
#include "planner/figures.h"

#include <cmath>
#include <cstdio>

namespace tessera::planner {

namespace {
std::string text(double v, int digits, const char* unit, bool fixed) {
  char out[48];
  if (fixed) {
    std::snprintf(out, sizeof out, "%.*f %s", digits, v, unit);
  } else {
    std::snprintf(out, sizeof out, "%.*g %s", digits, v, unit);
  }
  return out;
}
}  // namespace

std::string seconds_text(double s) {
  const double a = std::abs(s);
  if (a >= 1) return text(s, 4, "s", false);
  return a >= 1e-3 ? text(s * 1e3, 4, "ms", false) : text(s * 1e6, 4, "us", false);
}

std::string bytes_text(std::int64_t n) {
  constexpr double kMiB = 1024.0 * 1024.0;
  const double mib = static_cast<double>(n) / kMiB;
  return mib >= 1024 ? text(mib / 1024, 2, "GiB", true) : text(mib, 2, "MiB", true);
}

std::string percent_text(double share) { return text(100 * share, 1, "%", true); }

}  // namespace tessera::planner
