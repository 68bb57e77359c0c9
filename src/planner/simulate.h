// SPDX-License-Identifier: Apache-2.0
// A program on a cluster that is not there.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "ir/module.h"
#include "tessera/cluster_model.h"
#include "tessera/simulation.h"

namespace tessera::planner {

/// A partitioned graph on a cluster. `donated`: by argument; missing entries are false. Throws `ValueError` where its
/// mesh has more positions than the cluster has devices.
Simulation simulate(const ir::GraphPtr& partitioned, const ClusterModel& cluster, const std::vector<bool>& donated);
/// A placed module: partitioned first.
Simulation simulate(const ir::Module& placed, const ClusterModel& cluster);

/// The module over a mesh of other sizes: `axes` names axes of its meshes. Sizes of axes that are not named stay.
/// Throws `ValueError` for names that no mesh of the module has, `UnimplementedError` for modules with maps over
/// devices, whose shapes are those of one mesh.
ir::Module with_mesh_sizes(ir::Module m, const std::vector<std::pair<std::string, std::int64_t>>& axes);

/// A module as it is read, placed on its own mesh. Throws `UnimplementedError` naming an argument or a result whose
/// sharding no axes can express.
ir::Module placed(ir::Module m);

}  // namespace tessera::planner
