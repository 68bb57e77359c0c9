// SPDX-License-Identifier: Apache-2.0
// Shardings in the terms of PyTorch/XLA: their types, tile and group assignments, and both string forms of HLO.
//
//   Mesh mesh({0, 1, 2, 3, 4, 5, 6, 7}, {2, 4}, {"x", "y"});
//   const OpSharding& s = mesh.op_sharding(P("y", none));
//   s.sharding_type();        // ShardingType::PARTIAL
//   s.hlo_v1();               // "{devices=[4,1,2]0,4,1,5,2,6,3,7 last_tile_dim_replicate}"
//   s.hlo_v2();               // "{devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}"
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/mesh.h"
#include "tessera/nd_array.h"
#include "tessera/partition_spec.h"
#include "tessera/sharding.h"

namespace tessera {

/// The values of PyTorch/XLA, which are not those of XLA's proto (see `to_xla`).
enum class ShardingType : int {
  REPLICATED = 0,
  MAXIMAL = 1,
  TUPLE = 2,
  TILED = 3,
  MANUAL = 4,
  PARTIAL = 5,
  UNKNOWN = 6,
};
/// "TILED".
std::string to_string(ShardingType type);

/// A type as XLA's proto writes it: REPLICATED 0, MAXIMAL 1, TUPLE 2, OTHER 3, MANUAL 4, UNKNOWN 5. TILED and PARTIAL
/// are both OTHER and differ by the flag.
struct XlaShardingType {
  int type = 0;
  bool replicate_on_last_tile_dim = false;
  bool operator==(const XlaShardingType&) const = default;
};
/// A type as XLA's proto has it. Throws `ValueError` for a value outside the enumeration.
XlaShardingType to_xla(ShardingType type, const Loc& loc = Loc::current());
/// The inverse of `to_xla`. Throws `ValueError` for a type value that XLA does not have.
ShardingType from_xla(const XlaShardingType& type, const Loc& loc = Loc::current());

namespace sharding {
struct OpShardingState;
}

/// One sharding in full, immutable and cheap to copy. Those of a mesh and spec come from `Mesh::op_sharding`; lists of
/// devices are made when they are read, so a sharding over a million devices costs as much as one over eight.
class OpSharding {
 public:
  using Ids = NdArray<std::int64_t>;
  using Groups = std::vector<std::vector<std::int64_t>>;

  /// From parts. TILED: `tile_assignment` has the device of every tile. PARTIAL: `replication_groups` are the devices
  /// of every group, `group_assignment` the group of every tile. The others need no part. Throws `ValueError` for TUPLE
  /// and UNKNOWN, and naming the part for an empty, repeating or ragged one.
  OpSharding(ShardingType type, const Ids& tile_assignment, const Ids& group_assignment = {},
             const Groups& replication_groups = {}, const Loc& loc = Loc::current());
  /// From a spec over a mesh, without the cache. Throws as `Mesh::op_sharding`.
  OpSharding(const Mesh& mesh, const PartitionSpec& partition_spec, const Loc& loc = Loc::current());
  /// From a placement of arrays of `ndim` dimensions. Throws `ValueError` for an abstract mesh or a spec that is
  /// longer.
  static OpSharding of(const NamedSharding& sharding, std::int64_t ndim, const Loc& loc = Loc::current());
  /// From either string form; its integers are device ids. Throws `FormatError` with the column.
  static OpSharding parse(std::string_view text, const Loc& loc = Loc::current());

  /// By PyTorch/XLA's rule: MAXIMAL for one device, then REPLICATED, PARTIAL or TILED by the entries of the spec.
  ShardingType sharding_type() const;
  /// After normalization: PARTIAL over one tile or MAXIMAL is REPLICATED, PARTIAL with groups of one is TILED.
  ShardingType type() const;
  /// Devices of the mesh in the order of the spec: one axis for each entry that is not `none`, then the unused mesh
  /// axes.
  const Ids& tile_assignment() const;
  /// Indices of the groups, with one dimension per spec entry; empty unless PARTIAL.
  const Ids& group_assignment() const;
  /// Devices of every tile, in mesh order; empty unless PARTIAL.
  const Groups& replication_groups() const;
  /// Positions of the mesh (device ids where it was made from parts) by tile.
  const TileAssignment& tiles() const;

  /// "{devices=[2,1,4]0,1,2,3,4,5,6,7 last_tile_dim_replicate}": device ids, ascending inside a replica group.
  std::string hlo_v1() const;
  /// "{devices=[2,1,4]<=[8] last_tile_dim_replicate}": positions in the mesh.
  std::string hlo_v2() const;

  /// The placement over `mesh` that this sharding describes, with one spec entry per dimension. Throws `ValueError`
  /// when no spec over the mesh's axes expresses it, and for {manual}.
  NamedSharding to_named_sharding(const Mesh& mesh, const Loc& loc = Loc::current()) const;

  /// Same types and same tiles.
  bool operator==(const OpSharding& other) const;
  std::size_t hash() const;

 private:
  explicit OpSharding(std::shared_ptr<const sharding::OpShardingState> state) : state_(std::move(state)) {}
  std::shared_ptr<const sharding::OpShardingState> state_;
};
/// `hlo_v1`, the explicit form.
std::string to_string(const OpSharding& s);

/// How many shardings `Mesh::op_sharding` has built (and not found in its cache) since the program began.
std::int64_t op_shardings_built();

}  // namespace tessera

template <>
struct std::hash<tessera::OpSharding> {
  std::size_t operator()(const tessera::OpSharding& s) const noexcept { return s.hash(); }
};
