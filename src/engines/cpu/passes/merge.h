// SPDX-License-Identifier: Apache-2.0
// Equations that compute the same become one, and those that compute nothing none.
#pragma once

#include "ir/graph.h"

namespace tessera::cpu {

/// The same program. Large values that fused groups make on their way (element-wise chains, broadcasts, views) stay
/// with each of their readers: sharing them would write them to memory.
ir::GraphPtr merge_equal(const ir::GraphPtr& graph);

}  // namespace tessera::cpu
