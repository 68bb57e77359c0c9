// SPDX-License-Identifier: Apache-2.0
// Partitioning of what happens in manual regions. A block that differs between positions has the manual axes in its
// layout's `vary`. Collectives read such a value in another way and then reshard it: what varies over x is read as
// partial over x and completed (psum), or as tiled over x and gathered (all_gather), and so on. Reading otherwise
// (`reinterpret`) moves nothing.
#pragma once

#include <functional>

#include "ir/builder.h"
#include "ir/module.h"
#include "ops/control/subgraph_structure.h"
#include "spmd/value_versions.h"

namespace tessera::spmd {

/// What the partitioner lends.
struct PartitionAccess {
  const ir::Graph& graph;
  const ir::MeshAxes& mesh;
  ir::Builder& builder;
  std::function<const ir::Layout&(ir::ValueId)> wanted;
  /// Operand `number` of the equation under a layout with the dimensions and partial axes of `goal`.
  std::function<ir::Value(const ir::Eqn&, std::size_t number, const ir::Layout& goal)> operand;
  std::function<void(ir::ValueId, Version)> define;
};
/// Partitions one equation of a manual region or its boundary; false for other equations.
bool add_manual(const ir::Eqn& e, const PartitionAccess& access);

/// Axes over which operands and results of an equation with sub-graphs may differ between positions: what collectives
/// inside make equal is equal, loop variables are at their fixed point.
struct VaryBoundary {
  std::vector<AxisMask> in, out;
};
VaryBoundary vary_boundary(const ir::Module& m, const ir::Eqn& e, const ops::Control& control,
                           const std::vector<AxisMask>& in);

}  // namespace tessera::spmd
