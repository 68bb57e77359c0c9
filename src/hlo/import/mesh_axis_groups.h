// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "hlo/import/import.h"

namespace tessera::hlo {

/// Whether an attribute names groups of devices by axes of a mesh, and not one by one.
bool is_mesh_axis_groups(const AstAttr& a);

/// The groups of #stablehlo.replica_group_mesh_axes<mesh = @mesh, axes = [#stablehlo.axis_ref<name = "x">, …]>: the
/// devices that differ in these axes alone, the first axis major. The mesh may stand in the attribute. Fails at the
/// attribute for meshes and axes that there are not, and axes named twice.
///
/// With mesh <["x"=2, "y"=2]> axis "x" gives {{0, 2}, {1, 3}}.
std::vector<Dims> mesh_axis_groups(const OpCall& c, const AstAttr& a);

}  // namespace tessera::hlo
