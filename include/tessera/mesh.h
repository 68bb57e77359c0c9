// SPDX-License-Identifier: Apache-2.0
// Meshes: named grids of devices (`Mesh`), the same without devices (`AbstractMesh`), and the scope of the current
// mesh.
//
//   auto mesh = make_mesh({4, 2}, {"x", "y"});
//   MeshScope scope(mesh);          // current_mesh() == mesh on this thread until the scope ends
#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "tessera/axis_type.h"
#include "tessera/cache_stats.h"
#include "tessera/device.h"
#include "tessera/nd_array.h"
#include "tessera/shape.h"

namespace tessera {

class Mesh;
class AbstractMesh;
class PartitionSpec;
class OpSharding;
namespace mesh {
struct DeviceList;
struct MeshState;
struct AbstractMeshState;
}  // namespace mesh

namespace detail {
/// A copy of what a span shows: the answer of a temporary, whose own state may end with it.
template <class T>
std::vector<T> owned(std::span<const T> s) {
  return {s.begin(), s.end()};
}
}  // namespace detail

/// An N-dimensional grid of devices. Nested lists give the dimensions; ragged ones throw `ValueError`.
class DeviceArray : public NdArray<Device> {
 public:
  DeviceArray() = default;
  DeviceArray(NdArray<Device> a) : NdArray(std::move(a)) {}  // NOLINT(google-explicit-constructor)
  DeviceArray(std::vector<Device> devices, Shape shape) : NdArray(std::move(devices), std::move(shape)) {}
  // NOLINTBEGIN(google-explicit-constructor): lists of devices are device arrays
  DeviceArray(const std::vector<Device>& devices);
  DeviceArray(std::span<const Device> devices);
  DeviceArray(const std::vector<std::vector<Device>>& rows);
  DeviceArray(std::initializer_list<Device> devices);
  DeviceArray(std::initializer_list<std::initializer_list<Device>> rows);
  DeviceArray(std::initializer_list<std::initializer_list<std::initializer_list<Device>>> blocks);
  // NOLINTEND(google-explicit-constructor)
};

/// A mesh axis: its name, or its index counted from 0.
class AxisRef {
 public:
  // NOLINTBEGIN(google-explicit-constructor): names and indices are axis references
  AxisRef(const char* name) : name_(name) {}
  AxisRef(std::string name) : name_(std::move(name)) {}
  AxisRef(std::string_view name) : name_(name) {}
  AxisRef(int number) : number_(number) {}
  AxisRef(std::int64_t number) : number_(number) {}
  // NOLINTEND(google-explicit-constructor)
  AxisRef(std::nullptr_t) = delete;
  AxisRef(bool) = delete;
  AxisRef(double) = delete;

  bool is_name() const { return number_ == kName; }
  /// The name; empty where the axis is given by index.
  const std::string& name() const { return name_; }
  /// The index; meaningless where the axis is given by name.
  std::int64_t number() const { return number_; }
  bool operator==(const AxisRef&) const = default;

 private:
  static constexpr std::int64_t kName = INT64_MIN;
  std::int64_t number_ = kName;
  std::string name_;
};
/// "'x'" or "0".
std::string to_string(const AxisRef& a);

/// Names of axes, from anything that lists strings. One string is one name; `std::nullopt` means a missing name, which
/// every constructor of a mesh rejects. Collectives also take integers, which are dimensions of the block.
class AxisNames {
 public:
  /// A name of an axis, or none.
  class Name {
   public:
    // NOLINTBEGIN(google-explicit-constructor)
    Name(const char* v) : value_(v == nullptr ? std::nullopt : std::optional<std::string>(v)) {}
    Name(std::string v) : value_(std::move(v)) {}
    Name(std::string_view v) : value_(v) {}
    Name(std::nullopt_t) {}
    Name(int v) : number_(v) {}
    Name(std::int64_t v) : number_(v) {}
    // NOLINTEND(google-explicit-constructor)
    const std::optional<std::string>& value() const { return value_; }
    const std::optional<std::int64_t>& number() const { return number_; }

