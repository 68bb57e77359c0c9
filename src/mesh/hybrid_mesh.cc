// SPDX-License-Identifier: Apache-2.0
#include "tessera/hybrid_mesh.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <numeric>

#include "base/strings.h"
#include "mesh/torus.h"
#include "tessera/error.h"

namespace tessera {

namespace {

constexpr const char* kName = "make_hybrid_mesh";

std::int64_t product(const Shape& s) { return size_of(s); }

void check_shape(const Shape& s, const char* argument) {
  std::int64_t n = 1;
  for (std::size_t i = 0; i < s.size(); ++i) {
    if (s[i] < 1)
      throw ValueError(str(kName, ": ", argument, "[", i, "] = ", s[i], " in ", s, "; expected at least 1"));
    if (__builtin_mul_overflow(n, s[i], &n)) {
      throw ValueError(str(kName, ": ", argument, " = ", s, " has a product above 2^63 - 1"));
    }
  }
}

// The same attribute on all devices or on none.
template <class Has>
void check_mixed(const std::vector<DeviceAttributes>& devices, const char* attribute, Has has) {
  auto with = std::ranges::count_if(devices, has);
  if (with != 0 && with != static_cast<std::ptrdiff_t>(devices.size())) {
    throw ValueError(
        str(kName, ": ", attribute, " is known of ", with, " of ", devices.size(), " devices; expected all or none"));
  }
}

std::vector<DeviceAttributes> ordered_devices(const HybridMeshOptions& o) {
  std::vector<DeviceAttributes> devices = o.devices ? *o.devices : device_attributes();
  if (devices.empty()) throw ValueError(str(kName, ": devices has 0 entries; expected at least 1"));
  for (auto& d : devices) {
    if (!d.name.empty()) d.ordinal = device_ordinal(d.name);
  }
  std::ranges::stable_sort(devices, {}, &DeviceAttributes::ordinal);
  for (std::size_t i = 1; i < devices.size(); ++i) {
    if (devices[i].ordinal == devices[i - 1].ordinal) {
      throw ValueError(str(kName, ": devices has the ordinal ", devices[i].ordinal, " twice; expected unique ones"));
    }
    if (!devices[i].coords.empty() && !devices[0].coords.empty() &&
        devices[i].coords.size() != devices[0].coords.size()) {
      throw ValueError(str(kName, ": coords ", base::list_text(devices[i].coords), " and ",
                           base::list_text(devices[0].coords), " have different lengths"));
    }
  }
  check_mixed(devices, "slice_index", [](const auto& d) { return d.slice_index.has_value(); });
  check_mixed(devices, "coords", [](const auto& d) { return !d.coords.empty(); });
  return devices;
}

// Ids of the devices of each slice, slices by ascending number.
std::vector<std::vector<std::int64_t>> slices_of(const std::vector<DeviceAttributes>& devices,
                                                 const HybridMeshOptions& o, const Shape& dcn) {
  bool sliced = devices[0].slice_index.has_value();
  std::int64_t wanted = product(dcn);
  if (wanted == 1) {
    if (sliced) {
      throw ValueError(str(kName, ": dcn_mesh_shape = ", dcn, " has one slice but the devices report slice_index; ",
                           "expected a dcn_mesh_shape with as many slices as there are"));
    }
    std::vector<std::int64_t> all(devices.size());
    std::iota(all.begin(), all.end(), std::int64_t{0});
    return {all};
  }
  if (!sliced && !o.process_is_slice) {
    throw ValueError(str(kName, ": dcn_mesh_shape = ", dcn, " has ", wanted,
                         " slices but the devices report no slice_index: they are a single slice"));
  }
  std::map<std::int64_t, std::vector<std::int64_t>> by_slice;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    by_slice[sliced ? devices[i].slice_index.value_or(0) : devices[i].process_index].push_back(
        static_cast<std::int64_t>(i));
  }
  if (static_cast<std::int64_t>(by_slice.size()) != wanted) {
    throw ValueError(
        str(kName, ": dcn_mesh_shape = ", dcn, " has ", wanted, " slices; the devices are in ", by_slice.size()));
  }
  std::vector<std::vector<std::int64_t>> out;
  for (auto& [slice, ids] : by_slice) out.push_back(std::move(ids));
  return out;
}

// Ids of one slice in row-major order of the ici shape.
std::vector<std::int64_t> lay_out(const std::vector<DeviceAttributes>& all, const std::vector<std::int64_t>& ids,
                                  const HybridMeshOptions& o, SliceAssignment& assignment) {
  if (product(o.ici_mesh_shape) != static_cast<std::int64_t>(ids.size())) {
    throw ValueError(str(kName, ": ici_mesh_shape = ", o.ici_mesh_shape, " needs ", product(o.ici_mesh_shape),
                         " devices a slice; got ", ids.size()));
  }
  std::vector<DeviceAttributes> devices;
  for (auto i : ids) devices.push_back(all[static_cast<std::size_t>(i)]);
  if (devices[0].coords.empty()) return ids;
  return mesh::assign_torus(mesh::physical_mesh(devices, ids), o.ici_mesh_shape, o.allow_split_physical_axes,
                            assignment);
}

// Along every axis the slice is the slow part.
std::vector<std::int64_t> assemble(const std::vector<std::vector<std::int64_t>>& slices, const Shape& ici,
                                   const Shape& dcn, const Shape& full) {
  std::vector<std::int64_t> out;
  auto n = static_cast<std::size_t>(product(full));
  out.reserve(n);
  Dims index(full.size(), 0);
  for (std::size_t i = 0; i < n; ++i) {
    std::int64_t slice = 0;
    std::int64_t inside = 0;
    for (std::size_t d = 0; d < full.size(); ++d) {
      slice = slice * dcn[d] + index[d] / ici[d];
      inside = inside * ici[d] + index[d] % ici[d];
    }
    out.push_back(slices[static_cast<std::size_t>(slice)][static_cast<std::size_t>(inside)]);
    for (std::size_t d = full.size(); d-- > 0;) {
      if (++index[d] < full[d]) break;
      index[d] = 0;
    }
  }
  return out;
}

}  // namespace

