// SPDX-License-Identifier: Apache-2.0
// Automatic parallelism: graph + shardings -> partitioned graph with explicit collectives.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "ir/graph.h"
#include "ops/shared_attrs.h"
#include "tessera/comm_plan.h"

namespace tessera::spmd {

struct Options {
  bool uneven = false;         ///< dimensions may be split that their axes do not divide (decision D12)
  bool deterministic = false;  ///< partial sums in a fixed order (decision D13)
  bool operator==(const Options&) const = default;
};

/// Layout on the program's mesh of what a user's constraint says; `open[d]` marks dimensions left unconstrained.
struct Constraint {
  ir::Layout layout;
  std::vector<bool> open;
};
using ResolveConstraint = std::function<Constraint(const ops::ShardingConstraint&)>;

struct Problem {
  ir::GraphPtr graph;  ///< not partitioned
  ir::MeshAxesPtr mesh;
  /// Layout that each input has; nullopt: free for propagation to choose (the caller then places the argument so).
  std::vector<std::optional<ir::Layout>> inputs;
  /// Layout that each output must have; nullopt: free.
  std::vector<std::optional<ir::Layout>> outputs;
  ResolveConstraint resolve;
  Options options;
};

/// The same program with sums and products of floats written so that their order does not depend on how they are split:
/// a summed dimension becomes leaves of a fixed size, aligned to its first element, whose results are added in one tree
/// (decision D13). For `Options::deterministic`, under which leaves are not split; those that a shard boundary cuts are
/// completed by moving their data.
ir::GraphPtr with_fixed_leaves(const ir::GraphPtr& graph);

/// A layout for every value of the graph: inputs, outputs and constraints as given, others chosen. Deterministic.
std::vector<ir::Layout> propagate(const Problem& problem);

/// What a user sees of a layout that was chosen for an input or an output: without uneven splits, unless they are asked
/// for.
ir::Layout visible(const ir::Type& type, ir::Layout layout, const Problem& problem);

/// The per-device program: every equation runs on shards under the layouts of its operands and results, and `reshard`
/// equations stand between. `layouts` are propagate's.
ir::GraphPtr partition(const Problem& problem, const std::vector<ir::Layout>& layouts);

/// Every collective of a partitioned graph, loops included.
CommPlan comm_plan(const ir::Graph& partitioned);

}  // namespace tessera::spmd