   private:
    std::optional<std::string> value_;
    std::optional<std::int64_t> number_;
  };
  AxisNames() = default;
  // NOLINTBEGIN(google-explicit-constructor)
  AxisNames(std::initializer_list<Name> names) {
    for (const auto& n : names) push(n);
  }
  AxisNames(int number) : AxisNames({Name(number)}) { single_ = true; }
  AxisNames(std::int64_t number) : AxisNames({Name(number)}) { single_ = true; }
  AxisNames(const std::vector<std::int64_t>& indices) {
    for (auto n : indices) push(n);
  }
  AxisNames(const std::vector<int>& indices) {
    for (auto n : indices) push(n);
  }
  AxisNames(const char* name) : AxisNames({Name(name)}) { single_ = true; }
  AxisNames(const std::string& name) : AxisNames({Name(name)}) { single_ = true; }
  AxisNames(const std::vector<std::string>& names) : values_(names.begin(), names.end()) {}
  AxisNames(std::span<const std::string> names) : values_(names.begin(), names.end()) {}
  AxisNames(std::vector<std::optional<std::string>> names) : values_(std::move(names)) {}
  AxisNames(std::nullopt_t) : given_(false) {}
  AxisNames(const std::optional<std::vector<std::string>>& names) : given_(names.has_value()) {
    if (names) values_.assign(names->begin(), names->end());
  }
  template <std::size_t N>
  AxisNames(const std::array<std::string, N>& names) : values_(names.begin(), names.end()) {}
  // NOLINTEND(google-explicit-constructor)
  /// Adds one name or index at the end.
  void push(const Name& n) {
    if (n.number()) numbers_.resize(values_.size() + 1);
    if (n.number()) numbers_.back() = n.number();
    values_.push_back(n.value());
  }
  /// Names; empty entries where there is none.
  const std::vector<std::optional<std::string>>& values() const { return values_; }
  /// The index that entry `i` has in place of a name.
  std::optional<std::int64_t> number(std::size_t i) const { return i < numbers_.size() ? numbers_[i] : std::nullopt; }
  /// False for `std::nullopt`: the axes of the mesh are then unnamed.
  bool given() const { return given_; }
  /// True for one name (or index) that is not in a list.
  bool is_single() const { return single_; }

 private:
  std::vector<std::optional<std::string>> values_;
  std::vector<std::optional<std::int64_t>> numbers_;
  bool given_ = true;
  bool single_ = false;
};

/// An axis: its name and size.
struct AxisSize {
  std::string name;
  std::int64_t size = 0;
  bool operator==(const AxisSize&) const = default;
};

/// Devices in mesh order with a membership test; shares the mesh's own list.
class DeviceSet {
 public:
  DeviceSet() = default;
  /// All devices of `list`, or those at `positions`.
  explicit DeviceSet(std::shared_ptr<const mesh::DeviceList> list, bool local_only = false);
  /// In mesh order.
  std::span<const Device> devices() const&;
  std::vector<Device> devices() const&& { return detail::owned(devices()); }
  std::size_t size() const { return devices().size(); }
  bool empty() const { return devices().empty(); }
  auto begin() const { return devices().begin(); }
  auto end() const { return devices().end(); }
  const Device operator[](std::size_t i) const { return devices()[i]; }
  bool contains(const Device& d) const;
  /// Same devices in the same order.
  bool operator==(const DeviceSet& other) const;

