// SPDX-License-Identifier: Apache-2.0
#include "ir/module.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/check.h"
#include "base/strings.h"
#include "ir/axis_sets.h"
#include "sharding/mesh_tiling.h"
#include "tessera/error.h"

namespace tessera::ir {

namespace {

std::size_t as_size(std::int64_t i) { return static_cast<std::size_t>(i); }

// Axes without a name go by their number.
std::string axis_name(const std::vector<std::string>& names, std::size_t a) {
  return names[a].empty() ? str("d", a) : names[a];
}

// The axes of a placed mesh that make a part of one of its axes; nothing where one of them reaches over its ends.
std::optional<AxisList> axes_of_part(const AxisList& axis, const SubAxis& part, const MeshAxes& mesh) {
  if (part.size == 0) return axis;
  AxisList out;
  std::int64_t before = 1;
  for (auto a : axis) {
    std::int64_t after = before * mesh.sizes[a];
    bool inside = before >= part.pre_size && after <= part.pre_size * part.size;
    if (inside) out.push_back(a);
    if (!inside && after > part.pre_size && before < part.pre_size * part.size) return std::nullopt;
    before = after;
  }
  return out;
}

class Placer {
 public:
  Placer(Module& m, std::int64_t total) : m_(m), total_(total) {}

  bool run() {
    bool all = true;
    std::vector<int> grid_of;
    for (const auto& mesh : m_.meshes) {
      parts_.push_back(parts_of(mesh));
      Dims grid;
      for (const auto& axis : parts_.back()) grid.insert(grid.end(), axis.begin(), axis.end());
      grid_of.push_back(mesh.size() == total_ ? add_grid(grid) : -1);
      all = all && (grid_of.back() >= 0 || mesh.size() != total_);
      m_.uneven = m_.uneven || (mesh.uneven && grid_of.back() >= 0);
    }
    if (fine_.sizes.empty() && total_ > 1) add_grid({total_});
    auto mesh = std::make_shared<MeshAxes>();
    mesh->sizes = fine_.sizes;
    mesh->names.assign(mesh->sizes.size(), "");
    m_.axes_of.clear();
    for (std::size_t k = 0; k < m_.meshes.size(); ++k) {
      m_.axes_of.push_back(grid_of[k] < 0 ? std::nullopt : std::optional(axes(k, grid_of[k])));
      if (m_.axes_of[k] && m_.meshes[k].origin == NamedMesh::Origin::Named) name(*mesh, k);
    }
    for (std::size_t a = 0; a < mesh->names.size(); ++a) {
      if (mesh->names[a].empty()) mesh->names[a] = str("d", a);
    }
    m_.mesh = std::move(mesh);
    for (auto* ports : {&m_.inputs, &m_.outputs}) {
      for (auto& p : *ports) {
        if (p.sharding) p.layout = layout_of(*p.sharding);
      }
    }
    return all;
  }

 private:
  // By axis the sizes of its parts: those that ports name must be axes of the grid. Where they do not nest, nothing is
  // cut, and the shardings get no layout.
  std::vector<Dims> parts_of(const NamedMesh& mesh) const {
    std::vector<SubAxis> named;
    for (const auto* ports : {&m_.inputs, &m_.outputs}) {
      for (const auto& p : *ports) {
        if (!p.sharding || p.sharding->mesh != mesh.name) continue;
        for (const auto& d : p.sharding->dims) {
          std::ranges::copy_if(d.axes, std::back_inserter(named), [](const SubAxis& x) { return x.size != 0; });
        }
        std::ranges::copy_if(p.sharding->unreduced, std::back_inserter(named),
                             [](const SubAxis& x) { return x.size != 0; });
      }
    }
    auto cut = named.empty() ? std::nullopt : cut_mesh(mesh, named);
    std::vector<Dims> out(mesh.axes.size());
    for (std::size_t a = 0; a < out.size(); ++a) {
      if (!cut) out[a] = {mesh.sizes[a]};
      for (std::size_t p = 0; cut && p < cut->sizes.size(); ++p) {
        if (cut->axes[p] == axis_name(mesh.axes, a)) out[a].push_back(cut->sizes[p]);
      }
    }
    return out;
  }

