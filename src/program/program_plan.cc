// SPDX-License-Identifier: Apache-2.0
#include "program/program_plan.h"

#include <algorithm>

#include "base/strings.h"
#include "sharding/fits.h"
#include "tessera/config.h"
#include "tessera/error.h"

namespace tessera::program {

namespace {

std::string ids_text(const mesh::DeviceList& list) {
  Dims ids;
  for (const auto& d : list.devices) {
    ids.push_back(d.id());
    if (ids.size() == 64) break;
  }
  return base::list_text(ids) +
         (list.devices.size() > ids.size() ? str(" and ", list.devices.size() - ids.size(), " more") : "");
}

struct DeviceChoice {
  std::shared_ptr<const mesh::DeviceList> list;
  std::string giver;

  void join(const std::shared_ptr<const mesh::DeviceList>& other, const std::string& who, const std::string& program) {
    if (!list) {
      list = other;
      giver = who;
    } else if (list != other) {
      throw DeviceMismatchError(str(program, ": ", giver, " is on devices ", ids_text(*list), " and ", who,
                                    " on devices ", ids_text(*other),
                                    "; expected the same devices in the same order (device_put moves an array)"));
    }
  }
};

// Grids whose axes the program's mesh must be able to say, with the refined axes of each once `refine` ran.
class Grids {
 public:
  explicit Grids(std::int64_t total) : total_(total) {}
  // Number of the grid, or -1 when its axes do not nest with those before.
  int add(const std::vector<std::int64_t>& sizes) {
    std::int64_t n = 1;
    for (auto s : sizes) n *= s;
    if (n != total_) return -1;
    for (std::size_t i = 0; i < grids_.size(); ++i) {
      if (grids_[i] == sizes) return static_cast<int>(i);
    }
    grids_.push_back(sizes);
    auto fine = sharding::common_refinement(grids_);
    if (!fine) {
      grids_.pop_back();
      return -1;
    }
    refinement_ = *fine;
    return static_cast<int>(grids_.size()) - 1;
  }
  const std::vector<std::int64_t>& sizes() const { return refinement_.sizes; }
  std::vector<ir::AxisList> axes(int grid) const {
    std::vector<ir::AxisList> out;
    for (const auto& list : refinement_.axes[static_cast<std::size_t>(grid)]) {
      ir::AxisList axes;
      for (int a : list) {
        if (refinement_.sizes[static_cast<std::size_t>(a)] > 1) axes.push_back(static_cast<std::uint8_t>(a));
      }
      out.push_back(std::move(axes));
    }
    return out;
  }