 private:
  std::shared_ptr<const mesh::DeviceList> list_;
  bool local_only_ = false;
};

/// An N-dimensional grid of devices with one name per axis, or with unnamed axes, which are known by index. A handle to
/// shared immutable state: equal meshes are the same object, so copies and comparisons are cheap, whatever the size.
/// What members refer to lasts as long as a handle; a temporary handle gives copies.
class Mesh {
 public:
  /// The empty mesh: no axes, size 0.
  Mesh();
  /// Throws `ValueError` when the rank of `devices` is not the number of names, a name is missing, or a device is null
  /// or listed twice; `DuplicateAxisError` for a repeated name.
  Mesh(const DeviceArray& devices, const AxisNames& axis_names, const Loc& loc = Loc::current());
  /// The same with types of the axes. Also throws `ValueError` where there is not one type for each axis.
  Mesh(const DeviceArray& devices, const AxisNames& axis_names, const MeshOptions& options,
       const Loc& loc = Loc::current());
  template <std::integral T>
  Mesh(const DeviceArray& devices, const std::vector<T>& axis_names) = delete;  // integers are no names
  /// From positions of the current client's devices in id order, a permutation of 0..size-1, filling `mesh_shape` in
  /// row-major order. Without names the axes are unnamed. Throws `ValueError` naming `device_ids`, `mesh_shape` or
  /// `axis_names`.
  Mesh(std::span<const std::int64_t> device_ids, const Shape& mesh_shape, const AxisNames& axis_names = std::nullopt,
       const Loc& loc = Loc::current());
  Mesh(std::span<const int> device_ids, const Shape& mesh_shape, const AxisNames& axis_names = std::nullopt,
       const Loc& loc = Loc::current());
  Mesh(std::initializer_list<std::int64_t> device_ids, const Shape& mesh_shape,
       const AxisNames& axis_names = std::nullopt, const Loc& loc = Loc::current());

  /// Ordered names; empty when the mesh has none.
  std::span<const std::string> axis_names() const&;
  std::vector<std::string> axis_names() const&& { return detail::owned(axis_names()); }
  /// False for unnamed axes and for the empty mesh.
  bool has_names() const;
  /// Number of axes.
  std::int64_t ndim() const;
  /// Name (the index as a string when unnamed) to size, in axis order.
  const OrderedMap<std::string, std::int64_t>& shape() const&;
  OrderedMap<std::string, std::int64_t> shape() const&& { return shape(); }
  /// Names and sizes in axis order.
  std::span<const AxisSize> shape_tuple() const&;
  std::vector<AxisSize> shape_tuple() const&& { return detail::owned(shape_tuple()); }
  /// Sizes in axis order.
  const Shape& mesh_shape() const&;
  Shape mesh_shape() const&& { return mesh_shape(); }
  /// Throws `ValueError` with the axis and the known ones when there is no such axis.
  std::int64_t axis_size(const AxisRef& axis, const Loc& loc = Loc::current()) const;
  /// Position of an axis, or nothing.
  std::optional<int> axis_index(const AxisRef& axis) const;
  /// One type an axis, in axis order.
  std::span<const AxisType> axis_types() const&;
  std::vector<AxisType> axis_types() const&& { return detail::owned(axis_types()); }
  /// Names of the axes of one type, in mesh order.
  std::vector<std::string> explicit_axes() const;
  std::vector<std::string> auto_axes() const;
  std::vector<std::string> manual_axes() const;
  /// False for a mesh without axes.
  bool are_all_axes_explicit() const;
  bool are_all_axes_auto() const;
  bool are_all_axes_manual() const;
  /// This mesh with other types for the axes named. Throws `ValueError` naming an axis that it lacks.
  Mesh update_axis_types(const AxisTypes& types, const Loc& loc = Loc::current()) const;
  /// Count of the devices; 0 for the empty mesh.
  std::int64_t size() const;
  bool empty() const { return size() == 0; }

