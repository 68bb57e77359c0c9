// SPDX-License-Identifier: Apache-2.0
// Doubles that the files of special functions share.
#pragma once

#include <limits>

namespace tessera::core {

inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
inline constexpr double kInf = std::numeric_limits<double>::infinity();
inline constexpr double kEps = std::numeric_limits<double>::epsilon();

}  // namespace tessera::core
