// SPDX-License-Identifier: Apache-2.0
#include "tessera/mesh.h"

#include <algorithm>
#include <numeric>

#include "base/hash.h"
#include "base/intern_table.h"
#include "base/strings.h"
#include "mesh/mesh_state.h"
#include "tessera/config.h"
#include "tessera/error.h"

namespace tessera {

using mesh::AbstractMeshState;
using mesh::DeviceList;
using mesh::MeshState;

namespace mesh {

Mesh MeshState::intern(std::shared_ptr<const DeviceList> list, const AbstractMesh& abstract) {
  static auto* table = new base::InternTable<MeshState>;
  std::size_t hash = base::hash_mix(list->hash, abstract.hash());
  return Mesh(table->get(
      hash, [&](const MeshState& s) { return s.list == list && s.abstract == abstract; },
      [&]() -> std::shared_ptr<const MeshState> {
        std::shared_ptr<MeshState> s(new MeshState);
        s->list = std::move(list);
        s->abstract = abstract;
        s->hash = hash;
        return s;
      }));
}

namespace {

Mesh empty_mesh() {
  // Never destroyed: thread stacks and static objects may outlive any order of destruction.
  static const auto* m = new Mesh(MeshState::intern(intern_device_list({}, "Mesh", "devices"), AbstractMesh()));
  return *m;
}

std::string names_text(const std::vector<std::string>& names) { return str("(", join(names), ")"); }

Mesh mesh_from_devices(const DeviceArray& devices, const AxisNames& axis_names, const MeshOptions& options) {
  auto names = checked_names(axis_names, "Mesh");
  check_axis_types(options.axis_types, devices.ndim(), "Mesh");
  if (axis_names.given() && static_cast<std::int64_t>(names.size()) != devices.ndim()) {
    throw ValueError(str("Mesh: devices has rank ", devices.ndim(), " but axis_names has ", names.size(), " entries ",
                         names_text(names), "; expected one name for each dimension"));
  }
  return MeshState::intern(
      intern_device_list(devices.flat(), "Mesh", "devices"),
      AbstractMeshState::make(std::move(names), devices.shape(), axis_names.given(), options.axis_types));
}

std::int64_t checked_mesh_size(const Shape& mesh_shape) {
  std::int64_t n = 1;
  for (std::size_t i = 0; i < mesh_shape.size(); ++i) {
    if (mesh_shape[i] < 1) {
      throw ValueError(str("Mesh: mesh_shape[", i, "] = ", mesh_shape[i], " in ", mesh_shape, "; expected at least 1"));
    }
    if (__builtin_mul_overflow(n, mesh_shape[i], &n)) {
      throw ValueError(str("Mesh: mesh_shape = ", mesh_shape, " has a product above 2^63 - 1"));
    }
  }
  return n;
}

template <class Int>
Mesh mesh_from_ids(std::span<const Int> ids, const Shape& mesh_shape, const AxisNames& axis_names) {
  std::int64_t size = checked_mesh_size(mesh_shape);
  auto names = checked_names(axis_names, "Mesh");
  if (axis_names.given() && names.size() != mesh_shape.size()) {
    throw ValueError(str("Mesh: axis_names has ", names.size(), " entries ", names_text(names), "; expected ",
                         mesh_shape.size(), ", one for each dimension of mesh_shape = ", mesh_shape));
  }
  if (static_cast<std::int64_t>(ids.size()) != size) {
    throw ValueError(str("Mesh: device_ids has ", ids.size(), " entries; expected ", size,
                         ", the product of mesh_shape = ", mesh_shape));
  }
  auto available = devices();
  if (size > static_cast<std::int64_t>(available.size())) {
    throw ValueError(str("Mesh: device_ids of a mesh of mesh_shape = ", mesh_shape, " name ", size,
                         " devices; the current client has ", available.size()));
  }
  std::vector<bool> seen(static_cast<std::size_t>(size));
  std::vector<Device> list;
  list.reserve(ids.size());
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0 || static_cast<std::int64_t>(ids[i]) >= size) {
      throw ValueError(str("Mesh: device_ids[", i, "] = ", ids[i], "; expected an id in the range 0..", size - 1));
    }
    auto id = static_cast<std::size_t>(ids[i]);
    if (seen[id]) throw ValueError(str("Mesh: device_ids[", i, "] repeats ", ids[i], "; expected unique ids"));
    seen[id] = true;
    list.push_back(available[id]);
  }
  return MeshState::intern(intern_device_list(std::move(list), "Mesh", "device_ids"),
                           AbstractMeshState::make(std::move(names), mesh_shape, axis_names.given()));
}

}  // namespace
}  // namespace mesh