  /// The devices in mesh shape.
  const DeviceArray& devices() const&;
  DeviceArray devices() const&& { return devices(); }
  /// Ids in mesh shape. Throws `StateError` for the empty mesh.
  const NdArray<std::int64_t>& device_ids(const Loc& loc = Loc::current()) const&;
  NdArray<std::int64_t> device_ids(const Loc& loc = Loc::current()) const&& { return device_ids(loc); }
  /// `device_ids`.
  const NdArray<std::int64_t>& logical_mesh(const Loc& = Loc::current()) const& { return device_ids(); }
  NdArray<std::int64_t> logical_mesh(const Loc& = Loc::current()) const&& { return device_ids(); }
  /// Ids in row-major order. Throws `StateError` for the empty mesh.
  const std::vector<std::int64_t>& flat_ids() const&;
  std::vector<std::int64_t> flat_ids() const&& { return flat_ids(); }
  /// Devices in row-major order, which is the mesh order.
  std::span<const Device> devices_flat() const&;
  std::vector<Device> devices_flat() const&& { return detail::owned(devices_flat()); }
  /// The devices with a membership test.
  DeviceSet device_set() const;
  /// This process's devices with a membership test.
  DeviceSet local_device_set() const;
  /// This process's devices in mesh order.
  std::span<const Device> local_devices() const&;
  std::vector<Device> local_devices() const&& { return detail::owned(local_devices()); }
  /// The shared list of devices, for the layers above.
  const std::shared_ptr<const mesh::DeviceList>& device_list() const&;
  std::shared_ptr<const mesh::DeviceList> device_list() const&& { return device_list(); }
  /// Another process owns some of the devices.
  bool is_multi_process() const;
  bool is_device_mesh() const { return true; }

  /// The sub-block of this process's (or the given process's) devices, with the same names. Throws `ValueError` when
  /// they form no contiguous block or there are none.
  Mesh local_mesh(const Loc& loc = Loc::current()) const;
  Mesh local_mesh(int process_index, const Loc& loc = Loc::current()) const;
  /// Names and sizes without the devices.
  const AbstractMesh& abstract_mesh() const&;
  AbstractMesh abstract_mesh() const&&;

  /// The sharding of a spec with one entry per dimension, in the forms that XLA uses (tessera/op_sharding.h). Built
  /// once per mesh and spec (equal meshes, and names or indices of the same axes, share it) and cached for the whole
  /// program: the same object every time. Throws `ValueError` naming `partition_spec` for an axis that the mesh lacks,
  /// `DuplicateAxisError` for one that is used twice.
  const OpSharding& op_sharding(const PartitionSpec& spec, const Loc& loc = Loc::current()) const;

  /// A callable that runs `f` with this mesh current.
  template <class F>
  auto wrap(F f) const;

  bool operator==(const Mesh& other) const { return state_ == other.state_; }
  std::size_t hash() const;
  /// Address of the shared state: equal exactly for equal meshes.
  const void* identity() const { return state_.get(); }

 private:
  friend struct mesh::MeshState;
  explicit Mesh(std::shared_ptr<const mesh::MeshState> state);
  std::shared_ptr<const mesh::MeshState> state_;
};
/// "Mesh('x': 4, 'y': 2)", "Mesh()"; where an axis is not `Auto`, with "axis_types=(Explicit, Auto)" at the end.
std::string to_string(const Mesh& m);
/// "Mesh(device_ids=[[0, 1], [2, 3]], axis_names=('x', 'y'))".
std::string repr(const Mesh& m);

/// A mesh of the first devices of the current client in row-major order, as many as `sizes` needs. Its axes are `Auto`,
/// or `Explicit` where `config().explicit_meshes` is set. Throws `ValueError` when there are fewer devices, and as the
/// constructor.
Mesh make_mesh(const Shape& sizes, const AxisNames& axis_names, const Loc& loc = Loc::current());
/// The same with types of the axes.
Mesh make_mesh(const Shape& sizes, const AxisNames& axis_names, const MeshOptions& options,
               const Loc& loc = Loc::current());
/// The same with all axes `Explicit`.
Mesh make_explicit_mesh(const Shape& sizes, const AxisNames& axis_names, const Loc& loc = Loc::current());
/// The same from the first of `devices`.
Mesh make_mesh(const Shape& sizes, const AxisNames& axis_names, std::span<const Device> devices,
               const Loc& loc = Loc::current());

/// A string that `deserialize_mesh` reads back as the very same mesh.
std::string serialize(const Mesh& m);
/// The mesh of a `serialize`d string, over the client's devices. Throws `FormatError` for a string of another form and
/// `ValueError` with the id and the known ids for an unknown device.
Mesh deserialize_mesh(std::string_view text, const Client& client = Client::current(), const Loc& loc = Loc::current());

/// Axis names and sizes without devices.
class AbstractMesh {
 public:
  /// No axes: size 0.
  AbstractMesh();
  /// Throws `ValueError` for a size below 1 and `DuplicateAxisError` for a repeated name.
  AbstractMesh(std::initializer_list<AxisSize> axes, const Loc& loc = Loc::current());
  explicit AbstractMesh(std::span<const AxisSize> axes, const Loc& loc = Loc::current());
  AbstractMesh(const Shape& sizes, const AxisNames& axis_names, const Loc& loc = Loc::current());
  /// With types of the axes. Also throws `ValueError` where there is not one type for each axis.
  AbstractMesh(const Shape& sizes, const AxisNames& axis_names, const MeshOptions& options,
               const Loc& loc = Loc::current());
  AbstractMesh(std::initializer_list<AxisSize> axes, const MeshOptions& options, const Loc& loc = Loc::current());
  /// Axes without names.
  static AbstractMesh unnamed(const Shape& sizes, const Loc& loc = Loc::current());

