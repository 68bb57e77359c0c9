// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "tessera/shape.h"

namespace tessera::ops {

/// The dimensions of an operand of `dot_general` that are neither contracted nor batches, which the result has in this
/// order.
Dims free_dims(std::int64_t rank, const Dims& contracting, const Dims& batch);

}  // namespace tessera::ops
