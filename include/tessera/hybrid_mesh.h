// SPDX-License-Identifier: Apache-2.0
// Meshes over slices: a fast network (ICI) inside each slice, a slow one (DCN) between them. Devices are laid out by
// their physical coordinates so that neighbours on a mesh axis are neighbours on the torus.
//
//   auto mesh = make_hybrid_mesh({.ici_mesh_shape = {1, 4, 1},     // inside a slice
//                                 .dcn_mesh_shape = {2, 1, 1},     // between slices
//                                 .axis_names = {"data", "fsdp", "tensor"}});
//   mesh.shape();                                                  // data 2, fsdp 4, tensor 1
//
// Axes go from the one that communicates least to the one that communicates most. Pods that are not available can be
// planned: give `devices`, and `assign_hybrid_mesh` computes the ids alone.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/mesh.h"
#include "tessera/nd_array.h"

namespace tessera {

/// What is known of one device.
struct DeviceAttributes {
  /// The integer in its name: devices are ordered by it, whatever order they are listed in.
  std::int64_t ordinal = 0;
  /// (x, y, z) or (x, y) on the torus; empty where the platform has none.
  std::vector<std::int64_t> coords = {};
  std::int64_t core_on_chip = 0;
  std::optional<std::int64_t> slice_index = {};
  int process_index = 0;
  /// "TPU:9"; when it is given, its integer is the ordinal.
  std::string name = {};
};
/// The integer in a device's name. Throws `ValueError` for a name that is not LETTERS:digits.
std::int64_t device_ordinal(std::string_view name, const Loc& loc = Loc::current());
/// Attributes of the current client's devices, in id order.
std::vector<DeviceAttributes> device_attributes();

/// Sizes and names of `make_hybrid_mesh`.
struct HybridMeshOptions {
  /// Sizes inside a slice.
  Shape ici_mesh_shape = {};
  /// Sizes between slices; empty: all ones.
  Shape dcn_mesh_shape = {};
  AxisNames axis_names = std::nullopt;
  /// The devices to lay out; `std::nullopt`: those of the current client.
  std::optional<std::vector<DeviceAttributes>> devices = {};
  /// Devices that report no slice: those of one process are a slice.
  bool process_is_slice = false;
  /// Allows one physical axis to serve several mesh axes where no assignment of whole axes fits.
  bool allow_split_physical_axes = false;
};

/// The layout of one slice.
struct SliceAssignment {
  /// Extents of the box of devices: (x, y, z), with the core of a chip in place of z or after it. Empty without coords.
  Shape physical_shape;
  /// Physical axes of each mesh axis, slowest first. Empty without coords, and where axes were split.
  std::vector<Dims> assignment;
  /// Where axes were split: [physical axis][mesh axis], the factor of that physical axis that the mesh axis got.
  std::vector<Dims> split;
  bool operator==(const SliceAssignment&) const = default;
};

/// The plan of a hybrid mesh. Ids are positions after ordering the devices by ordinal.
struct HybridMeshInfo {
  Shape ici_mesh_shape, dcn_mesh_shape, mesh_shape;
  NdArray<std::int64_t> logical_mesh;
  std::vector<SliceAssignment> per_slice;
};

/// The plan alone; the devices need not exist. Throws `ValueError` naming `ici_mesh_shape`, `dcn_mesh_shape`,
/// `axis_names`, `devices`, `coords` or `slice_index` with the values that do not fit.
HybridMeshInfo assign_hybrid_mesh(const HybridMeshOptions& options, const Loc& loc = Loc::current());

/// A mesh together with its plan.
class HybridMesh : public Mesh {
 public:
  explicit HybridMesh(const HybridMeshOptions& options, const Loc& loc = Loc::current());
  const HybridMeshInfo& info() const& { return *info_; }
  HybridMeshInfo info() const&& { return *info_; }
  const Shape& ici_mesh_shape() const& { return info_->ici_mesh_shape; }
  Shape ici_mesh_shape() const&& { return info_->ici_mesh_shape; }
  const Shape& dcn_mesh_shape() const& { return info_->dcn_mesh_shape; }
  Shape dcn_mesh_shape() const&& { return info_->dcn_mesh_shape; }

 private:
  HybridMesh(const HybridMeshOptions& options, HybridMeshInfo info);
  std::shared_ptr<const HybridMeshInfo> info_;
};
/// Plans, and takes the current client's devices by position. Throws as `assign_hybrid_mesh`, and as `Mesh` when the
/// client has fewer devices.
HybridMesh make_hybrid_mesh(const HybridMeshOptions& options, const Loc& loc = Loc::current());

}  // namespace tessera
