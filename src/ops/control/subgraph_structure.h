// SPDX-License-Identifier: Apache-2.0
// Ops that hold sub-graphs, seen as ties between values outside and inside.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "ir/graph.h"

namespace tessera::ops {

/// Operand (or result) `outer` of the equation is input (or output) `inner` of a sub-graph; when `stacked`, the one
/// inside is a slice along dimension 0 of the one outside.
struct Tie {
  std::size_t outer;
  std::size_t inner;
  bool stacked = false;
};

struct Body {
  ir::GraphPtr graph;
  std::vector<Tie> inputs;   ///< one an input of the graph, in order
  std::vector<Tie> outputs;  ///< those outputs that are results of the equation
};

struct Control {
  std::vector<Body> bodies;
  std::vector<std::pair<std::size_t, std::size_t>> carried;  ///< operand and result that are one loop variable
  std::vector<std::size_t> scalars;                          ///< operands that every position must know whole
  std::int64_t times = 1;                                    ///< how often the bodies run; -1 where unknown
};
/// Empty for an op without sub-graphs that partitioning knows.
std::optional<Control> control_of(const ir::Eqn& e);
/// The same attributes with other graphs, in the order of `Control::bodies`.
ir::Attrs with_bodies(const ir::Eqn& e, const std::vector<ir::GraphPtr>& graphs);

}  // namespace tessera::ops