 private:
  std::int64_t total_;
  std::vector<std::vector<std::int64_t>> grids_;
  sharding::Refinement refinement_;
};

ir::Layout layout_of(const sharding::MeshTiling& t, const std::vector<ir::AxisList>& axes) {
  ir::Layout l;
  for (const auto& dim : t.dim_axes) {
    ir::AxisList list;
    for (int a : dim) {
      const auto& fine = axes[static_cast<std::size_t>(a)];
      list.insert(list.end(), fine.begin(), fine.end());
    }
    l.dims.push_back(std::move(list));
  }
  return l;
}

const NamedSharding* as_named(const ShardingPtr& s) { return dynamic_cast<const NamedSharding*>(s.get()); }

}  // namespace

bool Program::Plan::lowers_like(const Plan& o) const {
  return *mesh == *o.mesh && options == o.options && inputs == o.inputs && outputs == o.outputs;
}

const KnownMesh* Program::Plan::find(const Dims& mesh_sizes, const ops::Names& mesh_names) const {
  for (const auto& k : known) {
    Dims sizes;
    ops::Names names;
    for (const auto& a : k.mesh.abstract_mesh().shape_tuple()) {
      sizes.push_back(a.size);
      names.list.push_back(a.name);
    }
    if (sizes == mesh_sizes && names == mesh_names) return &k;
  }
  return nullptr;
}

spmd::Constraint Program::Plan::resolve(const ops::ShardingConstraint& c) const {
  spmd::Constraint out;
  auto rank = static_cast<std::int64_t>(c.dims.size());
  out.layout = ir::Layout::replicated(rank);
  out.open.assign(c.dims.size(), true);
  const KnownMesh* k = find(c.mesh_sizes, c.mesh_names);
  if (k == nullptr) return out;  // a mesh of other devices than the program's: only on the default device (M70)
  for (std::size_t d = 0; d < c.dims.size(); ++d) {
    if (c.dims[d] == Dims{-1}) continue;
    out.open[d] = false;
    for (auto a : c.dims[d]) {
      const auto& fine = k->axes[static_cast<std::size_t>(a)];
      out.layout.dims[d].insert(out.layout.dims[d].end(), fine.begin(), fine.end());
    }
  }
  return out;
}

Program::Plan Program::analyse(const std::vector<Array>& args) const {
  Plan plan;
  auto arg_name = [&](std::size_t i) {
    std::string name = i < options_.arg_names.size() ? options_.arg_names[i] : str("argument ", i);
    const auto& type = args[i].impl()->type;
    return str(name, " (", dtype_name(type.dtype), "[", join(type.shape, ","), "])");
  };
  auto in_sharding = [&](std::size_t i) {
    return i < options_.in_shardings.size() ? options_.in_shardings[i] : nullptr;
  };
  auto out_sharding = [&](std::size_t i) {
    return i < options_.out_shardings.size() ? options_.out_shardings[i] : nullptr;
  };

  // 1. The one device list.
  DeviceChoice choice;
  for (std::size_t i = 0; i < args.size(); ++i) {
    const auto& impl = *args[i].impl();
    if (auto want = in_sharding(i)) {
      if (impl.committed && !want->is_equivalent_to(*impl.sharding, impl.type.rank())) {
        throw ValueError(str(options_.name, ": ", arg_name(i), " has sharding ", impl.sharding->text(),
                             "; in_shardings wants ", want->text(), " (device_put moves it)"));
      }
      choice.join(sharding::device_list(*want), arg_name(i), options_.name);
    } else if (impl.committed) {
      choice.join(impl.placement->devices, arg_name(i), options_.name);
    }
  }
  for (std::size_t i = 0; i < graph_->outputs.size(); ++i) {
    if (auto want = out_sharding(i))
      choice.join(sharding::device_list(*want), str("out_shardings[", i, "]"), options_.name);
  }
  bool placed = choice.list != nullptr;
  const Mesh& scope = current_mesh();
  bool by_scope = false;
  if (!choice.list) {
    for (const auto& [c, op] : constraints_) {
      if (c.devices.empty()) continue;
      std::vector<Device> devices;
      for (auto id : c.devices) devices.push_back(Client::current().device(id));
      choice.join(mesh::intern_device_list(devices, std::string(op), "sharding"), std::string(op), options_.name);
      placed = true;
    }
  }
  if (!choice.list && !scope.empty()) {
    choice.list = scope.device_list();
    by_scope = true;
  }
  if (!choice.list) {
    for (const auto& a : args) {
      if (a.impl()->placement) {
        choice.list = a.impl()->placement->devices;
        break;
      }
    }
  }
  if (!choice.list) choice.list = sharding::device_list(*arrays::default_sharding());
  plan.devices = choice.list;
  plan.committed = placed || by_scope;
  auto total = static_cast<std::int64_t>(plan.devices->size());

  // 2. The program's mesh: the coarsest that can say every sharding that takes part.
  Grids grids(total);
  struct Seen {
    std::optional<sharding::MeshTiling> tiling;
    int grid = -1;
  };
  struct KnownGrid {
    AnyMesh mesh;
    bool uneven;
    int grid;
  };
  std::vector<KnownGrid> known;
  auto see = [&](const ShardingPtr& s, std::int64_t rank) {
    Seen seen;
    seen.tiling = sharding::mesh_tiling(*s, rank);
    if (seen.tiling) seen.grid = grids.add(seen.tiling->axis_sizes);
    const auto* named = as_named(s);
    if (named && seen.grid >= 0) {
      known.push_back({named->mesh(), named->uneven(), seen.grid});
      plan.options.uneven = plan.options.uneven || named->uneven();
    }
    return seen;
  };
  std::vector<Seen> in(args.size());
  for (std::size_t i = 0; i < args.size(); ++i) {
    const auto& impl = *args[i].impl();
    ShardingPtr s = in_sharding(i);
    if (s) {
      sharding::check_fits(options_.name, str("in_shardings[", i, "] (", arg_name(i), ")"), *s, impl.type.shape);
    }
    if (!s && impl.placement && impl.placement->devices == plan.devices) s = impl.sharding;
    if (s) in[i] = see(s, impl.type.rank());
  }
  std::vector<Seen> out(graph_->outputs.size());
  for (std::size_t i = 0; i < out.size(); ++i) {
    const auto& shape = graph_->type(graph_->outputs[i]).shape;
    if (auto s = out_sharding(i)) {
      sharding::check_fits(options_.name, str("out_shardings[", i, "]"), *s, shape);
      out[i] = see(s, rank(shape));
    }
  }
  if (!scope.empty() && scope.device_list() == plan.devices) {
    int grid = grids.add(scope.mesh_shape());
    if (grid >= 0) known.push_back({scope, false, grid});
  }
  for (const auto& [c, op] : constraints_) {
    std::int64_t n = 1;
    for (auto s : c.mesh_sizes) n *= s;
    if (!c.devices.empty()) {
      Dims ids;
      for (const auto& d : plan.devices->devices) ids.push_back(d.id());
      if (ids != c.devices) {
        std::string who = args.empty() ? std::string("the program") : arg_name(0);
        throw DeviceMismatchError(str(options_.name, ": ", who, " is on devices ", base::list_text(ids), " and ", op,
                                      " on devices ", base::list_text(c.devices),
                                      "; expected the same devices in the same order"));
      }
    } else if (n != total) {
      if (!plan.committed && total == 1 && op != "shard_map") continue;
      throw ValueError(str(options_.name, ": ", op == "shard_map" ? "shard_map" : "constraint", " over mesh axes ",
                           join(c.mesh_names.list, ","), " of sizes ", c.mesh_sizes, " needs ", n,
                           " devices but the program runs on ", total,
                           args.empty() ? std::string() : str(" (", arg_name(0), ")")));
    }
    int grid = grids.add(c.mesh_sizes);
    if (grid < 0) {
      throw ValueError(str(options_.name, ": the mesh of a sharding constraint, sizes ", c.mesh_sizes,
                           ", and the meshes of the arguments cut the devices in ways that do not nest"));
    }
    std::vector<AxisSize> axes;
    for (std::size_t a = 0; a < c.mesh_sizes.size(); ++a) axes.push_back({c.mesh_names.list[a], c.mesh_sizes[a]});
    known.push_back({AnyMesh(AbstractMesh(axes)), c.uneven, grid});
    plan.options.uneven = plan.options.uneven || c.uneven;
  }
  if (grids.sizes().empty() && total > 1) grids.add({total});

  auto mesh = std::make_shared<ir::MeshAxes>();
  mesh->sizes = grids.sizes();
  mesh->names.assign(mesh->sizes.size(), "");
  for (const auto& k : known) {
    KnownMesh m{k.mesh, k.uneven, grids.axes(k.grid)};
    auto tuple = k.mesh.abstract_mesh().shape_tuple();
    for (std::size_t a = 0; a < m.axes.size(); ++a) {
      for (std::size_t j = 0; j < m.axes[a].size(); ++j) {
        auto& name = mesh->names[m.axes[a][j]];
        if (name.empty()) name = m.axes[a].size() == 1 ? tuple[a].name : str(tuple[a].name, ":", j);
      }
    }
    plan.known.push_back(std::move(m));
  }
  for (std::size_t a = 0; a < mesh->names.size(); ++a) {
    if (mesh->names[a].empty()) mesh->names[a] = str("d", a);
  }
  plan.mesh = mesh;

  // 3. Layouts.
  plan.wanted_in.resize(args.size());
  for (std::size_t i = 0; i < args.size(); ++i) {
    const auto& impl = *args[i].impl();
    if (in[i].grid >= 0) {
      ir::Layout l = layout_of(*in[i].tiling, grids.axes(in[i].grid));
      if (auto want = in_sharding(i)) {
        if (!impl.committed && !plan.devices->all_local() && !want->is_fully_replicated()) {
          throw ValueError(str(options_.name, ": ", arg_name(i), " is data of one process but in_shardings has ",
                               want->text(),
                               " over several; make it global with host_local_array_to_global_array "
                               "or make_array_from_callback"));
        }
        if (!impl.committed) plan.wanted_in[i] = want;
      }
      if (!plan.wanted_in[i] && !impl.replicas_equal) {
        for (std::size_t a = 0; a < mesh->sizes.size(); ++a) {
          if (mesh->sizes[a] > 1 && !(l.tiled() >> a & 1)) l.vary |= ir::AxisMask{1} << a;
        }
      }
      plan.inputs.emplace_back(std::move(l));
    } else if (by_scope) {
      plan.inputs.emplace_back(ir::Layout::replicated(impl.type.rank()));
    } else {
      plan.inputs.emplace_back(std::nullopt);
    }
  }
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (out[i].grid >= 0) {
      plan.outputs.emplace_back(layout_of(*out[i].tiling, grids.axes(out[i].grid)));
    } else if (out_sharding(i)) {
      throw ValueError(str(options_.name, ": out_shardings[", i, "] = ", out_sharding(i)->text(),
                           " cuts the devices in a way that does not nest with the arguments' meshes"));
    } else {
      plan.outputs.emplace_back(std::nullopt);
    }
  }
  plan.options.deterministic = config().deterministic;
  return plan;
}

