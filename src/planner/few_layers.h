// SPDX-License-Identifier: Apache-2.0
// A program of many equal layers with a few of them: what one layer costs is what two such programs differ by.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <vector>

#include "ir/graph.h"

namespace tessera::planner {

/// A program without some of its layers. Those on both sides of the gap are neighbours in it.
struct WithoutLayers {
  ir::GraphPtr graph;
  std::vector<std::size_t> inputs, outputs;  ///< by number in the whole program: those that it still has
};

struct FewLayers {
  WithoutLayers fewer, more;
  /// How often the whole program has what `more` has beyond `fewer`.
  double times = 0;

  /// Of what adds up over layers: the whole program's, from those of both.
  double whole(double of_fewer, double of_more) const { return of_fewer + times * std::max(0.0, of_more - of_fewer); }
};

/// Equal layers are parts of the list of equations that follow each other with the same operations on the same types,
/// each on arguments of its own; parts elsewhere in the list (the backward pass, the optimizer) belong to the layers
/// whose arguments or values they read. Nothing for a program of less than a dozen layers, and where one of the
/// equations that stay reads a value that has no like in the layers that stay: a sum over all of them, say.
std::optional<FewLayers> few_layers(const ir::Graph& g);

}  // namespace tessera::planner
