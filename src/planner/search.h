// SPDX-License-Identifier: Apache-2.0
// Shardings of a program's arguments, and the shape of the mesh, for the least predicted step.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/module.h"
#include "tessera/cluster_model.h"

namespace tessera::planner {

struct SearchOptions {
  std::int64_t devices = 0;       ///< 0: all of the cluster's
  std::int64_t memory_limit = 0;  ///< bytes on a device; 0: the cluster's device
  int threads = 2;
};

/// Arguments that play the same role in repeated layers share their sharding.
struct ArgumentGroup {
  std::vector<std::size_t> arguments;
  ir::Type type;
};

/// One decision: the axis splits the dimension of all arguments of the group, on top of those before.
struct Decision {
  std::size_t group = 0;
  std::size_t dim = 0;
  std::uint8_t axis = 0;
  double step = 0;          ///< predicted with it
  std::int64_t memory = 0;  ///< peak, with it
};

struct MeshPlan {
  ir::MeshAxes mesh;
  double step = 0;
  std::int64_t memory = 0;
  bool fits = false;
  std::vector<Decision> decisions;
  /// By decision: the best that was not taken in its place.
  std::vector<std::vector<Decision>> rejected;
  std::vector<ir::Layout> arguments;  ///< of the partitioned program, propagated ones included
};

struct SearchResult {
  std::vector<ArgumentGroup> groups;
  std::vector<MeshPlan> plans;  ///< one for each shape of the mesh, the best first
  double replicated = 0;        ///< predicted step with everything replicated
  std::int64_t replicated_memory = 0;
  std::int64_t memory_limit = 0;
  std::int64_t evaluated = 0;  ///< partitioned and simulated programs
  double seconds = 0;
};

/// Decides greedily, one axis on one dimension of one group at a time, and lets propagation place all that is not
/// decided; each candidate is partitioned and simulated. Shardings that the module's arguments have are not looked at.
/// Ends where no decision makes the step shorter, or lets it fit. Throws `UnimplementedError` for a program with
/// constraints or maps over devices, `ValueError` for more devices than the cluster has.
SearchResult search(const ir::Module& m, const ClusterModel& cluster, const SearchOptions& options);

/// The plan, what was rejected and why, and the annotations of the arguments to paste.
std::string explain(const SearchResult& result);

}  // namespace tessera::planner
