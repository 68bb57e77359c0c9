// SPDX-License-Identifier: Apache-2.0
// What stands behind Mesh and AbstractMesh handles.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "mesh/device_list.h"
#include "tessera/mesh.h"

namespace tessera::mesh {

/// The names as strings. Throws `ValueError` for a missing one and `DuplicateAxisError` for a repeated one.
std::vector<std::string> checked_names(const AxisNames& names, std::string_view function);

struct AbstractMeshState {
  std::vector<std::string> names;  // empty when unnamed
  Shape sizes;
  std::vector<AxisSize> pairs;
  OrderedMap<std::string, std::int64_t> shape;
  std::int64_t size = 0;
  std::size_t hash = 0;
  bool named = true;
  std::vector<AxisType> types;  // one an axis

  /// Without checks: an axis of a mesh may have size 0. Without types all axes are `Auto`.
  static AbstractMesh make(std::vector<std::string> names, Shape sizes, bool named, std::vector<AxisType> types = {});
};

struct MeshState {
  std::shared_ptr<const DeviceList> list;
  AbstractMesh abstract;
  std::size_t hash = 0;
  // Filled on first use: most meshes of a large program are never asked for these.
  mutable std::once_flag devices_once, ids_once;
  mutable DeviceArray devices;
  mutable NdArray<std::int64_t> ids;

  /// The one mesh with these devices and axes, already checked.
  static Mesh intern(std::shared_ptr<const DeviceList> list, const AbstractMesh& abstract);
};

/// One type an axis, or none. Throws `ValueError` with both counts.
void check_axis_types(const std::vector<AxisType>& types, std::int64_t ndim, std::string_view function);
/// ", axis_types=(Explicit, Auto)", or nothing where all are `Auto`.
std::string axis_types_text(std::span<const AxisType> types);
/// Set for good when the first mesh is made that has an axis of another type than `Auto`.
std::atomic<bool>& types_in_use();
/// Whether the innermost scope is one that sets the axes of types (`SetMesh`, `set_mesh`, `UseAbstractMesh`).
bool axes_are_set();
/// How many functions this thread is tracing, each inside the one before.
int& tracing_depth();

/// `m.local_mesh(process)` without the cache.
Mesh compute_local_mesh(const Mesh& m, int process);

}  // namespace tessera::mesh