  // Number of the grid, or -1 when its axes do not nest with those before.
  int add_grid(const Dims& dims) {
    std::vector<std::int64_t> sizes(dims.begin(), dims.end());
    auto found = std::find(grids_.begin(), grids_.end(), sizes);
    if (found != grids_.end()) return static_cast<int>(found - grids_.begin());
    grids_.push_back(sizes);
    auto fine = sharding::common_refinement(grids_);
    if (!fine) {
      grids_.pop_back();
      return -1;
    }
    fine_ = *fine;
    return static_cast<int>(grids_.size()) - 1;
  }

  DimAxes axes(std::size_t mesh, int grid) const {
    DimAxes out;
    std::size_t part = 0;
    for (const auto& axis : parts_[mesh]) {
      AxisList& list = out.emplace_back();
      for (std::size_t end = part + axis.size(); part < end; ++part) {
        for (int f : fine_.axes[as_size(grid)][part]) {
          if (fine_.sizes[as_size(f)] > 1) list.push_back(static_cast<std::uint8_t>(f));
        }
      }
    }
    return out;
  }

  void name(MeshAxes& mesh, std::size_t k) const {
    for (std::size_t a = 0; a < m_.meshes[k].axes.size(); ++a) {
      const AxisList& parts = (*m_.axes_of[k])[a];
      for (std::size_t j = 0; j < parts.size(); ++j) {
        auto& name = mesh.names[parts[j]];
        if (name.empty()) name = parts.size() == 1 ? m_.meshes[k].axes[a] : str(m_.meshes[k].axes[a], ":", j);
      }
    }
  }

  std::optional<Layout> layout_of(const AxisSharding& s) const {
    auto k = as_size(std::find_if(m_.meshes.begin(), m_.meshes.end(), [&](const auto& m) { return m.name == s.mesh; }) -
                     m_.meshes.begin());
    if (k == m_.meshes.size() || !m_.axes_of[k]) return std::nullopt;
    Layout out;
    AxisList partial;
    bool whole = true;
    auto add = [&](const std::vector<SubAxis>& axes, AxisList& list) {
      for (const auto& x : axes) {
        std::size_t a = 0;
        while (a < m_.meshes[k].axes.size() && axis_name(m_.meshes[k].axes, a) != x.name) ++a;
        TESSERA_CHECK(a < m_.meshes[k].axes.size(), str("mesh ", s.mesh, " has no axis ", x.name));
        auto part = axes_of_part((*m_.axes_of[k])[a], x, *m_.mesh);
        whole = whole && part;
        if (part) list.insert(list.end(), part->begin(), part->end());
      }
    };
    for (const auto& d : s.dims) add(d.axes, out.dims.emplace_back());
    add(s.unreduced, partial);
    out.partial |= mask_of(partial);
    return whole ? std::optional(std::move(out)) : std::nullopt;
  }

