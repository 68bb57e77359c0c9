// SPDX-License-Identifier: Apache-2.0
// Legacy names: `GlobalArray` of older code over `Array`. It shares the array's shards and converts both ways for free.
//
//   auto g = GlobalArray::from_callback({8, 2}, mesh, P("x", "y"), [&](const Index& i) { return data.slice(i); });
//   g.local_data(0U);            // the shard of this process's first device
//   Array a = g;                 // the same shards
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "tessera/array.h"
#include "tessera/mesh.h"
#include "tessera/partition_spec.h"
#include "tessera/tree.h"

namespace tessera {

/// What a data callback may return: a host array, a strided view (copied), a scalar, or an array on devices.
class HostData {
 public:
  // NOLINTBEGIN(google-explicit-constructor): anything array-like is data
  HostData(HostArray value) : value_(std::move(value)) {}
  HostData(const HostArrayView& view) : value_(view) {}
  HostData(const Array& array) : value_(array.host()) {}
  template <Number T>
  HostData(T value) : value_(HostArray::scalar(value)) {}
  // NOLINTEND(google-explicit-constructor)
  const HostArray& value() const { return value_; }

 private:
  HostArray value_;
};

/// One distinct shard of an array and this process's devices that need it, in mesh order.
struct IndexedDevices {
  Index index;
  std::vector<Device> devices;
};

/// A global array as older code knows it: global shape, mesh and spec, with one buffer per device.
class GlobalArray {
 public:
  /// Uninitialised: any use throws `StateError`.
  GlobalArray() = default;
  /// Takes one single-device array for each of `global_mesh.local_devices()`, in that order, without copying. `dtype`
  /// is needed where this process has no device of the mesh. Throws `ValueError` for a wrong count, wrong shapes or
  /// mixed dtypes, `DeviceMismatchError` for another order of devices, and what the spec demands of shape and mesh.
  GlobalArray(const Shape& global_shape, const Mesh& global_mesh, const PartitionSpec& mesh_axes,
              std::span<const Array> device_buffers, std::optional<DType> dtype = std::nullopt,
              const Loc& loc = Loc::current());
  GlobalArray(const Shape& global_shape, const Mesh& global_mesh, const PartitionSpec& mesh_axes,
              const std::vector<Array>& device_buffers, std::optional<DType> dtype = std::nullopt,
              const Loc& = Loc::current())
      : GlobalArray(global_shape, global_mesh, mesh_axes, std::span<const Array>(device_buffers), dtype) {}
  // NOLINTBEGIN(google-explicit-constructor): the two are the same thing
  GlobalArray(Array array) : array_(std::move(array)) {}
  operator const Array&() const { return array_; }
  // NOLINTEND(google-explicit-constructor)
  const Array& array() const& { return array_; }
  Array array() const&& { return array_; }

  /// Calls `data` once per local device, in mesh order, with its index. Throws `ValueError` naming the device for a
  /// shard of the wrong shape or of another dtype than the first. What `data` throws passes through.
  static GlobalArray from_callback(const Shape& global_shape, const Mesh& global_mesh, const PartitionSpec& mesh_axes,
                                   const std::function<HostData(const Index&)>& data, const Loc& loc = Loc::current());
  /// Calls `data` once with the indices of all local devices, repeated ones included; expects one shard per index.
  static GlobalArray from_batched_callback(const Shape& global_shape, const Mesh& global_mesh,
                                           const PartitionSpec& mesh_axes,
                                           const std::function<std::vector<HostArray>(std::span<const Index>)>& data,
                                           const Loc& loc = Loc::current());
  /// Calls `data` once with the distinct local indices, in order of first appearance; it returns one single-device
  /// array for each of their devices, in any order. Throws `DeviceMismatchError` for an array that is not on one
  /// device, on a device outside the mesh or on a device that has one already, and for devices without data.
  static GlobalArray from_batched_callback_with_devices(
      const Shape& global_shape, const Mesh& global_mesh, const PartitionSpec& mesh_axes,
      const std::function<std::vector<Array>(std::span<const IndexedDevices>)>& data, const Loc& loc = Loc::current());

