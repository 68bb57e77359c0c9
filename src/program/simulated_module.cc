// SPDX-License-Identifier: Apache-2.0
#include "hlo/module.h"
#include "planner/simulate.h"
#include "tessera/simulate.h"

namespace tessera {

Simulation simulate_module(const std::string& module, const ClusterModel& cluster, const std::string& name,
                           const Loc& loc) {
  cluster.check("simulate: the cluster", loc);
  return planner::simulate(planner::placed(hlo::import_module(module, {.name = name})), cluster);
}

}  // namespace tessera
