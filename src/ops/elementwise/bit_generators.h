// SPDX-License-Identifier: Apache-2.0
// The two generators of Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3" (SC 2011), with state and order of
// numbers as XLA's rng_bit_generator has them, so that seeds mean the same.
#pragma once

#include "ops/ops.h"

namespace tessera::ops {

struct GeneratedBits {
  Value state;  ///< after these numbers: u64 words, as many as before
  Value bits;   ///< unsigned integers
};
/// Numbers of `bytes` bytes (1, 2, 4 or 8), one or more. The state of Philox4x32-10 is u64[2] or u64[3], that of
/// Threefry-2x32 u64[2].
GeneratedBits generate_bits(Value state, const Shape& shape, std::int64_t bytes, bool threefry);

}  // namespace tessera::ops
