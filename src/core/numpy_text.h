// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "tessera/host_array.h"

namespace tessera::core {

/// `numpy.array2string(a, separator=", ", prefix=" " * prefix, suffix=" " * suffix)`: the widths count only for where
/// lines break and how far continued lines are indented.
std::string numpy_text(const HostArray& a, std::int64_t prefix = 0, std::int64_t suffix = 0);

}  // namespace tessera::core