Mesh::Mesh() : Mesh(mesh::empty_mesh()) {}
Mesh::Mesh(std::shared_ptr<const MeshState> state) : state_(std::move(state)) {}
Mesh::Mesh(const DeviceArray& devices, const AxisNames& axis_names, const Loc&)
    : Mesh(mesh::mesh_from_devices(devices, axis_names, {})) {}
Mesh::Mesh(const DeviceArray& devices, const AxisNames& axis_names, const MeshOptions& options, const Loc&)
    : Mesh(mesh::mesh_from_devices(devices, axis_names, options)) {}
Mesh::Mesh(std::span<const std::int64_t> device_ids, const Shape& mesh_shape, const AxisNames& axis_names, const Loc&)
    : Mesh(mesh::mesh_from_ids(device_ids, mesh_shape, axis_names)) {}
Mesh::Mesh(std::span<const int> device_ids, const Shape& mesh_shape, const AxisNames& axis_names, const Loc&)
    : Mesh(mesh::mesh_from_ids(device_ids, mesh_shape, axis_names)) {}
Mesh::Mesh(std::initializer_list<std::int64_t> device_ids, const Shape& mesh_shape, const AxisNames& axis_names,
           const Loc&)
    : Mesh(std::span<const std::int64_t>(device_ids.begin(), device_ids.size()), mesh_shape, axis_names) {}

std::span<const std::string> Mesh::axis_names() const& { return state_->abstract.axis_names(); }
bool Mesh::has_names() const { return state_->abstract.has_names(); }
std::int64_t Mesh::ndim() const { return state_->abstract.ndim(); }
const OrderedMap<std::string, std::int64_t>& Mesh::shape() const& { return state_->abstract.shape(); }
std::span<const AxisSize> Mesh::shape_tuple() const& { return state_->abstract.shape_tuple(); }
const Shape& Mesh::mesh_shape() const& { return state_->abstract.axis_sizes(); }
std::int64_t Mesh::axis_size(const AxisRef& axis, const Loc&) const { return state_->abstract.axis_size(axis); }
std::optional<int> Mesh::axis_index(const AxisRef& axis) const { return state_->abstract.axis_index(axis); }
std::span<const AxisType> Mesh::axis_types() const& { return state_->abstract.axis_types(); }
std::vector<std::string> Mesh::explicit_axes() const { return state_->abstract.explicit_axes(); }
std::vector<std::string> Mesh::auto_axes() const { return state_->abstract.auto_axes(); }
std::vector<std::string> Mesh::manual_axes() const { return state_->abstract.manual_axes(); }
bool Mesh::are_all_axes_explicit() const { return state_->abstract.are_all_axes_explicit(); }
bool Mesh::are_all_axes_auto() const { return state_->abstract.are_all_axes_auto(); }
bool Mesh::are_all_axes_manual() const { return state_->abstract.are_all_axes_manual(); }
Mesh Mesh::update_axis_types(const AxisTypes& types, const Loc&) const {
  return MeshState::intern(state_->list, state_->abstract.update_axis_types(types));
}
std::int64_t Mesh::size() const { return static_cast<std::int64_t>(state_->list->size()); }

const DeviceArray& Mesh::devices() const& {
  std::call_once(state_->devices_once, [&] {
    // The empty mesh has no axes but also no device, which a shape of rank 0 cannot say.
    if (!empty() || ndim() > 0) state_->devices = DeviceArray(state_->list->devices, mesh_shape());
  });
  return state_->devices;
}
const NdArray<std::int64_t>& Mesh::device_ids(const Loc&) const& {
  if (empty()) throw StateError("device_ids: mesh is empty; expected a mesh with devices");
  std::call_once(state_->ids_once, [&] {
    std::vector<std::int64_t> ids;
    ids.reserve(state_->list->size());
    for (const auto& d : state_->list->devices) ids.push_back(d.id());
    state_->ids = NdArray<std::int64_t>(std::move(ids), mesh_shape());
  });
  return state_->ids;
}
const std::vector<std::int64_t>& Mesh::flat_ids() const& { return device_ids().flat(); }
std::span<const Device> Mesh::devices_flat() const& { return state_->list->devices; }
DeviceSet Mesh::device_set() const { return DeviceSet(state_->list); }
DeviceSet Mesh::local_device_set() const { return DeviceSet(state_->list, true); }
std::span<const Device> Mesh::local_devices() const& { return state_->list->local_devices(); }
const std::shared_ptr<const DeviceList>& Mesh::device_list() const& { return state_->list; }
bool Mesh::is_multi_process() const { return !state_->list->all_local(); }
const AbstractMesh& Mesh::abstract_mesh() const& { return state_->abstract; }
std::size_t Mesh::hash() const { return state_->hash; }