  // The members have the meaning of `Mesh`'s.
  std::span<const std::string> axis_names() const&;
  std::vector<std::string> axis_names() const&& { return detail::owned(axis_names()); }
  bool has_names() const;
  std::int64_t ndim() const;
  const Shape& axis_sizes() const&;
  Shape axis_sizes() const&& { return axis_sizes(); }
  const Shape& mesh_shape() const& { return axis_sizes(); }
  Shape mesh_shape() const&& { return axis_sizes(); }
  const OrderedMap<std::string, std::int64_t>& shape() const&;
  OrderedMap<std::string, std::int64_t> shape() const&& { return shape(); }
  std::span<const AxisSize> shape_tuple() const&;
  std::vector<AxisSize> shape_tuple() const&& { return detail::owned(shape_tuple()); }
  std::int64_t axis_size(const AxisRef& axis, const Loc& loc = Loc::current()) const;
  std::optional<int> axis_index(const AxisRef& axis) const;
  std::span<const AxisType> axis_types() const&;
  std::vector<AxisType> axis_types() const&& { return detail::owned(axis_types()); }
  std::vector<std::string> explicit_axes() const;
  std::vector<std::string> auto_axes() const;
  std::vector<std::string> manual_axes() const;
  bool are_all_axes_explicit() const;
  bool are_all_axes_auto() const;
  bool are_all_axes_manual() const;
  AbstractMesh update_axis_types(const AxisTypes& types, const Loc& loc = Loc::current()) const;
  std::int64_t size() const;
  bool empty() const { return size() == 0; }
  bool is_device_mesh() const { return false; }
  const AbstractMesh& abstract_mesh() const& { return *this; }
  AbstractMesh abstract_mesh() const&& { return *this; }

  bool operator==(const AbstractMesh& other) const;
  std::size_t hash() const;

 private:
  friend struct mesh::AbstractMeshState;
  std::shared_ptr<const mesh::AbstractMeshState> state_;
};
/// Of a temporary, by value.
inline AbstractMesh Mesh::abstract_mesh() const&& { return abstract_mesh(); }
/// "AbstractMesh((('x', 4), ('y', 2)))"; where an axis is not `Auto`, with "axis_types=(Explicit, Auto)" at the end.
std::string to_string(const AbstractMesh& m);

/// Either kind of mesh. Members that need devices throw `ValueError` for an abstract one.
class AnyMesh {
 public:
  AnyMesh(Mesh m) : mesh_(std::move(m)) {}          // NOLINT(google-explicit-constructor): a mesh is an AnyMesh
  AnyMesh(AbstractMesh m) : mesh_(std::move(m)) {}  // NOLINT(google-explicit-constructor)

