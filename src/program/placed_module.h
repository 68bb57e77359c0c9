// SPDX-License-Identifier: Apache-2.0
// How a call's arguments fix a program's devices, meshes and layouts.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "ir/module.h"
#include "mesh/device_list.h"
#include "ops/shared_attrs.h"
#include "tessera/array.h"
#include "tessera/sharding.h"

namespace tessera::program {

struct ProgramOptions {
  std::string name = "program";
  std::string made;                                 ///< the name, and where the function was jitted; empty: the name
  std::vector<ShardingPtr> in_shardings;            ///< empty, or one an input; null: as the argument is placed
  std::vector<ShardingPtr> out_shardings;           ///< empty, or one an output; null: free
  std::vector<bool> donate;                         ///< empty, or one an input
  std::vector<std::string> arg_names;               ///< for messages
  std::shared_ptr<const mesh::DeviceList> devices;  ///< where it runs; null: where arguments, shardings and meshes say
  bool distinct_results = false;                    ///< no result shares memory with an argument or with another result
  /// A result whose placement is free and that the program leaves as a sum (by a constraint, by the spec of a map)
  /// stays one.
  bool sums_stay = true;
  std::vector<ir::TypeShardingPtr> typed_out = {};  ///< one an output: what its type says; null: nothing
};

/// A mesh that an equation names.
struct MeshUse {
  ops::ShardingConstraint constraint;  ///< of a shard_map only the mesh is set
  bool manual = false;                 ///< of a shard_map
  const char* op() const { return manual ? "shard_map" : "sharding_constraint"; }
};
/// Those of a graph, and of the graphs inside its equations.
std::vector<MeshUse> mesh_uses(const ir::Graph& g);

/// A module and its devices: what lowering and compiling depend on.
struct PlacedModule {
  ir::Module module;                                ///< placed
  std::shared_ptr<const mesh::DeviceList> devices;  ///< null over abstract meshes: there is text, and nothing to run on
  bool committed = false;
  std::vector<ShardingPtr> moved_in;              ///< sharding that an input is moved to; null: as it is
  std::vector<std::vector<AxisRef>> reduced_out;  ///< by result that a map gives: axes that its spec marks as reduced
};

/// The module that arguments placed like these make of a graph. Throws `DeviceMismatchError` where arguments, shardings
/// and meshes name different devices, `ValueError` where their shardings contradict each other.
PlacedModule place_module(const ir::GraphPtr& graph, const ProgramOptions& options, const std::vector<MeshUse>& uses,
                          const std::vector<Array>& args);

/// One object for equal shardings as long as it is in use: calls are told apart by shardings' addresses first, so
/// results of one program should be found where the next looks for them.
ShardingPtr interned(ShardingPtr s);

/// A public sharding in the module's words; the module gets its mesh. Nothing for kinds that no axes can express.
/// Throws `ValueError` for a rank that it does not fit.
std::optional<ir::AxisSharding> axis_sharding(const Sharding& s, std::int64_t rank, ir::Module& m);
/// The other way, over the devices at the mesh's positions. Parts of axes become axes.
ShardingPtr public_sharding(const ir::AxisSharding& s, const ir::NamedMesh& mesh, const Shape& shape,
                            const std::vector<Device>& devices);
/// A layout as a sharding of the module's devices: by the first mesh that can, else as tiles.
ShardingPtr public_sharding(const PlacedModule& placed, const ir::Layout& layout, const Shape& shape);

}  // namespace tessera::program