  Module& m_;
  std::int64_t total_;
  std::vector<std::vector<Dims>> parts_;  ///< by mesh, then axis
  std::vector<std::vector<std::int64_t>> grids_;
  sharding::Refinement fine_;
};

}  // namespace

const NamedMesh* Module::find_mesh(const std::string& mesh_name) const {
  auto found = std::find_if(meshes.begin(), meshes.end(), [&](const NamedMesh& m) { return m.name == mesh_name; });
  return found == meshes.end() ? nullptr : &*found;
}

const DimAxes* Module::find_axes(const Dims& sizes, const std::vector<std::string>& names) const {
  for (std::size_t k = 0; k < axes_of.size(); ++k) {
    if (!axes_of[k] || meshes[k].sizes != sizes || meshes[k].axes.size() != names.size()) continue;
    bool same = true;
    for (std::size_t a = 0; a < names.size(); ++a) same = same && axis_name(names, a) == axis_name(meshes[k].axes, a);
    if (same) return &*axes_of[k];
  }
  return nullptr;
}

std::string Module::add_mesh(NamedMesh m) {
  for (std::size_t a = 0; a < m.axes.size(); ++a) m.axes[a] = axis_name(m.axes, a);
  for (auto& known : meshes) {
    bool same = known.axes == m.axes && known.sizes == m.sizes && known.device_ids == m.device_ids;
    if (!same || known.origin != m.origin) continue;
    known.uneven = known.uneven || m.uneven;
    if (known.axis_types.empty()) known.axis_types = m.axis_types;
    return known.name;
  }
  m.name = "mesh";
  for (int i = 0; find_mesh(m.name) != nullptr; ++i) m.name = str("mesh_", i);
  return meshes.emplace_back(std::move(m)).name;
}

Module Module::with_graph(GraphPtr other) const {
  Module out = module_of(std::move(other));
  out.name = name;
  out.meshes = meshes;
  out.num_partitions = num_partitions;
  out.num_replicas = num_replicas;
  out.mesh = mesh;
  out.axes_of = axes_of;
  out.uneven = uneven;
  out.deterministic = deterministic;
  out.divides = divides;
  return out;
}

Module module_of(GraphPtr graph) {
  Module m;
  m.inputs.resize(graph->inputs.size());
  m.outputs.resize(graph->outputs.size());
  m.graph = std::move(graph);
  return m;
}

Module module_over(GraphPtr graph, const MeshAxes& mesh) {
  Module m = module_of(std::move(graph));
  m.num_partitions = mesh.num_positions();
  m.add_mesh({"", mesh.names, mesh.sizes, {}});
  m.mesh = std::make_shared<const MeshAxes>(mesh);
  auto& axes = m.axes_of.emplace_back(std::in_place).value();
  for (std::size_t a = 0; a < mesh.sizes.size(); ++a) axes.push_back({static_cast<std::uint8_t>(a)});
  return m;
}

bool partitions_alike(const Module& a, const Module& b) {
  auto same = [](const Port& x, const Port& y) { return x.layout == y.layout; };
  return (a.graph == b.graph || equal(*a.graph, *b.graph)) && *a.mesh == *b.mesh && a.uneven == b.uneven &&
         a.deterministic == b.deterministic && a.divides == b.divides && std::ranges::equal(a.inputs, b.inputs, same) &&
         std::ranges::equal(a.outputs, b.outputs, same);
}

std::optional<CutMesh> cut_mesh(const NamedMesh& mesh, const std::vector<SubAxis>& named) {
  std::map<std::string, std::set<std::int64_t>> cuts;
  for (std::size_t a = 0; a < mesh.axes.size(); ++a) cuts[axis_name(mesh.axes, a)] = {1, mesh.sizes[a]};
  for (const auto& x : named) {
    auto it = cuts.find(x.name);
    if (it == cuts.end()) throw ValueError(str("mesh @", mesh.name, " has no axis \"", x.name, "\""));
    if (x.size != 0) it->second.insert({x.pre_size, x.pre_size * x.size});
  }
  CutMesh out;
  auto add = [&](const std::string& axis, const std::string& name, std::int64_t pre, std::int64_t size) {
    out.axes.push_back(axis);
    out.names.push_back(name);
    out.pre.push_back(pre);
    out.sizes.push_back(size);
  };
  for (std::size_t a = 0; a < mesh.axes.size(); ++a) {
    const std::string axis = axis_name(mesh.axes, a);
    if (mesh.sizes[a] == 1) {
      if (cuts[axis].size() > 1) return std::nullopt;
      add(axis, axis, 1, 1);
      continue;
    }
    std::int64_t before = 0;
    for (auto cut : cuts[axis]) {
      if (before != 0 && cut % before != 0) return std::nullopt;
      if (before != 0) add(axis, cuts[axis].size() == 2 ? axis : str(axis, ":", before), before, cut / before);
      before = cut;
    }
    if (before != mesh.sizes[a]) return std::nullopt;
  }
  return out;
}

bool place(Module& m, std::int64_t total) { return Placer(m, total).run(); }

}  // namespace tessera::ir