DeviceSet::DeviceSet(std::shared_ptr<const DeviceList> list, bool local_only)
    : list_(std::move(list)), local_only_(local_only && !list_->all_local()) {}
std::span<const Device> DeviceSet::devices() const& {
  if (list_ == nullptr) return {};
  return local_only_ ? list_->local_devices() : list_->devices;
}
bool DeviceSet::contains(const Device& d) const {
  return list_ != nullptr && list_->position(d) >= 0 && (!local_only_ || d.is_local());
}
bool DeviceSet::operator==(const DeviceSet& other) const {
  if (list_ == other.list_ && local_only_ == other.local_only_) return true;
  return std::ranges::equal(devices(), other.devices());
}

namespace {
DeviceArray first_devices(const Shape& sizes, std::span<const Device> devices) {
  std::int64_t needed = size_of(sizes);
  if (needed > static_cast<std::int64_t>(devices.size()))
    throw ValueError(str("make_mesh: sizes = ", sizes, " need ", needed, " devices; got ", devices.size()));
  return DeviceArray({devices.begin(), devices.begin() + needed}, sizes);
}
std::vector<AxisType> all_explicit(const Shape& sizes) {
  return std::vector<AxisType>(sizes.size(), AxisType::Explicit);
}
}  // namespace

Mesh make_mesh(const Shape& sizes, const AxisNames& axis_names, const Loc&) {
  return make_mesh(sizes, axis_names, devices());
}
Mesh make_mesh(const Shape& sizes, const AxisNames& axis_names, const MeshOptions& options, const Loc&) {
  return Mesh(first_devices(sizes, devices()), axis_names, options);
}
Mesh make_explicit_mesh(const Shape& sizes, const AxisNames& axis_names, const Loc&) {
  return make_mesh(sizes, axis_names, {.axis_types = all_explicit(sizes)});
}
Mesh make_mesh(const Shape& sizes, const AxisNames& axis_names, std::span<const Device> devices, const Loc&) {
  MeshOptions options;
  if (config().explicit_meshes) options.axis_types = all_explicit(sizes);
  return Mesh(first_devices(sizes, devices), axis_names, options);
}

std::string to_string(const Mesh& m) {
  std::string out = "Mesh(";
  bool first = true;
  for (const auto& a : m.shape_tuple()) {
    if (!first) out += ", ";
    first = false;
    out += m.has_names() ? str("'", a.name, "': ", a.size) : str(a.name, ": ", a.size);
  }
  return str(out, mesh::axis_types_text(m.axis_types()), ")");
}

std::string repr(const Mesh& m) {
  std::string names;
  for (const auto& n : m.axis_names()) names += str(names.empty() ? "'" : ", '", n, "'");
  if (m.axis_names().size() == 1) names += ",";
  return str("Mesh(device_ids=", m.empty() ? "[]" : to_string(m.device_ids()), ", axis_names=(", names, ")",
             mesh::axis_types_text(m.axis_types()), ")");
}

const Mesh& AnyMesh::concrete(std::string_view member, const Loc&) const& {
  if (const Mesh* m = std::get_if<Mesh>(&mesh_)) return *m;
  throw ValueError(
      str("AbstractMesh has no ", member, "; a concrete Mesh is needed in place of ", std::get<AbstractMesh>(mesh_)));
}
const AbstractMesh& AnyMesh::abstract_mesh() const& {
  if (const Mesh* m = std::get_if<Mesh>(&mesh_)) return m->abstract_mesh();
  return std::get<AbstractMesh>(mesh_);
}
std::int64_t AnyMesh::size() const {
  const Mesh* m = std::get_if<Mesh>(&mesh_);
  return m != nullptr ? m->size() : std::get<AbstractMesh>(mesh_).size();
}
std::shared_ptr<const DeviceList> AnyMesh::device_list() const {
  const Mesh* m = std::get_if<Mesh>(&mesh_);
  return m != nullptr ? m->device_list() : nullptr;
}
std::size_t AnyMesh::hash() const {
  return std::visit([](const auto& m) { return m.hash(); }, mesh_);
}
std::string to_string(const AnyMesh& m) {
  return m.is_concrete() ? to_string(m.concrete()) : to_string(m.abstract_mesh());
}

}  // namespace tessera
