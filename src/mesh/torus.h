// SPDX-License-Identifier: Apache-2.0
// Laying a logical mesh on a physical torus.
#pragma once

#include <string_view>
#include <vector>

#include "tessera/hybrid_mesh.h"

namespace tessera::mesh {

/// A dense box of ids in row-major order.
struct PhysicalMesh {
  Shape shape;
  std::vector<std::int64_t> ids;
};

/// The box that the devices' coordinates span; `ids[i]` is the id of `devices[i]`. Throws `ValueError` naming `coords`
/// for a hole or two devices in one cell.
PhysicalMesh physical_mesh(const std::vector<DeviceAttributes>& devices, const std::vector<std::int64_t>& ids);

/// The ids in row-major order of `mesh_shape`, whose size is that of the box. From the last mesh axis to the first:
/// the first three, two or one free physical axes (in lexicographic order) whose sizes multiply to its size. Throws
/// `ValueError` naming the axis, its size and what is left when nothing fits and `allow_split` is off.
std::vector<std::int64_t> assign_torus(const PhysicalMesh& box, const Shape& mesh_shape, bool allow_split,
                                       SliceAssignment& assignment);

}  // namespace tessera::mesh
