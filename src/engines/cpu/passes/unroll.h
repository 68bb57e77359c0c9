// SPDX-License-Identifier: Apache-2.0
// Iterations of a loop written one after another, so that steps of one run beside exchanges of another.
#pragma once

#include "ir/graph.h"

namespace tessera::cpu {

/// The body of a scan `times` times in a row. Inputs are its first `consts`, its `carry`, and then the slices of each
/// iteration; outputs the carry and then the slices of each iteration.
ir::GraphPtr unrolled(const ir::Graph& body, std::size_t consts, std::size_t carry, std::size_t times);

}  // namespace tessera::cpu
