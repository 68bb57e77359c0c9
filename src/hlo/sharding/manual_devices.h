// SPDX-License-Identifier: Apache-2.0
// The devices of manual computations: which instances of a map they are, and groups of them as axes of the map.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "hlo/module.h"
#include "ops/collective/collectives.h"
#include "ops/collective/shard_map_op.h"

namespace tessera::hlo {

using ir::Value;
using ir::Values;

/// What is manual at some place of a text. A member is an instance along all manual axes of the enclosing maps.
struct ManualLevels {
  std::string mesh;               ///< of the text; "" where all devices are members of a map over one axis
  std::vector<std::string> axes;  ///< of the text's mesh, that are manual
  ops::Names names;               ///< the same, as axes of the maps, in the order of the mesh
  Dims sizes;
  Dims strides;    ///< by name: how far device numbers lie apart along it; empty where they follow no rule
  Dims devices;    ///< by member: the number of the first device that it stands for
  Dims member_of;  ///< by device: its member, -1 for none
  Dims cells;      ///< where mesh is "": by device, equal for those that the code does not tell apart
  std::int64_t members() const { return static_cast<std::int64_t>(devices.size()); }
};

/// Row-major.
Dims strides_of(const Dims& sizes);

/// Every device a member of its own.
ManualLevels all_devices(std::int64_t n);
/// The members when `manual` parts of the mesh are manual.
ManualLevels members_of(const ir::NamedMesh& mesh, const ir::CutMesh& cut, const std::vector<bool>& manual);

/// A map over one axis that has all n devices. Operands are given whole to each; of results that differ between
/// devices, the first one's count.
Values map_over_devices(ir::Builder& b, const ir::GraphPtr& body, ir::ValueSpan in, std::int64_t n);

/// The members that a collective joins.
struct Exchange {
  ops::Collective over;  ///< no names: nobody but oneself
  ops::Groups groups;    ///< of members; every member in one
  bool uneven = false;   ///< of different sizes: `over` has all names and no groups
};
/// Groups of members as axes of the maps, or as groups along axes. Without `ordered` the order inside groups has no
/// meaning, and members in no group are alone. Throws `ValueError` for a member in two groups.
Exchange exchange_among(const ManualLevels& levels, ops::Groups groups, bool ordered);
/// (source, target) pairs of members as a permutation along axes.
ops::Ppermute permutation_of(const ManualLevels& levels, const std::vector<Dims>& pairs);

}  // namespace tessera::hlo
