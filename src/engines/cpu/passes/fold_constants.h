// SPDX-License-Identifier: Apache-2.0
// What constants say about a program before it runs.
#pragma once

#include "ir/graph.h"

namespace tessera::cpu {

/// Of a partitioned graph, with the same results to the bit:
/// - whole numbers and truth values without dimensions that are computed from constants become constants, so that a
///   block knows its divisor where NumPy's rule for zeros stands before it;
/// - `x / c` becomes `x * (1 / c)` where c is a constant power of two without dimensions: both round the same number.
/// Of
///   attention's scores over sqrt(64) each element would wait for the divider.
ir::GraphPtr fold_constants(const ir::GraphPtr& graph);

}  // namespace tessera::cpu