std::int64_t device_ordinal(std::string_view name, const Loc&) {
  std::size_t letters = 0;
  while (letters < name.size() &&
         ((name[letters] >= 'A' && name[letters] <= 'Z') || (name[letters] >= 'a' && name[letters] <= 'z'))) {
    ++letters;
  }
  std::int64_t n = 0;
  if (letters > 0 && letters + 1 < name.size() && name[letters] == ':' && name[letters + 1] != '-') {
    auto r = std::from_chars(name.data() + letters + 1, name.data() + name.size(), n);
    if (r.ec == std::errc() && r.ptr == name.data() + name.size()) return n;
  }
  throw ValueError(str("device_ordinal: name = \"", name, "\"; expected letters, a colon and digits, as in TPU:9"));
}

std::vector<DeviceAttributes> device_attributes() {
  std::vector<DeviceAttributes> out;
  for (const Device& d : devices()) {
    auto coords = d.coords();
    out.push_back({.ordinal = d.id(),
                   .coords = {coords.begin(), coords.end()},
                   .core_on_chip = d.core_on_chip(),
                   .slice_index = d.slice_index(),
                   .process_index = d.process_index()});
  }
  return out;
}

HybridMeshInfo assign_hybrid_mesh(const HybridMeshOptions& o, const Loc&) {
  HybridMeshInfo info;
  info.ici_mesh_shape = o.ici_mesh_shape;
  info.dcn_mesh_shape = o.dcn_mesh_shape.empty() ? Shape(o.ici_mesh_shape.size(), 1) : o.dcn_mesh_shape;
  if (info.dcn_mesh_shape.size() != o.ici_mesh_shape.size()) {
    throw ValueError(str(kName, ": dcn_mesh_shape = ", o.dcn_mesh_shape, " has ", o.dcn_mesh_shape.size(),
                         " axes; expected ", o.ici_mesh_shape.size(), ", as ici_mesh_shape = ", o.ici_mesh_shape));
  }
  check_shape(o.ici_mesh_shape, "ici_mesh_shape");
  check_shape(info.dcn_mesh_shape, "dcn_mesh_shape");
  if (o.axis_names.given() && o.axis_names.values().size() != o.ici_mesh_shape.size()) {
    throw ValueError(str(kName, ": axis_names has ", o.axis_names.values().size(), " entries; expected ",
                         o.ici_mesh_shape.size(), ", one an axis"));
  }
  for (std::size_t d = 0; d < o.ici_mesh_shape.size(); ++d) {
    std::int64_t n = 0;
    if (__builtin_mul_overflow(o.ici_mesh_shape[d], info.dcn_mesh_shape[d], &n)) {
      throw ValueError(str(kName, ": dcn_mesh_shape = ", info.dcn_mesh_shape,
                           " times ici_mesh_shape = ", o.ici_mesh_shape, " is above 2^63 - 1"));
    }
    info.mesh_shape.push_back(n);
  }
  auto devices = ordered_devices(o);
  std::vector<std::vector<std::int64_t>> slices;
  for (const auto& ids : slices_of(devices, o, info.dcn_mesh_shape)) {
    slices.push_back(lay_out(devices, ids, o, info.per_slice.emplace_back()));
  }
  info.logical_mesh = NdArray<std::int64_t>(assemble(slices, info.ici_mesh_shape, info.dcn_mesh_shape, info.mesh_shape),
                                            info.mesh_shape);
  return info;
}

HybridMesh::HybridMesh(const HybridMeshOptions& options, const Loc&)
    : HybridMesh(options, assign_hybrid_mesh(options)) {}
HybridMesh::HybridMesh(const HybridMeshOptions& options, HybridMeshInfo info)
    : Mesh(std::span<const std::int64_t>(info.logical_mesh.flat()), info.mesh_shape, options.axis_names),
      info_(std::make_shared<const HybridMeshInfo>(std::move(info))) {}

HybridMesh make_hybrid_mesh(const HybridMeshOptions& options, const Loc&) { return HybridMesh(options); }

}  // namespace tessera
