// SPDX-License-Identifier: Apache-2.0
// How a call's arguments fix the program's mesh and layouts.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "program/program.h"
#include "sharding/mesh_tiling.h"
#include "spmd/spmd.h"
#include "tessera/mesh.h"

namespace tessera::program {

/// A mesh that users named, in terms of the program's (refined) axes.
struct KnownMesh {
  AnyMesh mesh;
  bool uneven = false;
  std::vector<ir::AxisList> axes;  ///< per mesh axis, major first; empty for size 1
};

/// Everything that lowering and compiling depend on.
struct Program::Plan {
  std::shared_ptr<const mesh::DeviceList> devices;
  bool committed = false;
  ir::MeshAxesPtr mesh;
  std::vector<KnownMesh> known;
  std::vector<std::optional<ir::Layout>> inputs;
  std::vector<std::optional<ir::Layout>> outputs;
  std::vector<ShardingPtr> wanted_in;  ///< fixed sharding of an input that must move there; null otherwise
  std::vector<std::optional<spmd::Constraint>> constraints;  ///< by number of the constraint
  spmd::Options options;

  /// Whether lowering gives the same: all but the devices agrees.
  bool lowers_like(const Plan& other) const;
  /// The mesh of these sizes and names, or null.
  const KnownMesh* find(const Dims& sizes, const ops::Names& names) const;
  spmd::Constraint resolve(const ops::ShardingConstraint& c) const;
};

/// A graph with the shardings of its arguments, to be partitioned at the first question about the result.
class Lowering {
 public:
  Lowering(ir::GraphPtr graph, Program::Plan plan) : graph_(std::move(graph)), plan_(std::move(plan)) {}
  const Program::Plan& plan() const { return plan_; }
  /// Throws what propagation and partitioning throw.
  std::shared_ptr<const LoweredProgram> program() const;

 private:
  ir::GraphPtr graph_;
  Program::Plan plan_;
  mutable std::mutex mutex_;
  mutable std::shared_ptr<const LoweredProgram> program_;
};

/// What is to be partitioned. The plan must outlive it.
spmd::Problem problem_of(const ir::GraphPtr& graph, const Program::Plan& plan);

/// A layout said as a sharding of the plan's devices: by the first known mesh that can, else as tiles.
ShardingPtr express(const Program::Plan& plan, const ir::Layout& layout, const Shape& shape);

}  // namespace tessera::program
