// SPDX-License-Identifier: Apache-2.0
// Divisions by powers of two become products, which give the same bits.
#pragma once

#include "ir/graph.h"

namespace tessera::cpu {

/// `x / c` becomes `x * (1 / c)` where c is a constant power of two without dimensions: both round the same number. Of
/// attention's scores over sqrt(64) each element would wait for the divider. Of a partitioned graph.
ir::GraphPtr fold_divisors(const ir::GraphPtr& graph);

}  // namespace tessera::cpu
