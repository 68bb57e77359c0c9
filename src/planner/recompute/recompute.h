// SPDX-License-Identifier: Apache-2.0
// Values that are computed again where they are read late, in the place of being kept in memory until then.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace tessera::planner {

/// A value that equations after one of the graph read computed again.
struct Recomputation {
  ir::ValueId value = 0;
  std::size_t after = 0;  ///< equation of the graph, by position
  /// The value itself is kept; what late readers have of it anew is its copies in other layouts (gathered weights).
  bool copies = false;
};

/// The graph with each recomputed value's equation once more before the first reader that comes late, and with
/// `optimization_barrier` on what it reads, so that nobody merges it with the first. Same results, bit for bit, where
/// operations are.
ir::GraphPtr with_recomputations(const ir::GraphPtr& graph, const std::vector<Recomputation>& list);

/// Values of one kind, for reports.
struct RecomputedValues {
  std::string op;  ///< "argument": copies of an argument
  Loc loc = {};    ///< of the first
  ir::Type type = {};
  bool copies = false;
  std::int64_t count = 0;
  std::int64_t bytes = 0;  ///< that a device need not keep where memory was highest, of all of them
  double seconds = 0;      ///< of a step, predicted, that computing them and what leads to them takes once more
};

}  // namespace tessera::planner
