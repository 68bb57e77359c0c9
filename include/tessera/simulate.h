// SPDX-License-Identifier: Apache-2.0
// Predictions for programs of C++ functions and of StableHLO modules; nothing runs, and no device need be there.
//
//   AbstractMesh mesh{{"data", 16}, {"model", 8}};
//   auto planned = jit(step, {.in_shardings = {NamedSharding(mesh, P("data", "model")), NamedSharding(mesh,
//   P("data"))}}); ShapeDtype w{{8192, 32768}, bfloat16}, batch{{4096, 8192}, bfloat16}; Simulation s =
//   simulate(planned.lower(w, batch), ClusterModel::preset("h100-dgx", 16));
#pragma once

#include <string>

#include "tessera/cluster_model.h"
#include "tessera/simulation.h"

namespace tessera {

/// What one run of a StableHLO module is predicted to cost on a cluster, under the module's own shardings. Position p
/// of its mesh is taken for device p of the cluster, which may have more. `name` is used in messages. Throws what
/// reading a module throws, `UnimplementedError` for shardings that are not over the axes of one mesh, and `ValueError`
/// for a mesh of more positions than the cluster has devices and what `ClusterModel::check` throws.
Simulation simulate_module(const std::string& module, const ClusterModel& cluster, const std::string& name = "module",
                           const Loc& loc = Loc::current());

/// `lowered.simulate(cluster)`: of a lowered function (`jit(f).lower(...)`), from arrays or from types over an abstract
/// mesh.
template <class Lowered>
Simulation simulate(const Lowered& lowered, const ClusterModel& cluster, const Loc& loc = Loc::current()) {
  return lowered.simulate(cluster, loc);
}

}  // namespace tessera
