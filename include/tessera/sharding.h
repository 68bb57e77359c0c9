// SPDX-License-Identifier: Apache-2.0
// How a global array is placed on devices.
//
//   auto mesh = make_mesh({4, 2}, {"x", "y"});
//   NamedSharding s(mesh, P("x", "y"));
//   s.shard_shape({8, 2});                              // (2, 1)
//   s.devices_indices_map({8, 2}).at(mesh.devices()(2, 1));   // (slice(4, 6, None), slice(1, 2, None))
#pragma once

#include <concepts>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <ranges>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/mesh.h"
#include "tessera/partition_spec.h"
#include "tessera/shape.h"

namespace tessera {

class Sharding;
class TileAssignment;
/// Shardings are shared: arrays keep them.
using ShardingPtr = std::shared_ptr<const Sharding>;

namespace sharding {
struct IndexMapState;
struct NamedState;
struct GspmdState;
struct MeshTiling;
/// Access of this module's sources to the state of the public handles.
struct Access;
}  // namespace sharding

/// The shard of a device (its index into the global value), and its position among equal shards.
struct ShardPlace {
  Index index;
  int replica_id = 0;
  bool operator==(const ShardPlace&) const = default;
};

/// Walks the entries of a map in its order. An entry lasts until its iterator moves or ends.
template <class Map, class Entry>
class EntryIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = Entry;
  using difference_type = std::ptrdiff_t;
  using pointer = const Entry*;
  using reference = const Entry&;
  EntryIterator() = default;
  EntryIterator(const Map* map, std::size_t i) : map_(map), i_(i) {}
  const Entry& operator*() const {
    map_->read(i_, entry_);
    return entry_;
  }
  const Entry* operator->() const { return &**this; }
  EntryIterator& operator++() {
    ++i_;
    return *this;
  }
  EntryIterator operator++(int) {
    EntryIterator old = *this;
    ++i_;
    return old;
  }
  bool operator==(const EntryIterator& other) const { return map_ == other.map_ && i_ == other.i_; }

 private:
  const Map* map_ = nullptr;
  std::size_t i_ = 0;
  mutable Entry entry_;  // its memory serves all entries of the walk
};

/// Ordered map from devices, in mesh order, to the index of their shard of one global shape. A handle to shared
/// constant data; the indices are computed when they are read, so a map over a million devices costs as much as one
/// over eight.
class IndexMap {
 public:
  /// A device and the slices of its shard.
  struct Entry {
    Device device;
    Index index;
  };
  using Iterator = EntryIterator<IndexMap, Entry>;

  IndexMap() = default;
  explicit IndexMap(std::shared_ptr<const sharding::IndexMapState> state) : state_(std::move(state)) {}
  /// Count of the devices.
  std::size_t size() const;
  bool empty() const { return size() == 0; }
  /// The i-th device. Throws `IndexError` when i is out of range.
  Device device(std::size_t i, const Loc& loc = Loc::current()) const;
  /// The shard of the i-th device. Throws `IndexError` when i is out of range.
  const Index index(std::size_t i, const Loc& loc = Loc::current()) const;
  /// Both.
  const Entry entry(std::size_t i, const Loc& = Loc::current()) const { return {device(i), index(i)}; }
  /// `entry(i)` in the memory of another one.
  void read(std::size_t i, Entry& to) const;
  bool contains(const Device& d) const;
  /// Throws `ValueError` when the map does not have the device.
  const Index at(const Device& d, const Loc& loc = Loc::current()) const;
  Iterator begin() const { return {this, 0}; }
  Iterator end() const { return {this, size()}; }
  /// Same devices in the same order with equal shards.
  bool operator==(const IndexMap& other) const;
  /// Address of the shared data: equal for two maps from the cache.
  const void* identity() const { return state_.get(); }

 private:
  std::shared_ptr<const sharding::IndexMapState> state_;
};

/// `IndexMap` with replica ids: devices in mesh order, each repeat of an equal shard counted 0, 1, 2, ...
class PlaceMap {
 public:
  /// A device and the place of its shard.
  struct Entry {
    Device device;
    ShardPlace place;
  };
  using Iterator = EntryIterator<PlaceMap, Entry>;

