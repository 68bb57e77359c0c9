// SPDX-License-Identifier: Apache-2.0
// Shardings of arguments that nobody has to write: found by predicting what the program costs on a cluster.
//
//   auto step = jit(train, {.in_shardings = automatic(ClusterModel::preset("h100-dgx"))});
//   auto lowered = step.lower(params, batch);         // arrays, or types without data
//   std::cout << to_string(lowered.sharding_plan());  // chosen, rejected and why, annotations to paste
//   auto next = step(params, batch);
#pragma once

#include <cstdint>
#include <optional>

#include "tessera/cluster_model.h"
#include "tessera/in_shardings.h"
#include "tessera/loc.h"
#include "tessera/mesh.h"
#include "tessera/sharding_plan.h"

namespace tessera {

/// What `automatic` may use.
struct AutomaticOptions {
  /// Bytes that the program may take on a device at its peak; 0: the memory of the cluster's device.
  std::int64_t memory_limit = 0;
  /// The mesh to shard over, whose axes are all `Auto`. Not given: the search chooses the best of all meshes of one
  /// axis "x" and of two, "x" and "y". These are of the current client's devices, in order, where it has `devices` of
  /// them; else they are abstract: such a program can be lowered and simulated, and not run.
  std::optional<AnyMesh> mesh = std::nullopt;
  /// Without a mesh: how many devices; 0: all of the cluster.
  std::int64_t devices = 0;
  /// That price candidates.
  int threads = 2;
};

/// For `JitOptions::in_shardings`: when the jitted function is first lowered for a kind of arguments, its program is
/// partitioned and simulated on the cluster under one candidate after the other, and the shardings with the least
/// predicted step that fit into memory are taken as if they had been written, with constraints inside the program where
/// these make the step shorter. Where `memory_limit` stands in the way of a faster program, values are computed again
/// rather than kept for late readers (`ShardingPlan::recomputed`); on one device, too. What has an effect, calls the
/// host or is a loop happens once. `Lowered::sharding_plan` shows what was found. Committed arrays placed otherwise are
/// refused, as by written shardings. Position p of the mesh is taken for device p of the cluster.
///
/// Throws what `ClusterModel::check` throws, and `ValueError` naming `memory_limit` below 0, `devices` below 0,
/// `threads` below 1, or a mesh or `devices` of more devices than the cluster has. Lowering throws `ValueError` with
/// the least peak that was found where nothing fits into `memory_limit`, and `UnimplementedError` for programs that
/// place values themselves (constraints, maps over devices, types over `Explicit` axes).
InShardings automatic(const ClusterModel& cluster, const AutomaticOptions& options = {},
                      const Loc& loc = Loc::current());
/// The same with bytes on a device.
InShardings automatic(const ClusterModel& cluster, std::int64_t memory_limit, const Loc& loc = Loc::current());

}  // namespace tessera
