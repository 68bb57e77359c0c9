// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>

#include "tessera/dtype.h"

namespace tessera::core {

/// The largest number of an integer dtype, as far as 63 bits hold it.
inline std::int64_t largest_integer(DType t) {
  auto bits = dtype_size(t) * 8 - (is_signed_int(t) ? 1 : 0);
  return bits >= 63 ? std::numeric_limits<std::int64_t>::max() : (std::int64_t{1} << bits) - 1;
}

}  // namespace tessera::core
