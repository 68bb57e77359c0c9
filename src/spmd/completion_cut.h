// SPDX-License-Identifier: Apache-2.0
// Where a partial sum that passes through linear equations is completed with the fewest bytes.
#pragma once

#include <vector>

#include "spmd/late_completion.h"

namespace tessera::spmd {

/// The values that stay partial over `axes` when the sum `origin` is completed where the least is moved over all that
/// is linear in it: those before a minimum cut of the graph, and those of the cut, which are completed where they are
/// read. Empty where nothing is less than completing `origin` itself. `wanted` has the layouts that propagation chose.
std::vector<ir::ValueId> left_partial(const ir::Graph& g, const ir::MeshAxes& mesh,
                                      const std::vector<ir::Layout>& wanted, const GraphUses& uses, ir::ValueId origin,
                                      AxisMask axes);

}  // namespace tessera::spmd