  PlaceMap() = default;
  explicit PlaceMap(std::shared_ptr<const sharding::IndexMapState> state) : state_(std::move(state)) {}
  /// Count of the devices.
  std::size_t size() const;
  /// The i-th device. Throws `IndexError` when i is out of range.
  Device device(std::size_t i, const Loc& loc = Loc::current()) const;
  /// The shard and replica id of the i-th device. Throws `IndexError` when i is out of range.
  const ShardPlace place(std::size_t i, const Loc& loc = Loc::current()) const;
  /// Both.
  const Entry entry(std::size_t i, const Loc& = Loc::current()) const { return {device(i), place(i)}; }
  /// `entry(i)` in the memory of another one.
  void read(std::size_t i, Entry& to) const;
  bool contains(const Device& d) const;
  /// Throws `ValueError` when the map does not have the device.
  const ShardPlace at(const Device& d, const Loc& loc = Loc::current()) const;
  Iterator begin() const { return {this, 0}; }
  Iterator end() const { return {this, size()}; }
  bool operator==(const PlaceMap& other) const;
  const void* identity() const { return state_.get(); }

 private:
  std::shared_ptr<const sharding::IndexMapState> state_;
};

/// How a global array is placed on devices. The kinds below are small values; anything that takes a `ShardingPtr` takes
/// them too. Users may add kinds: override `devices`, `is_fully_replicated`, `shard_shape` and, where shards are
/// needed, `shard_indices`.
class Sharding {
 public:
  virtual ~Sharding() = default;

  /// All devices of all processes in mesh order. Throws `ValueError` over an abstract mesh.
  DeviceSet device_set(const Loc& loc = Loc::current()) const;
  /// Count of the devices, also over an abstract mesh.
  virtual std::int64_t num_devices() const;
  /// This process's devices in mesh order. Throws `ValueError` over an abstract mesh.
  DeviceSet addressable_devices(const Loc& loc = Loc::current()) const;
  /// This process owns all devices, and there is at least one.
  bool is_fully_addressable() const;
  /// Every device holds the global value; decided without a shape.
  virtual bool is_fully_replicated() const = 0;
  /// Shape of one device's shard (with uneven splits: of the largest). Throws `ValueError` for a rank that does not fit
  /// and `IndivisibleError` for an extent that does not split evenly.
  virtual Shape shard_shape(const Shape& global_shape) const = 0;
  /// The shard of every device. Cached: equal shardings and shapes give the same map. Throws as `shard_shape`, and
  /// `StateError` for a user's kind without an index map.
  IndexMap devices_indices_map(const Shape& global_shape, const Loc& loc = Loc::current()) const;
  /// The shards of this process's devices.
  IndexMap addressable_devices_indices_map(const Shape& global_shape, const Loc& loc = Loc::current()) const;
  /// Same shards on the same devices in the same device order, for every shape of `ndim` dimensions.
  bool is_equivalent_to(const Sharding& other, std::int64_t ndim, const Loc& loc = Loc::current()) const;
  /// Empty for the default memory.
  virtual std::string_view memory_kind() const { return {}; }
  /// False when the devices are not known (an abstract mesh).
  virtual bool is_concrete() const { return true; }

  /// Same kind and equal parts. The default is identity.
  virtual bool equals(const Sharding& other) const { return this == &other; }
  /// Equal for equal shardings.
  virtual std::size_t hash() const { return std::hash<const void*>{}(this); }
  /// Kind and parts, for messages: "NamedSharding(mesh=…, spec=…)".
  virtual std::string text() const = 0;
  /// "NamedSharding".
  virtual std::string_view kind() const = 0;
  bool operator==(const Sharding& other) const { return this == &other || equals(other); }

  /// A shared copy.
  virtual ShardingPtr share() const = 0;
  operator ShardingPtr() const { return share(); }  // NOLINT(google-explicit-constructor): a sharding is a ShardingPtr

  /// Devices in order, as long as the sharding lives (and, for the library's kinds, a copy of it or its mesh).
  virtual std::span<const Device> devices() const = 0;
  /// The shard of each device, in the order of `devices`; nothing when the kind does not define it.
  virtual std::optional<std::vector<Index>> shard_indices(const Shape&) const { return std::nullopt; }

 protected:
  Sharding() = default;
  Sharding(const Sharding&) = default;
  Sharding& operator=(const Sharding&) = default;

 private:
  friend struct sharding::Access;
  virtual std::shared_ptr<const mesh::DeviceList> device_list() const;
  /// The common arithmetic form of the library's own kinds, if there is one for this rank.
  virtual std::optional<sharding::MeshTiling> mesh_tiling(std::int64_t ndim) const;
};
/// The sharding's `text()`.
inline std::string to_string(const Sharding& s) { return s.text(); }
/// The sharding's `text()`; "Sharding(null)" for null.
inline std::string to_string(const ShardingPtr& s) { return s ? s->text() : "Sharding(null)"; }

