// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace tessera {

/// How exactly a device may compute products, as `jax.lax.Precision`. The CPU engine computes all of them in the
/// operands' dtype or a wider one.
enum class Precision : std::uint8_t { Default, High, Highest };

}  // namespace tessera