ShardingPtr express(const Program::Plan& plan, const ir::Layout& layout, const Shape& shape) {
  std::vector<Device> devices = plan.devices->devices;
  auto uneven = [&] {
    for (std::size_t d = 0; d < shape.size(); ++d) {
      auto n = ir::parts(layout.dims[d], *plan.mesh);
      if (n > 0 && shape[d] % n != 0) return true;
    }
    return false;
  }();
  for (const auto& k : plan.known) {
    // An abstract mesh gets the program's devices.
    const auto& abstract = k.mesh.abstract_mesh();
    std::vector<SpecEntry> entries;
    bool fits = true;
    for (const auto& dim : layout.dims) {
      std::vector<AxisRef> axes;
      std::size_t at = 0;
      while (fits && at < dim.size()) {
        bool found = false;
        for (std::size_t a = 0; a < k.axes.size() && !found; ++a) {
          const auto& fine = k.axes[a];
          if (fine.empty() || fine.size() > dim.size() - at) continue;
          if (!std::equal(fine.begin(), fine.end(), dim.begin() + static_cast<std::ptrdiff_t>(at))) continue;
          axes.emplace_back(abstract.axis_names().empty() ? AxisRef(static_cast<std::int64_t>(a))
                                                          : AxisRef(abstract.axis_names()[a]));
          at += fine.size();
          found = true;
        }
        fits = found;
      }
      if (axes.empty()) {
        entries.emplace_back(none);
      } else {
        entries.emplace_back(axes);
      }
    }
    if (!fits) continue;
    while (!entries.empty() && entries.back().is_none()) entries.pop_back();
    AnyMesh mesh = k.mesh;
    if (!mesh.is_concrete()) {
      Shape sizes;
      std::vector<std::string> names;
      for (const auto& a : abstract.shape_tuple()) {
        sizes.push_back(a.size);
        names.push_back(a.name);
      }
      mesh = Mesh(DeviceArray(devices, sizes), names);
    }
    return NamedSharding(mesh, PartitionSpec(entries), {.uneven = k.uneven || uneven}).share();
  }
  if (devices.size() == 1) return SingleDeviceSharding(devices[0]).share();
  if (layout.tiled() == 0) return GspmdSharding::replicated(devices).share();
  Dims dims;
  Dims permutation;
  for (const auto& dim : layout.dims) {
    dims.push_back(ir::parts(dim, *plan.mesh));
    for (auto a : dim) permutation.push_back(a);
  }
  bool rest = false;
  std::int64_t last = 1;
  for (std::size_t a = 0; a < plan.mesh->sizes.size(); ++a) {
    if (layout.tiled() >> a & 1) continue;
    permutation.push_back(static_cast<std::int64_t>(a));
    last *= plan.mesh->sizes[a];
    rest = rest || plan.mesh->sizes[a] > 1;
  }
  if (rest) dims.push_back(last);
  return GspmdSharding(devices, TileAssignment(dims, plan.mesh->sizes, permutation, rest)).share();
}

}  // namespace tessera::program