/// What a `NamedSharding` allows.
struct NamedOptions {
  /// Allows extents that their parts do not divide: shards are ceil(extent / parts) long, trailing ones shorter or
  /// empty.
  bool uneven = false;
  std::string memory_kind = {};
};

/// Mesh axes per dimension.
class NamedSharding : public Sharding {
 public:
  /// Throws `ValueError` naming `spec` for an unknown axis, and for one that is unreduced or reduced and has another
  /// use too; `DuplicateAxisError` for one that entries use twice.
  NamedSharding(const AnyMesh& mesh, const PartitionSpec& spec, const NamedOptions& options = {},
                const Loc& loc = Loc::current());

  const AnyMesh& mesh() const&;
  AnyMesh mesh() const&& { return mesh(); }
  /// The spec as given. Axis indices are replaced by names where the mesh has them.
  const PartitionSpec& spec() const&;
  PartitionSpec spec() const&& { return spec(); }
  /// `NamedOptions::uneven`.
  bool uneven() const;
  /// The tile form for arrays of `ndim` dimensions. Throws `ValueError` when the spec is longer, `UnimplementedError`
  /// for unreduced axes, which tiles cannot say.
  TileAssignment to_tiles(std::int64_t ndim, const Loc& loc = Loc::current()) const;
  /// Positions of the mesh axes that split dimension `dim`, slowest first; empty past the end of the spec.
  std::span<const int> dim_axes(std::size_t dim) const;
  /// Positions of the mesh axes over which an array is the sum of the blocks that devices hold, ascending. Such an
  /// array has shards (the addends) but no value to read; `reshard` to a spec without these axes makes one.
  std::span<const int> unreduced_axes() const;
  /// Positions of the mesh axes that the spec marks as reduced, ascending. Devices along them hold equal blocks.
  std::span<const int> reduced_axes() const;
  /// The same mesh and options with another spec. Throws as the constructor.
  NamedSharding with_spec(const PartitionSpec& spec, const Loc& loc = Loc::current()) const;

  std::int64_t num_devices() const override;
  bool is_fully_replicated() const override;
  Shape shard_shape(const Shape& global_shape) const override;
  std::string_view memory_kind() const override;
  bool is_concrete() const override;
  bool equals(const Sharding& other) const override;
  std::size_t hash() const override;
  std::string text() const override;
  std::string_view kind() const override { return "NamedSharding"; }
  ShardingPtr share() const override;
  std::span<const Device> devices() const override;

 private:
  friend struct sharding::Access;
  std::shared_ptr<const mesh::DeviceList> device_list() const override;
  std::optional<sharding::MeshTiling> mesh_tiling(std::int64_t ndim) const override;
  std::shared_ptr<const sharding::NamedState> state_;
};

/// Everything on one device.
class SingleDeviceSharding : public Sharding {
 public:
  /// Throws `ValueError` for the null device.
  explicit SingleDeviceSharding(const Device& device, std::string memory_kind = {}, const Loc& loc = Loc::current());
  Device device() const { return device_; }

  bool is_fully_replicated() const override { return true; }
  Shape shard_shape(const Shape& global_shape) const override;
  std::string_view memory_kind() const override { return memory_kind_; }
  bool equals(const Sharding& other) const override;
  std::size_t hash() const override;
  std::string text() const override;
  std::string_view kind() const override { return "SingleDeviceSharding"; }
  ShardingPtr share() const override;
  std::span<const Device> devices() const override;

 private:
  std::shared_ptr<const mesh::DeviceList> device_list() const override { return list_; }
  std::optional<sharding::MeshTiling> mesh_tiling(std::int64_t ndim) const override;
  Device device_;
  std::string memory_kind_;
  std::shared_ptr<const mesh::DeviceList> list_;
};

/// How tiles map to positions of a device list: HLO's sharding. Stored in the iota form ("<=[4,2]T(1,0)") where there
/// is one, else as the explicit list of positions.
class TileAssignment {
 public:
  enum class Kind : unsigned char { Replicated, Maximal, Manual, Tiled };