  bool defined() const { return array_.defined(); }
  const Shape& shape() const& { return array_.shape(); }
  Shape shape() const&& { return array_.shape(); }
  DType dtype() const { return array_.dtype(); }
  std::int64_t ndim() const { return array_.ndim(); }
  std::int64_t size() const { return array_.size(); }
  /// These two throw `StateError` for an array whose placement is not given by a mesh and a spec.
  Mesh mesh(const Loc& loc = Loc::current()) const;
  PartitionSpec mesh_axes(const Loc& loc = Loc::current()) const;
  ShardingPtr sharding(const Loc& loc = Loc::current()) const { return array_.sharding(loc); }
  /// The global shape is the shape of one shard: also true where a zero extent is split, unlike
  /// `Array::is_fully_replicated`.
  bool is_fully_replicated(const Loc& loc = Loc::current()) const;
  bool is_fully_addressable() const { return array_.is_fully_addressable(); }
  /// The process whose shards this handle has.
  int process_index() const;

  /// Shards of this process's devices in mesh order; made on first use and cached.
  ShardList local_shards(const Loc& loc = Loc::current()) const { return array_.addressable_shards(loc); }
  /// Shards of all processes in mesh order, remote ones without data; made on first use and cached.
  ShardList global_shards(const Loc& loc = Loc::current()) const { return array_.global_shards(loc); }
  /// The shard of the i-th local device. Throws `IndexError`.
  Array local_data(std::size_t i, const Loc& loc = Loc::current()) const;
  template <std::signed_integral T>
  Array local_data(T i) const = delete;  // shards count from 0: 3U, not -1

  /// Waits for this process's shards; returns the array itself. Throws what the computation threw, `StateError` once
  /// the memory was freed.
  const GlobalArray& block_until_ready(const Loc& loc = Loc::current()) const&;
  GlobalArray block_until_ready(const Loc& loc = Loc::current()) const&& { return block_until_ready(loc); }

  /// Refused: compare shards, or `array() == array()` for an elementwise program.
  friend bool operator==(const GlobalArray& a, const GlobalArray& b) = delete;

 private:
  friend struct Tree<GlobalArray>;
  Array array_;
};

/// "GlobalArray(shape=(8, 2), dtype=int32)".
std::string to_string(const GlobalArray& g);
/// "GlobalArray(shape=(8, 2), dtype=int32, global_mesh_shape={'x': 4, 'y': 2}, mesh_axes=PartitionSpec('x', 'y'))".
std::string repr(const GlobalArray& g);

/// What generic code compares.
using AnyValue = std::variant<HostArray, Shape, std::string, GlobalArray>;
/// Equality of values of the same kind. Throws `StateError` with advice for a `GlobalArray`.
bool equal(const AnyValue& a, const AnyValue& b, const Loc& loc = Loc::current());

/// Shape and dtype of an argument: what a program is traced for.
struct ShapedArray {
  Shape shape;
  DType dtype = DType::F32;
  bool operator==(const ShapedArray&) const = default;
};
/// "ShapedArray((8, 2), int32)".
std::string to_string(const ShapedArray& a);
/// Shape and dtype of an array.
ShapedArray abstract_value(const Array& a, const Loc& loc = Loc::current());
/// Shape and dtype of a global array.
inline ShapedArray abstract_value(const GlobalArray& g, const Loc& = Loc::current()) {
  return abstract_value(g.array());
}
/// Dtypes are never rewritten: the object itself.
inline const GlobalArray& canonicalize(const GlobalArray& g) { return g; }
/// Not for temporaries.
const GlobalArray& canonicalize(GlobalArray&& g) = delete;  // it would dangle

/// Validates buffers also where a trusted caller, such as a compiled program, made them. Off by default.
void set_enable_checks(bool on);
/// Whether buffers of trusted callers are validated.
bool enable_checks();

/// Counts of what arrays should rarely do, since the program began.
struct ArrayStats {
  std::int64_t shards_made = 0;    ///< `Shard` objects
  std::int64_t validations = 0;    ///< passes over an array's buffers that compare them with its placement
  std::int64_t place_lookups = 0;  ///< look-ups of placements over several devices, to make arrays or compile programs
};
/// The counters of this process.
ArrayStats array_stats();

/// A `GlobalArray` is a leaf.
template <>
struct Tree<GlobalArray> {
  static constexpr bool is_tree = true;
  template <class G, class F>
  static void visit(G& g, F&& f) {
    f(g.array_);
  }
  static void describe(const GlobalArray&, TreeDef& d) { d.push("*"); }
  template <class F>
  static void paths(const GlobalArray&, const std::string& prefix, F&& f) {
    f(prefix);
  }
};

}  // namespace tessera

template <>
struct std::hash<tessera::GlobalArray> {
  hash() = delete;  // equality is refused
};
