// SPDX-License-Identifier: Apache-2.0
// Ways to split one equation: which axes each of its factors may get.
#pragma once

#include <cstdint>
#include <vector>

#include "spmd/factoring.h"

namespace tessera::spmd {

/// Axes that a tensor of the equation has, or is wanted with.
struct Hint {
  std::size_t tensor;
  const DimAxes* dims;
  std::int64_t weight;  ///< bytes of the tensor
};

/// Assignments that are worth comparing, without repetition: hints are merged in several orders, the first one that
/// names a factor wins. The first assignment prefers the results' hints, then those of larger operands.
struct Candidates {
  std::vector<FactorAxes> ways;
  std::vector<FactorAxes> settled;  ///< others, in which axes of dimensions that must be whole split further ones
};
Candidates candidates(const Factoring& factoring, const std::vector<Hint>& hints, const ir::MeshAxes& mesh);

/// Further assignments: `first` with one axis of an operand moved to another factor that results have, whatever that
/// means for the results' layouts.
std::vector<FactorAxes> elsewhere(const Factoring& factoring, const std::vector<Hint>& hints, const FactorAxes& first,
                                  const ir::MeshAxes& mesh);

}  // namespace tessera::spmd