  /// Tiles over 0..n-1 in row-major order. With `replicate_last` the last dimension counts replicas.
  explicit TileAssignment(Dims dims, bool replicate_last = false, const Loc& loc = Loc::current());
  /// `iota(reshape)` transposed by `perm`, read in row-major order. Throws `ValueError` when products differ.
  TileAssignment(Dims dims, Dims reshape, Dims perm, bool replicate_last = false, const Loc& loc = Loc::current());
  /// Explicit device positions, a permutation of 0..n-1. Throws `ValueError` naming the entry otherwise.
  static TileAssignment from_list(Dims dims, std::vector<std::int64_t> devices, bool replicate_last = false,
                                  const Loc& loc = Loc::current());
  /// "{replicated}".
  static TileAssignment replicated();
  /// "{maximal device=…}": everything on one position.
  static TileAssignment maximal(std::int64_t device, const Loc& loc = Loc::current());
  /// "{manual}": the blocks of a manual region.
  static TileAssignment manual();
  /// From either form of HLO's sharding string. Throws `FormatError` with the column.
  static TileAssignment parse(std::string_view text, const Loc& loc = Loc::current());

  Kind kind() const { return kind_; }
  bool is_tiled() const { return kind_ == Kind::Tiled; }
  /// The last tile dimension counts replicas.
  bool replicate_last() const { return replicate_last_; }
  /// Tile counts, with the replica dimension when there is one.
  const Dims& dims() const& { return dims_; }
  Dims dims() const&& { return dims_; }
  /// Number of array dimensions that are tiled.
  std::int64_t tiled_rank() const { return static_cast<std::int64_t>(dims_.size()) - (replicate_last_ ? 1 : 0); }
  /// Product of the tile counts; 1 unless tiled.
  std::int64_t num_devices() const;
  /// Stored as `iota(reshape_dims)` transposed by `transpose_perm`.
  bool is_iota() const { return list_.empty(); }
  const Dims& reshape_dims() const& { return reshape_; }
  Dims reshape_dims() const&& { return reshape_; }
  const Dims& transpose_perm() const& { return perm_; }
  Dims transpose_perm() const&& { return perm_; }
  /// The position of a maximal assignment.
  std::int64_t maximal_device() const { return maximal_; }
  /// Device position of every tile in row-major order.
  std::vector<std::int64_t> to_list() const;

  /// "{devices=[4,2]<=[8]}": the iota form where there is one.
  std::string text() const;
  /// "{devices=[4,2]0,1,2,3,4,5,6,7}".
  std::string explicit_text() const;
  bool operator==(const TileAssignment&) const = default;
  std::size_t hash() const;

 private:
  TileAssignment() = default;
  Kind kind_ = Kind::Tiled;
  bool replicate_last_ = false;
  Dims dims_;
  Dims reshape_, perm_;             // canonical iota form
  std::vector<std::int64_t> list_;  // only where there is no iota form
  std::int64_t maximal_ = 0;
};
/// The iota form where there is one: "{devices=[4,2]<=[8]}".
inline std::string to_string(const TileAssignment& t) { return t.text(); }

/// Tiles over a list of devices (GSPMD), which can represent placements that no `PartitionSpec` expresses.
class GspmdSharding : public Sharding {
 public:
  /// Throws `ValueError` when the product of the tile dimensions is not the number of devices.
  GspmdSharding(std::vector<Device> devices, const TileAssignment& tiles, std::string memory_kind = {},
                const Loc& loc = Loc::current());
  /// The global value on each of the devices.
  static GspmdSharding replicated(std::vector<Device> devices, const Loc& loc = Loc::current());
  /// The positional placement of older code: a device array of the value's rank, replicated along the dimensions listed
  /// in `replicated_dims`. Throws `ValueError` when `shape` does not have as many elements as there are devices.
  static GspmdSharding positional(std::vector<Device> devices, const Shape& shape, const Dims& replicated_dims = {},
                                  const Loc& loc = Loc::current());

  const TileAssignment& tiles() const&;
  TileAssignment tiles() const&& { return tiles(); }
  bool is_fully_replicated() const override;
  Shape shard_shape(const Shape& global_shape) const override;
  std::string_view memory_kind() const override;
  bool equals(const Sharding& other) const override;
  std::size_t hash() const override;
  std::string text() const override;
  std::string_view kind() const override { return "GspmdSharding"; }
  ShardingPtr share() const override;
  std::span<const Device> devices() const override;

