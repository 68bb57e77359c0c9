// SPDX-License-Identifier: Apache-2.0
// Values that one fused group stores and a later one reads are computed again by the reader where that is cheaper than
// the way through memory: residuals of activation functions, mostly.
#pragma once

#include <vector>

#include "engines/cpu/passes/fuse.h"
#include "ir/graph.h"

namespace tessera::cpu {

/// A graph and its equations in the order and the groups in which they run.
struct FusedGraph {
  ir::GraphPtr graph;
  std::vector<FusionGroup> groups;  ///< `fusion_groups` of the graph
};

/// The same program, in which equations may come twice. What pays follows from the groups, so they come with it.
FusedGraph recompute_cheap(const ir::GraphPtr& graph);

}  // namespace tessera::cpu
