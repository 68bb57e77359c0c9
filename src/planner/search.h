// SPDX-License-Identifier: Apache-2.0
// Shardings of a program's arguments and of values inside it, and the shape of the mesh, for the least predicted step.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ir/module.h"
#include "planner/recompute/recompute.h"
#include "planner/value_groups.h"
#include "tessera/cluster_model.h"

namespace tessera::planner {

struct SearchOptions {
  std::int64_t devices = 0;       ///< 0: all of the cluster's
  std::int64_t memory_limit = 0;  ///< bytes on a device; 0: the cluster's device
  int threads = 2;
  std::optional<ir::MeshAxes> mesh = std::nullopt;  ///< this one alone; else all of one axis, and of two
  /// The first of the inputs: the others are left to propagation. Not given: all.
  std::optional<std::size_t> arguments = std::nullopt;
  bool constraints = true;  ///< values inside the program may get shardings too
};

/// A predicted step and its peak memory on a device.
struct Price {
  double step = 0;
  std::int64_t memory = 0;
};

/// By group: the layout that its values are given; none: propagation chooses.
using Chosen = std::vector<std::optional<ir::Layout>>;

/// One decision: the axis splits the dimension of all arguments of the group, on top of those before it. Or the whole
/// layout of values inside the program.
struct Decision {
  std::size_t group = 0;
  std::size_t dim = 0;
  std::uint8_t axis = 0;
  std::optional<ir::Layout> layout = std::nullopt;  ///< of values inside
  Price price = {};                                 ///< with it
};

/// What was tried in the place of a decision, everything else as in the plan: the axis on another dimension, or
/// nothing.
struct Alternative {
  std::optional<Decision> instead;  ///< none: nothing
  Price price;
};

struct MeshPlan {
  ir::MeshAxes mesh;
  Price price;
  bool fits = false;
  std::vector<Decision> decisions;
  std::vector<std::vector<Alternative>> rejected;  ///< by decision, the best first
  std::vector<Decision> further;                   ///< the best of those that would come on top, and do not pay
  Chosen chosen;
  std::vector<ir::Layout> arguments;  ///< of the partitioned program, propagated ones included
  /// What is computed again so that it fits, of `with_constraints`' graph; what it is, and the price without.
  std::vector<Recomputation> again;
  std::vector<RecomputedValues> recomputed;
  Price kept;
};

struct SearchResult {
  std::vector<ValueGroup> groups;  ///< of arguments, then of values inside
  std::vector<MeshPlan> plans;     ///< one for each shape of the mesh, the best first
  Price replicated;                ///< with everything on every device
  std::int64_t memory_limit = 0;
  std::int64_t evaluated = 0;  ///< partitioned and simulated programs
  double seconds = 0;
};

/// Climbs from several beginnings by one decision at a time (an axis on one dimension of one group added, moved or
/// taken back), and lets propagation place all that is not decided; each candidate is partitioned and simulated. Then
/// values inside the program get layouts where that makes the step shorter. Where the memory limit stands in the way of
/// the best plans, values are computed again rather than kept. Shardings that the module's arguments have
/// are not looked at, those of its results on a given mesh are. Throws `UnimplementedError` for a program with
/// constraints or maps over devices, `ValueError` for more devices than the cluster has.
SearchResult search(const ir::Module& m, const ClusterModel& cluster, const SearchOptions& options);

/// The program with the plan's layouts of values inside it as constraints.
ir::GraphPtr with_constraints(const ir::GraphPtr& graph, const std::vector<ValueGroup>& groups, const Chosen& chosen,
                              const ir::MeshAxes& mesh);

/// "x on dimension 0 of argument 2 float32[64,32]".
std::string decision_text(const Decision& d, const SearchResult& r, const ir::MeshAxes& mesh);
/// "x=4,y=2".
std::string mesh_text(const ir::MeshAxes& mesh);
/// The plan, what was rejected and why, and the annotations to paste.
std::string explain(const SearchResult& result);

}  // namespace tessera::planner
