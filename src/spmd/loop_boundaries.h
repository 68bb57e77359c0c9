// SPDX-License-Identifier: Apache-2.0
// Layouts at the boundaries of equations with sub-graphs, and what loops gain by other ones.
#pragma once

#include <optional>
#include <vector>

#include "ops/control/subgraph_structure.h"
#include "spmd/spmd.h"

namespace tessera::spmd {

/// Layouts of an equation with sub-graphs.
struct Boundary {
  std::vector<ir::Layout> in;
  std::vector<ir::Layout> out;
};

/// The bodies, partitioned for that boundary.
std::vector<ir::GraphPtr> partition_bodies(const ir::Module& m, const ops::Control& control, const Boundary& boundary);
/// What a loop reshards in every round although it does not change is resharded before the loop: changes `boundary` and
/// returns true where there is such a value. Of stacked inputs only splitting is: all slices together would take more
/// memory than one at a time.
bool hoist(const ops::Control& control, const std::vector<ir::GraphPtr>& graphs, Boundary& boundary);
/// The boundary with which values that every round takes a slice of, along a dimension that is split, are whole along
/// it before the loop; nothing where there are none.
std::optional<Boundary> gathered_before(const ops::Control& control, const Boundary& boundary);
/// The boundary with which sums that a loop takes over positions in every round only to add them up could be taken
/// once, after it; nothing where there are none.
std::optional<Boundary> summed_after(const ops::Control& control, const std::vector<ir::GraphPtr>& graphs,
                                     const Boundary& boundary);

/// Lets loop variables stay sums where the loop's reader takes them so and every round only passes them on or adds to
/// them. `wanted`: by result, what `sums_wanted` says.
void keep_sums(const ir::Module& m, const ops::Control& control, const std::vector<ir::AxisMask>& wanted,
               Boundary& boundary);

}  // namespace tessera::spmd
