// SPDX-License-Identifier: Apache-2.0
// What all kinds share, and the two kinds without mesh axes.
#include "tessera/sharding.h"

#include <algorithm>

#include "base/hash.h"
#include "base/strings.h"
#include "mesh/device_list.h"
#include "sharding/access.h"
#include "sharding/gspmd_state.h"
#include "tessera/error.h"

namespace tessera {

using mesh::DeviceList;
using sharding::MeshTiling;

void sharding::need_devices(const Sharding& s, std::string_view member) {
  if (s.is_concrete()) return;
  throw ValueError(str(member, ": ", s.text(), " is over an AbstractMesh; a sharding over a concrete Mesh is needed"));
}

DeviceSet Sharding::device_set(const Loc&) const {
  sharding::need_devices(*this, "device_set");
  return DeviceSet(device_list());
}
std::int64_t Sharding::num_devices() const { return static_cast<std::int64_t>(devices().size()); }
DeviceSet Sharding::addressable_devices(const Loc&) const {
  sharding::need_devices(*this, "addressable_devices");
  return DeviceSet(device_list(), true);
}
bool Sharding::is_fully_addressable() const {
  sharding::need_devices(*this, "is_fully_addressable");
  auto list = device_list();
  return list->all_local() && list->size() > 0;
}

std::shared_ptr<const DeviceList> Sharding::device_list() const {
  auto d = devices();
  return mesh::intern_device_list({d.begin(), d.end()}, kind(), "devices");
}
std::optional<MeshTiling> Sharding::mesh_tiling(std::int64_t) const { return std::nullopt; }

bool Sharding::is_equivalent_to(const Sharding& other, std::int64_t ndim, const Loc&) const {
  if (*this == other) return true;
  if (memory_kind() != other.memory_kind() || num_devices() != other.num_devices() ||
      is_concrete() != other.is_concrete()) {
    return false;
  }
  if (is_concrete() && device_list() != other.device_list()) return false;
  auto a = mesh_tiling(ndim);
  auto b = other.mesh_tiling(ndim);
  if (a && b) {
    return sharding::dim_digits(*a) == sharding::dim_digits(*b) &&
           sharding::addend_digits(*a) == sharding::addend_digits(*b);
  }
  const auto* g = dynamic_cast<const GspmdSharding*>(this);
  const auto* h = dynamic_cast<const GspmdSharding*>(&other);
  if (a || b || g == nullptr || h == nullptr) return false;
  // Neither has an iota form: the same tiles must lie on the same devices, in any order of their replicas.
  Shape tiles = sharding::tiled_dims(g->tiles(), ndim);
  return tiles == sharding::tiled_dims(h->tiles(), ndim) && devices_indices_map(tiles) == h->devices_indices_map(tiles);
}

SingleDeviceSharding::SingleDeviceSharding(const Device& device, std::string memory_kind, const Loc&)
    : device_(device),
      memory_kind_(std::move(memory_kind)),
      list_(mesh::intern_device_list({device}, "SingleDeviceSharding", "device")) {}
Shape SingleDeviceSharding::shard_shape(const Shape& global_shape) const {
  size_of(global_shape);
  return global_shape;
}
bool SingleDeviceSharding::equals(const Sharding& other) const {
  const auto* o = dynamic_cast<const SingleDeviceSharding*>(&other);
  return o != nullptr && device_ == o->device_ && memory_kind_ == o->memory_kind_;
}
std::size_t SingleDeviceSharding::hash() const {
  return base::hash_mix(device_.hash(), std::hash<std::string>{}(memory_kind_));
}
std::string SingleDeviceSharding::text() const {
  std::string out = str("SingleDeviceSharding(device=", device_);
  if (!memory_kind_.empty()) out += str(", memory_kind=", memory_kind_);
  return out + ")";
}
std::span<const Device> SingleDeviceSharding::devices() const { return list_->devices; }
ShardingPtr SingleDeviceSharding::share() const { return std::make_shared<SingleDeviceSharding>(*this); }
std::optional<MeshTiling> SingleDeviceSharding::mesh_tiling(std::int64_t ndim) const {
  MeshTiling t;
  t.dim_axes.resize(static_cast<std::size_t>(ndim));
  return t;
}

PmapSharding::PmapSharding(std::vector<Device> devices, std::int64_t sharded_dim, const Loc&)
    : list_(mesh::intern_device_list(std::move(devices), "PmapSharding", "devices")), dim_(sharded_dim) {
  if (list_->devices.empty()) throw ValueError("PmapSharding: devices has 0 entries; expected at least 1");
  if (dim_ < 0) throw ValueError(str("PmapSharding: sharded_dim = ", dim_, "; expected 0 or more"));
}
bool PmapSharding::is_fully_replicated() const { return list_->size() == 1; }
Shape PmapSharding::shard_shape(const Shape& global_shape) const {
  size_of(global_shape);
  if (dim_ >= rank(global_shape)) {
    throw ValueError(
        str("shard_shape: sharded_dim = ", dim_, " but global_shape ", global_shape, " has rank ", rank(global_shape)));
  }
  auto extent = global_shape[static_cast<std::size_t>(dim_)];
  if (extent != num_devices()) {
    throw ValueError(str("shard_shape: dimension ", dim_, " is ", extent, "; expected ", num_devices(),
                         ", the number of devices (global_shape ", global_shape, ")"));
  }
  Shape out = global_shape;
  out[static_cast<std::size_t>(dim_)] = 1;
  return out;
}
bool PmapSharding::equals(const Sharding& other) const {
  const auto* o = dynamic_cast<const PmapSharding*>(&other);
  return o != nullptr && list_ == o->list_ && dim_ == o->dim_;
}
std::size_t PmapSharding::hash() const { return base::hash_mix(list_->hash, static_cast<std::size_t>(dim_) + 1); }
std::string PmapSharding::text() const {
  return str("PmapSharding(devices=[", join(list_->devices), "], sharded_dim=", dim_, ")");
}
ShardingPtr PmapSharding::share() const { return std::make_shared<PmapSharding>(*this); }
std::span<const Device> PmapSharding::devices() const { return list_->devices; }
std::optional<MeshTiling> PmapSharding::mesh_tiling(std::int64_t ndim) const {
  if (dim_ >= ndim) throw ValueError(str("PmapSharding: sharded_dim = ", dim_, " but the array has rank ", ndim));
  MeshTiling t;
  t.axis_sizes = {num_devices()};
  t.dim_axes.resize(static_cast<std::size_t>(ndim));
  t.dim_axes[static_cast<std::size_t>(dim_)] = {0};
  return t;
}

namespace sharding {
namespace {
// The axis whose positions step exactly as the slowest part of `digit` does.
std::optional<std::size_t> leading_axis(const Digit& digit, const Shape& sizes,
                                        const std::vector<std::int64_t>& strides) {
  for (std::size_t a = 0; a < sizes.size(); ++a) {
    if (sizes[a] > 1 && digit.size % sizes[a] == 0 && strides[a] == digit.stride * (digit.size / sizes[a])) return a;
  }
  return std::nullopt;
}

bool is_product_of_axes(std::int64_t n, const Shape& sizes, std::size_t from) {
  if (n == 1) return true;
  for (std::size_t a = from; a < sizes.size(); ++a) {
    if (sizes[a] > 1 && n % sizes[a] == 0 && is_product_of_axes(n / sizes[a], sizes, a + 1)) return true;
  }
  return false;
}
}  // namespace
}  // namespace sharding

std::optional<PartitionSpec> to_spec(const TileAssignment& tiles, const AnyMesh& mesh, const Loc&) {
  if (tiles.kind() == TileAssignment::Kind::Replicated) return PartitionSpec();
  if (!tiles.is_tiled()) return std::nullopt;
  const Shape& sizes = mesh.mesh_shape();
  Dims dims = sharding::tiled_dims(tiles, tiles.tiled_rank());
  for (std::size_t d = 0; d < dims.size(); ++d) {
    if (!sharding::is_product_of_axes(dims[d], sizes, 0)) {
      throw IndivisibleError(str("to_spec: tiles = ", tiles, " cut dimension ", d, " into ", dims[d],
                                 " parts; expected a product of axes of ", mesh));
    }
  }
  if (tiles.num_devices() != mesh.size()) {
    throw ValueError(str("to_spec: tiles = ", tiles, " speak of ", tiles.num_devices(), " devices; the mesh ", mesh,
                         " has ", mesh.size()));
  }
  if (!tiles.is_iota()) return std::nullopt;
  auto cut = sharding::cut_digits(sharding::iota_digits(tiles.reshape_dims(), tiles.transpose_perm()), tiles.dims());
  if (!cut) return std::nullopt;
  auto strides = sharding::axis_strides(sizes);
  std::vector<SpecEntry> entries;
  for (std::size_t d = 0; d < dims.size(); ++d) {
    std::vector<AxisRef> axes;
    for (sharding::Digit digit : (*cut)[d]) {
      while (digit.size > 1) {
        auto a = sharding::leading_axis(digit, sizes, strides);
        if (!a) return std::nullopt;
        axes.push_back(mesh.has_names() ? AxisRef(mesh.axis_names()[*a]) : AxisRef(static_cast<std::int64_t>(*a)));
        digit.size /= sizes[*a];
      }
    }
    entries.push_back(axes.empty() ? SpecEntry(none) : SpecEntry(std::move(axes)));
  }
  while (!entries.empty() && entries.back().is_none()) entries.pop_back();
  return PartitionSpec(std::move(entries));
}

}  // namespace tessera