  bool is_concrete() const { return std::holds_alternative<Mesh>(mesh_); }
  /// The device mesh. Throws `ValueError` naming `member` when the mesh is abstract.
  const Mesh& concrete(std::string_view member = "mesh", const Loc& loc = Loc::current()) const&;
  Mesh concrete(std::string_view member = "mesh", const Loc& loc = Loc::current()) const&& {
    return concrete(member, loc);
  }
  /// Names and sizes, of either kind.
  const AbstractMesh& abstract_mesh() const&;
  AbstractMesh abstract_mesh() const&& { return abstract_mesh(); }

  // Of either kind, with the meaning of `Mesh`'s members.
  std::span<const std::string> axis_names() const& { return abstract_mesh().axis_names(); }
  std::vector<std::string> axis_names() const&& { return detail::owned(axis_names()); }
  bool has_names() const { return abstract_mesh().has_names(); }
  std::int64_t ndim() const { return abstract_mesh().ndim(); }
  const Shape& mesh_shape() const& { return abstract_mesh().mesh_shape(); }
  Shape mesh_shape() const&& { return mesh_shape(); }
  const OrderedMap<std::string, std::int64_t>& shape() const& { return abstract_mesh().shape(); }
  OrderedMap<std::string, std::int64_t> shape() const&& { return shape(); }
  std::span<const AxisSize> shape_tuple() const& { return abstract_mesh().shape_tuple(); }
  std::vector<AxisSize> shape_tuple() const&& { return detail::owned(shape_tuple()); }
  std::int64_t axis_size(const AxisRef& axis, const Loc& = Loc::current()) const {
    return abstract_mesh().axis_size(axis);
  }
  std::optional<int> axis_index(const AxisRef& axis) const { return abstract_mesh().axis_index(axis); }
  std::int64_t size() const;
  bool empty() const { return size() == 0; }
  bool is_device_mesh() const { return is_concrete(); }

  // Throw `ValueError` for an abstract mesh.
  const DeviceArray& devices(const Loc& = Loc::current()) const& { return concrete("devices").devices(); }
  DeviceArray devices(const Loc& = Loc::current()) const&& { return devices(); }
  const NdArray<std::int64_t>& device_ids(const Loc& = Loc::current()) const& {
    return concrete("device_ids").device_ids();
  }
  NdArray<std::int64_t> device_ids(const Loc& = Loc::current()) const&& { return device_ids(); }
  bool is_multi_process(const Loc& = Loc::current()) const { return concrete("is_multi_process").is_multi_process(); }
  std::span<const Device> local_devices(const Loc& = Loc::current()) const& {
    return concrete("local_devices").local_devices();
  }
  std::vector<Device> local_devices(const Loc& = Loc::current()) const&& { return detail::owned(local_devices()); }
  Mesh local_mesh(const Loc& = Loc::current()) const { return concrete("local_mesh").local_mesh(); }
  /// Null for an abstract mesh.
  std::shared_ptr<const mesh::DeviceList> device_list() const;

  bool operator==(const AnyMesh&) const = default;
  std::size_t hash() const;

 private:
  std::variant<Mesh, AbstractMesh> mesh_;
};
/// As the `to_string` of the mesh that it holds.
std::string to_string(const AnyMesh& m);

/// One level of a thread's stack of scopes.
struct ResourceEnv {
  Mesh physical_mesh;
  /// Axes of other kinds than the mesh's own, which a mesh must not shadow.
  std::vector<std::string> other_axes;

  /// The same environment over another mesh. Throws `ValueError` listing the axes that clash with `other_axes`.
  ResourceEnv with_mesh(const Mesh& m) const;
  /// The mesh's axis names, sorted.
  std::vector<std::string> physical_resource_axes() const;
  /// The same together with `other_axes`, sorted.
  std::vector<std::string> resource_axes() const;
  /// Axis to size, of the mesh and of its local part.
  const OrderedMap<std::string, std::int64_t>& shape() const& { return physical_mesh.shape(); }
  OrderedMap<std::string, std::int64_t> shape() const&& { return shape(); }
  OrderedMap<std::string, std::int64_t> local_shape() const { return physical_mesh.local_mesh().shape(); }
};
/// "ResourceEnv(mesh=Mesh('x': 4, 'y': 2))".
std::string to_string(const ResourceEnv& env);
/// "`a`, `m`, `z`": sorted and back-quoted.
std::string show_axes(std::vector<std::string> axes);

/// Makes a mesh current on this thread until the scope ends. Scopes of a thread must end in the reverse order of their
/// beginning; ending another one terminates the program.
class MeshScope {
 public:
  /// Throws `StateError` when `config().disallow_mesh_scope` is set.
  explicit MeshScope(const Mesh& m, const Loc& loc = Loc::current());
  /// Throws `StateError` for an abstract mesh.
  explicit MeshScope(const AnyMesh& m, const Loc& loc = Loc::current());
  explicit MeshScope(const AbstractMesh&) = delete;
  ~MeshScope();
  MeshScope(const MeshScope&) = delete;
  MeshScope& operator=(const MeshScope&) = delete;

