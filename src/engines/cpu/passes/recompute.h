// SPDX-License-Identifier: Apache-2.0
// Values that one fused group stores and a later one reads are computed again by the reader where that is cheaper than
// the way through memory: residuals of activation functions, mostly.
#pragma once

#include "ir/graph.h"

namespace tessera::cpu {

/// The same program, in which equations may come twice.
ir::GraphPtr recompute_cheap(const ir::GraphPtr& graph);

}  // namespace tessera::cpu
