// SPDX-License-Identifier: Apache-2.0
// Values that a graph shows while it is written.
#pragma once

#include <optional>

#include "ops/ops.h"
#include "tessera/host_array.h"

namespace tessera::ops {

/// The value of a small array that is made of constants alone, by the references of its equations; nothing where it
/// depends on an input or has more than a thousand elements.
std::optional<HostArray> known_value(Value x);

}  // namespace tessera::ops