  const Mesh& mesh() const& { return mesh_; }
  Mesh mesh() const&& { return mesh_; }

 private:
  Mesh mesh_;
  std::size_t depth_ = 0;
};

/// Makes a mesh the current one on this thread until the scope ends, as `MeshScope`, and its axes those by which types
/// are derived: `jax.set_mesh`. Scopes nest, and may change devices, sizes and types of axes.
class SetMesh {
 public:
  /// Throws `ValueError` inside a traced function, and as `MeshScope`.
  explicit SetMesh(const Mesh& m, const Loc& loc = Loc::current());
  const Mesh& mesh() const& { return scope_.mesh(); }
  Mesh mesh() const&& { return scope_.mesh(); }

 private:
  MeshScope scope_;
};
/// The mesh outside all scopes, for every thread; the empty mesh takes it away. Throws `ValueError` inside a traced
/// function.
void set_mesh(const Mesh& m, const Loc& loc = Loc::current());

/// Makes the axes of an abstract mesh those by which types are derived, on this thread until the scope ends; the
/// devices stay. Scopes end in the reverse order of their beginning, together with those of meshes.
class UseAbstractMesh {
 public:
  /// Throws `ValueError` with both sizes where a non-empty mesh of another number of devices is current.
  explicit UseAbstractMesh(const AbstractMesh& m, const Loc& loc = Loc::current());
  ~UseAbstractMesh();
  UseAbstractMesh(const UseAbstractMesh&) = delete;
  UseAbstractMesh& operator=(const UseAbstractMesh&) = delete;

 private:
  std::size_t depth_ = 0;
};
/// The axes of the innermost scope: those of its mesh, or the abstract mesh itself; without axes outside all scopes.
const AbstractMesh& get_abstract_mesh();
/// The mesh of the innermost scope that has devices: `current_mesh`.
const Mesh& get_mesh();

/// The innermost mesh of this thread; outside all scopes what `set_mesh` set, or the empty mesh.
const Mesh& current_mesh();
/// The innermost level of this thread's stack of scopes.
const ResourceEnv& current_env();
/// Levels of this thread's stack; 1 outside all scopes.
std::size_t mesh_scope_depth();
/// The non-empty meshes of the stack, outermost first: part of the key of program caches.
std::vector<Mesh> mesh_scope_stack();

/// Runs `f(mesh)` with the mesh current and returns its result.
template <class F>
decltype(auto) with_mesh(const Mesh& m, F&& f) {
  MeshScope scope(m);
  return std::forward<F>(f)(scope.mesh());
}

/// Defined here, where `MeshScope` is known.
template <class F>
auto Mesh::wrap(F f) const {
  return [self = *this, f = std::move(f)](auto&&... args) mutable -> decltype(auto) {
    MeshScope scope(self);
    return std::invoke(f, std::forward<decltype(args)>(args)...);
  };
}

}  // namespace tessera

template <>
struct std::hash<tessera::Mesh> {
  std::size_t operator()(const tessera::Mesh& m) const noexcept { return m.hash(); }
};
template <>
struct std::hash<tessera::AbstractMesh> {
  std::size_t operator()(const tessera::AbstractMesh& m) const noexcept { return m.hash(); }
};