 private:
  friend struct sharding::Access;
  std::shared_ptr<const mesh::DeviceList> device_list() const override;
  std::optional<sharding::MeshTiling> mesh_tiling(std::int64_t ndim) const override;
  std::shared_ptr<const sharding::GspmdState> state_;
};

/// One dimension split into slices of extent 1, one per device: the placement of `pmap`.
class PmapSharding : public Sharding {
 public:
  /// Throws `ValueError` without devices and for a negative dimension.
  PmapSharding(std::vector<Device> devices, std::int64_t sharded_dim = 0, const Loc& loc = Loc::current());
  /// The dimension that is split, one index per device.
  std::int64_t sharded_dim() const { return dim_; }

  bool is_fully_replicated() const override;
  /// Throws `ValueError` unless the sharded extent is the number of devices.
  Shape shard_shape(const Shape& global_shape) const override;
  bool equals(const Sharding& other) const override;
  std::size_t hash() const override;
  std::string text() const override;
  std::string_view kind() const override { return "PmapSharding"; }
  ShardingPtr share() const override;
  std::span<const Device> devices() const override;

 private:
  std::shared_ptr<const mesh::DeviceList> device_list() const override { return list_; }
  std::optional<sharding::MeshTiling> mesh_tiling(std::int64_t ndim) const override;
  std::shared_ptr<const mesh::DeviceList> list_;
  std::int64_t dim_;
};

/// A spec for `mesh` that places as `tiles` do over the mesh's devices, if there is one. Throws `IndivisibleError` when
/// a tile count is not a product of mesh axes.
std::optional<PartitionSpec> to_spec(const TileAssignment& tiles, const AnyMesh& mesh, const Loc& loc = Loc::current());

/// Mesh axis to dimension, in the order of the spec; inside one dimension slowest first.
using AxisMapping = OrderedMap<std::string, std::int64_t>;
/// The mapping of a spec. Throws `DuplicateAxisError` naming `argument_name` and an axis that is used twice.
AxisMapping to_axis_mapping(const PartitionSpec& spec, std::string_view argument_name = "mesh_axes",
                            const Loc& loc = Loc::current());

/// The shard of every device of the mesh, in mesh order. Cached. Throws `ValueError` for the empty mesh, an unknown
/// axis or a spec longer than the shape, `DuplicateAxisError`, `IndivisibleError`.
IndexMap get_shard_indices(const Shape& global_shape, const Mesh& global_mesh, const PartitionSpec& mesh_axes,
                           const Loc& loc = Loc::current());
/// The same with replica ids: the position of each device among those with an equal shard.
PlaceMap get_shard_indices_replica_ids(const Shape& global_shape, const Mesh& global_mesh,
                                       const PartitionSpec& mesh_axes, const Loc& loc = Loc::current());
/// Shape of one device's shard. Throws as `get_shard_indices`.
Shape get_shard_shape(const Shape& global_shape, const Mesh& global_mesh, const PartitionSpec& mesh_axes,
                      const Loc& loc = Loc::current());

/// Any other list of extents; it is the same cache key as the `Shape`.
template <class T>
concept ExtentList = !std::same_as<T, Shape> && std::ranges::input_range<const T&> &&
                     std::integral<std::ranges::range_value_t<const T&>>;
/// From another list of extents.
template <ExtentList T>
IndexMap get_shard_indices(const T& global_shape, const Mesh& global_mesh, const PartitionSpec& mesh_axes,
                           const Loc& = Loc::current()) {
  return get_shard_indices(Shape(std::begin(global_shape), std::end(global_shape)), global_mesh, mesh_axes);
}
/// From another list of extents.
template <ExtentList T>
PlaceMap get_shard_indices_replica_ids(const T& global_shape, const Mesh& global_mesh, const PartitionSpec& mesh_axes,
                                       const Loc& = Loc::current()) {
  return get_shard_indices_replica_ids(Shape(std::begin(global_shape), std::end(global_shape)), global_mesh, mesh_axes);
}
/// From another list of extents.
template <ExtentList T>
Shape get_shard_shape(const T& global_shape, const Mesh& global_mesh, const PartitionSpec& mesh_axes,
                      const Loc& = Loc::current()) {
  return get_shard_shape(Shape(std::begin(global_shape), std::end(global_shape)), global_mesh, mesh_axes);
}

}  // namespace tessera

template <>
struct std::hash<tessera::TileAssignment> {
  std::size_t operator()(const tessera::TileAssignment& t) const noexcept { return t.hash(); }
};
