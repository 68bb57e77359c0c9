// SPDX-License-Identifier: Apache-2.0
// Shardings of the public interface as axes of a module's meshes, and back.
#include <algorithm>

#include "base/intern_table.h"
#include "base/strings.h"
#include "hlo/sharding/sdy.h"
#include "ir/type_sharding.h"
#include "program/placed_module.h"
#include "sharding/mesh_tiling.h"
#include "tessera/error.h"

namespace tessera::program {

ShardingPtr interned(ShardingPtr s) {
  static auto* table = new base::InternTable<Sharding>;
  return table->get(
      s->hash(), [&](const Sharding& known) { return known == *s; }, [&] { return s; });
}

namespace {

using Origin = ir::NamedMesh::Origin;

// The axes of a dimension as whole axes of a mesh; false where they are none.
bool whole_axes(const ir::AxisList& dim, const ir::DimAxes& mesh, std::vector<std::size_t>& out) {
  for (std::size_t at = 0; at < dim.size();) {
    auto fits = [&](const ir::AxisList& axis) {
      return !axis.empty() && axis.size() <= dim.size() - at &&
             std::equal(axis.begin(), axis.end(), dim.begin() + static_cast<std::ptrdiff_t>(at));
    };
    auto found = std::find_if(mesh.begin(), mesh.end(), fits);
    if (found == mesh.end()) return false;
    out.push_back(static_cast<std::size_t>(found - mesh.begin()));
    at += found->size();
  }
  return true;
}

ShardingPtr named(const ir::NamedMesh& mesh, const std::vector<std::vector<std::size_t>>& dims,
                  const std::vector<std::size_t>& unreduced, bool uneven, const std::vector<Device>& devices) {
  bool numbered = mesh.origin == Origin::Numbered;
  auto refs = [&](const std::vector<std::size_t>& list) {
    std::vector<AxisRef> axes;
    for (auto a : list) axes.push_back(numbered ? AxisRef(static_cast<std::int64_t>(a)) : AxisRef(mesh.axes[a]));
    return axes;
  };
  std::vector<SpecEntry> entries;
  for (const auto& dim : dims) entries.push_back(dim.empty() ? SpecEntry(none) : SpecEntry(refs(dim)));
  while (!entries.empty() && entries.back().is_none()) entries.pop_back();
  DeviceArray grid(devices, mesh.sizes);
  Mesh placed(grid, numbered ? AxisNames(std::nullopt) : AxisNames(mesh.axes), {.axis_types = mesh.axis_types});
  return interned(NamedSharding(placed, PartitionSpec(entries).with_unreduced(refs(unreduced)), {.uneven = uneven}));
}

// Tiles over the axes of the module's mesh.
ShardingPtr tiles(const ir::Layout& layout, const ir::MeshAxes& mesh, const std::vector<Device>& devices) {
  Dims dims;
  Dims permutation;
  for (const auto& dim : layout.dims) {
    dims.push_back(ir::parts(dim, mesh));
    permutation.insert(permutation.end(), dim.begin(), dim.end());
  }
  bool rest = false;
  std::int64_t last = 1;
  for (std::size_t a = 0; a < mesh.sizes.size(); ++a) {
    if (layout.tiled() >> a & 1) continue;
    permutation.push_back(static_cast<std::int64_t>(a));
    last *= mesh.sizes[a];
    rest = rest || mesh.sizes[a] > 1;
  }
  if (rest) dims.push_back(last);
  return interned(GspmdSharding(devices, TileAssignment(dims, mesh.sizes, permutation, rest)));
}

}  // namespace

std::optional<ir::AxisSharding> axis_sharding(const Sharding& s, std::int64_t rank, ir::Module& m) {
  ir::NamedMesh mesh;
  std::vector<Dims> dims(static_cast<std::size_t>(rank));
  std::vector<bool> open(dims.size());
  Dims unreduced;
  if (const auto* by_name = dynamic_cast<const NamedSharding*>(&s)) {
    const auto& spec = by_name->spec();
    if (static_cast<std::int64_t>(spec.size()) > rank) {
      throw ValueError(str("the spec ", spec, " has ", spec.size(), " entries but the value has rank ", rank));
    }
    const auto& axes = by_name->mesh().abstract_mesh();
    mesh.origin = axes.axis_names().empty() ? Origin::Numbered : Origin::Named;
    mesh.uneven = by_name->uneven();
    const auto all_auto = [](AxisType t) { return t == AxisType::Auto; };
    if (!std::ranges::all_of(axes.axis_types(), all_auto)) {
      mesh.axis_types.assign(axes.axis_types().begin(), axes.axis_types().end());
    }
    for (const auto& a : axes.shape_tuple()) {
      mesh.axes.push_back(a.name);
      mesh.sizes.push_back(a.size);
    }
    for (std::size_t d = 0; d < dims.size(); ++d) {
      open[d] = d < spec.size() && spec[d].is_unconstrained();
      if (open[d]) continue;
      auto list = by_name->dim_axes(d);
      dims[d].assign(list.begin(), list.end());
    }
    unreduced.assign(by_name->unreduced_axes().begin(), by_name->unreduced_axes().end());
  } else {
    auto tiling = sharding::mesh_tiling(s, rank);
    if (!tiling) return std::nullopt;
    mesh.origin = Origin::Tiles;
    mesh.sizes.assign(tiling->axis_sizes.begin(), tiling->axis_sizes.end());
    mesh.axes.resize(mesh.sizes.size());
    for (std::size_t d = 0; d < dims.size(); ++d)
      dims[d].assign(tiling->dim_axes[d].begin(), tiling->dim_axes[d].end());
  }
  ir::AxisSharding out;
  out.mesh = m.add_mesh(mesh);
  const auto& names = m.find_mesh(out.mesh)->axes;
  for (std::size_t d = 0; d < dims.size(); ++d) {
    ir::DimSharding& dim = out.dims.emplace_back();
    dim.open = open[d];
    for (auto a : dims[d]) dim.axes.push_back({names[static_cast<std::size_t>(a)]});
  }
  for (auto a : unreduced) out.unreduced.push_back({names[static_cast<std::size_t>(a)]});
  return out;
}

ShardingPtr public_sharding(const ir::AxisSharding& s, const ir::NamedMesh& mesh, const Shape& shape,
                            const std::vector<Device>& devices) {
  ops::ShardingConstraint c = hlo::constraint_of(s, mesh);
  std::vector<std::vector<std::size_t>> dims(c.dims.size());
  bool uneven = false;
  for (std::size_t d = 0; d < dims.size(); ++d) {
    std::int64_t parts = 1;
    for (auto a : c.dims[d]) {
      if (a < 0) continue;
      dims[d].push_back(static_cast<std::size_t>(a));
      parts *= c.mesh_sizes[static_cast<std::size_t>(a)];
    }
    uneven = uneven || shape[d] % parts != 0;
  }
  std::vector<std::size_t> unreduced(c.unreduced.begin(), c.unreduced.end());
  ir::NamedMesh cut{mesh.name, c.mesh_names.list, c.mesh_sizes, {}};
  if (cut.axes == mesh.axes) cut.axis_types = mesh.axis_types;
  return named(cut, dims, unreduced, uneven, devices);
}

ShardingPtr public_sharding(const PlacedModule& placed, const ir::Layout& layout, const Shape& shape) {
  const ir::Module& m = placed.module;
  const std::vector<Device>& devices = placed.devices->devices;
  bool uneven = false;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    auto n = ir::parts(layout.dims[d], *m.mesh);
    uneven = uneven || (n > 0 && shape[d] % n != 0);
  }
  for (std::size_t k = 0; k < m.meshes.size(); ++k) {
    if (m.meshes[k].origin == Origin::Tiles || !m.axes_of[k]) continue;
    std::vector<std::vector<std::size_t>> dims(layout.dims.size());
    bool fits = true;
    for (std::size_t d = 0; d < dims.size(); ++d) fits = fits && whole_axes(layout.dims[d], *m.axes_of[k], dims[d]);
    std::vector<std::size_t> unreduced;
    fits = fits && whole_axes(ir::axes_of(layout.partial), *m.axes_of[k], unreduced);
    if (fits) return named(m.meshes[k], dims, unreduced, uneven || m.meshes[k].uneven, devices);
  }
  if (layout.partial != 0) {
    throw UnimplementedError(str(m.name, ": a value of shape ", shape, " that lies ", to_string(layout, *m.mesh),
                                 ", a sum over what are no axes of one mesh; give it a sharding"));
  }
  if (devices.size() == 1) return interned(SingleDeviceSharding(devices[0]));
  if (layout.tiled() == 0) return interned(GspmdSharding::replicated(devices));
  return tiles(layout, *m.mesh, devices);
}

}  // namespace tessera::program
