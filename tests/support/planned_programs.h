// SPDX-License-Identifier: Apache-2.0
// Programs with tables of the shardings that people would write for them, for tests of the search for shardings.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tessera/cluster_model.h"
#include "tessera/mesh.h"
#include "tessera/tessera.h"

namespace tessera::test {

using Arrays = std::vector<Array>;

/// A plan by hand: a spec for each argument; the last ones repeat where there are more arguments than specs.
struct WrittenPlan {
  std::string name;
  AbstractMesh mesh;
  std::vector<P> arguments;
};

struct PlannedProgram {
  std::string name;
  std::function<Arrays(const Arrays&)> f;
  Arrays arguments;
  std::vector<WrittenPlan> plans;
  double tolerance = 1e-4;  ///< of results, beside their largest element
};

/// Training steps of perceptrons, a transformer, experts, a convolution net, a recurrent net and embeddings; Fourier
/// transforms, conjugate gradients, clusters of points, a stencil.
std::vector<PlannedProgram> real_programs();

/// Layers of random kinds over matrices of random sizes, every second one with its gradient.
PlannedProgram random_planned_program(std::uint64_t seed);

/// Eight devices so slow beside their links that programs which a test can run gain from being split.
ClusterModel slow_node();

/// What is wrong with the shardings that `automatic` finds: slower than a plan by hand, or other values than on one
/// device. Empty where nothing is. `report` gets a line of figures.
std::string search_fault(const PlannedProgram& p, std::string& report);

}  // namespace tessera::test
