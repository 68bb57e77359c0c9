// SPDX-License-Identifier: Apache-2.0
#include "program/placed_module.h"

#include <algorithm>
#include <map>
#include <unordered_set>

#include "array/array_impl.h"
#include "base/strings.h"
#include "ir/op_def.h"
#include "ops/collective/shard_map_op.h"
#include "program/typed/typed_placement.h"
#include "sharding/fits.h"
#include "sharding/placement.h"
#include "tessera/config.h"
#include "tessera/error.h"
#include "tessera/mesh.h"

namespace tessera::program {

namespace {

Dims ids_of(const mesh::DeviceList& list) {
  Dims ids;
  for (const auto& d : list.devices) ids.push_back(d.id());
  return ids;
}
std::string ids_text(const mesh::DeviceList& list) {
  constexpr std::size_t kMost = 64;
  Dims ids = ids_of(list);
  std::size_t more = ids.size() > kMost ? ids.size() - kMost : 0;
  ids.resize(ids.size() - more);
  return base::list_text(ids) + (more > 0 ? str(" and ", more, " more") : "");
}

class Placing {
 public:
  Placing(const ir::GraphPtr& graph, const ProgramOptions& options, const std::vector<MeshUse>& uses,
          const std::vector<Array>& args)
      : options_(options), uses_(uses), args_(args), graph_(*graph) {
    out_.module.name = options.name;
    out_.module.graph = graph;
    out_.module.inputs.resize(graph->inputs.size());
    out_.module.outputs.resize(graph->outputs.size());
    out_.module.deterministic = config().deterministic;
  }

  PlacedModule run() {
    if (concrete()) choose_devices();
    total_ = out_.devices ? static_cast<std::int64_t>(out_.devices->size()) : abstract_devices();
    out_.module.num_partitions = total_;
    add_inputs();
    add_outputs();
    const Mesh& scope = current_mesh();
    if (!scope.empty() && scope.device_list() == out_.devices) add_mesh(AnyMesh(scope), false);
    for (const auto& use : uses_) add_use(use);
    ir::place(out_.module, total_);
    check_sums();
    if (out_.devices) check_nesting();
    finish_inputs();
    return std::move(out_);
  }

 private:
  const arrays::ArrayImpl& arg(std::size_t i) const { return *args_[i].impl(); }
  ShardingPtr wanted_in(std::size_t i) const {
    return i < options_.in_shardings.size() ? options_.in_shardings[i] : nullptr;
  }
  ShardingPtr wanted_out(std::size_t i) const {
    return i < options_.out_shardings.size() ? options_.out_shardings[i] : nullptr;
  }
  std::string arg_name(std::size_t i) const {
    std::string name = i < options_.arg_names.size() ? options_.arg_names[i] : str("argument ", i);
    return str(name, " (", dtype_name(arg(i).type.dtype), "[", join(arg(i).type.shape, ","), "])");
  }

  // --- devices -------------------------------------------------------------------------------------------------------

  // Whether everything that names a mesh names its devices, or leaves them to those of the arguments.
  bool concrete() const {
    auto abstract = [](const ShardingPtr& s) { return s && !s->is_concrete(); };
    if (std::ranges::any_of(options_.in_shardings, abstract)) return false;
    if (std::ranges::any_of(options_.out_shardings, abstract)) return false;
    if (options_.devices) return true;
    std::int64_t have = 1;
    for (std::size_t i = 0; i < args_.size(); ++i) {
      if (!wanted_in(i) && abstract(arg(i).sharding)) return false;
      if (wanted_in(i) || arg(i).committed) return true;
      if (arg(i).sharding) have = std::max(have, arg(i).sharding->num_devices());
    }
    auto given = [](const ShardingPtr& s) { return s != nullptr; };
    auto names_devices = [](const MeshUse& u) { return !u.constraint.devices.empty(); };
    if (std::ranges::any_of(options_.out_shardings, given) || std::ranges::any_of(uses_, names_devices)) return true;
    if (!current_mesh().empty()) return true;
    return std::ranges::none_of(uses_,
                                [&](const MeshUse& u) { return u.manual && size_of(u.constraint.mesh_sizes) > have; });
  }
  // Positions of the first mesh that is named.
  std::int64_t abstract_devices() const {
    for (const auto* list : {&options_.in_shardings, &options_.out_shardings}) {
      for (const auto& s : *list) {
        if (s) return s->num_devices();
      }
    }
    for (const auto& a : args_) {
      if (a.impl()->sharding && !a.impl()->sharding->is_concrete()) return a.impl()->sharding->num_devices();
    }
    for (const auto& u : uses_) {
      if (u.manual) return size_of(u.constraint.mesh_sizes);
    }
    return 1;
  }

  void agree_on(const std::shared_ptr<const mesh::DeviceList>& list, const std::string& who) {
    if (!out_.devices) {
      out_.devices = list;
      named_by_ = who;
    } else if (out_.devices != list) {
      throw DeviceMismatchError(str(options_.name, ": ", named_by_, " is on devices ", ids_text(*out_.devices), " and ",
                                    who, " on devices ", ids_text(*list),
                                    "; expected the same devices in the same order (device_put moves an array)"));
    }
  }
  void choose_devices() {
    if (options_.devices) agree_on(options_.devices, "the program");
    for (std::size_t i = 0; i < args_.size(); ++i) {
      if (auto want = wanted_in(i)) {
        if (arg(i).committed && !want->is_equivalent_to(*arg(i).sharding, arg(i).type.rank())) {
          throw ValueError(str(options_.name, ": ", arg_name(i), " has sharding ", arg(i).sharding->text(),
                               "; in_shardings wants ", want->text(), " (device_put moves it)"));
        }
        agree_on(sharding::device_list(*want), arg_name(i));
      } else if (arg(i).committed) {
        agree_on(arg(i).placement->devices, arg_name(i));
      }
    }
    for (std::size_t i = 0; i < graph_.outputs.size(); ++i) {
      if (auto want = wanted_out(i)) agree_on(sharding::device_list(*want), str("out_shardings[", i, "]"));
    }
    if (!out_.devices) {
      for (const auto& use : uses_) {
        if (use.constraint.devices.empty()) continue;
        std::vector<Device> devices;
        for (auto id : use.constraint.devices) devices.push_back(Client::current().device(id));
        agree_on(mesh::intern_device_list(devices, use.op(), "sharding"), use.op());
      }
    }
    const Mesh& scope = current_mesh();
    by_scope_ = !out_.devices && !scope.empty();
    if (by_scope_) out_.devices = scope.device_list();
    out_.committed = out_.devices != nullptr;
    for (std::size_t i = 0; i < args_.size() && !out_.devices; ++i) {
      if (arg(i).placement) out_.devices = arg(i).placement->devices;
    }
    if (!out_.devices) out_.devices = sharding::device_list(*arrays::default_sharding());
  }

  // --- shardings and meshes ------------------------------------------------------------------------------------------

  void state(ir::Port& port, const ShardingPtr& s, std::int64_t rank) {
    if (s->num_devices() == 1 && dynamic_cast<const NamedSharding*>(s.get()) == nullptr) {
      port.layout = ir::Layout::replicated(rank);  // and nothing to state: it is where the program is
      return;
    }
    port.sharding = axis_sharding(*s, rank, out_.module);
    if (port.sharding) return;
    if (const auto* tiles = dynamic_cast<const GspmdSharding*>(s.get())) port.tiles = tiles->tiles().text();
  }
  bool is_here(const arrays::ArrayImpl& a) const {
    if (out_.devices) return a.placement && a.placement->devices == out_.devices;
    return a.sharding && a.sharding->num_devices() == total_;
  }
  void add_inputs() {
    out_.moved_in.resize(args_.size());
    for (std::size_t i = 0; i < args_.size(); ++i) {
      ShardingPtr s = wanted_in(i);
      if (s) {
        sharding::check_fits(options_.name, str("in_shardings[", i, "] (", arg_name(i), ")"), *s, arg(i).type.shape);
      } else if (is_here(arg(i))) {
        s = arg(i).sharding;
      }
      if (s) state(out_.module.inputs[i], s, arg(i).type.rank());
    }
  }
  void add_outputs() {
    out_.reduced_out.resize(graph_.outputs.size());
    if (options_.sums_stay) find_sums();
    for (std::size_t i = 0; i < graph_.outputs.size(); ++i) {
      const auto& shape = graph_.type(graph_.outputs[i]).shape;
      auto s = wanted_out(i);
      if (!s) s = typed_out(i);
      if (!s && options_.sums_stay) s = left_as_sum(i);
      if (!s) continue;
      sharding::check_fits(options_.name, str("out_shardings[", i, "]"), *s, shape);
      state(out_.module.outputs[i], s, rank(shape));
    }
  }
  // What the result's type says; null where it leaves axes to the partitioner. Notes what is reduced.
  ShardingPtr typed_out(std::size_t i) {
    const auto* t = i < options_.typed_out.size() ? options_.typed_out[i] : nullptr;
    if (t == nullptr || t->mesh.size() != total_) return nullptr;
    const PartitionSpec spec = spec_of(*t);
    out_.reduced_out[i] = spec.reduced();
    if (!t->mesh.auto_axes().empty()) return nullptr;
    return NamedSharding(t->mesh, PartitionSpec(spec.entries()).with_unreduced(spec.unreduced())).share();
  }
  // The placement of a result that the program leaves as a sum; null for any other. Notes what is reduced.
  ShardingPtr left_as_sum(std::size_t i) {
    auto made = sums_.find(graph_.outputs[i]);
    if (made == sums_.end()) return nullptr;
    const auto& [e, k] = made->second;
    if (const auto* c = ir::get_if<ops::ShardingConstraint>(e->attrs)) {
      return sum_over(c->mesh_sizes, c->mesh_names.list, c->dims, c->unreduced, c->uneven);
    }
    const auto& map = ir::get<ops::ShardMap>(e->attrs);
    for (auto a : map.out_specs.reduced_of(k)) {
      const std::string& name = map.mesh_names.list[static_cast<std::size_t>(a)];
      out_.reduced_out[i].push_back(name.empty() ? AxisRef(a) : AxisRef(name));
    }
    return sum_over(map.mesh_sizes, map.mesh_names.list, map.out_specs.list[k], map.out_specs.unreduced_of(k), false);
  }
  // Values that constraints and maps make as sums, or mark as reduced.
  void find_sums() {
    for (const auto& e : graph_.eqns) {
      const auto* c = ir::get_if<ops::ShardingConstraint>(e.attrs);
      const auto* map = c == nullptr ? ir::get_if<ops::ShardMap>(e.attrs) : nullptr;
      for (std::size_t k = 0; k < e.out.size(); ++k) {
        bool sum = c != nullptr     ? !c->unreduced.empty()
                   : map != nullptr ? !map->out_specs.unreduced_of(k).empty() || !map->out_specs.reduced_of(k).empty()
                                    : false;
        if (sum) sums_.emplace(e.out[k], std::pair(&e, k));
      }
    }
  }
  ShardingPtr sum_over(const Dims& sizes, const std::vector<std::string>& names, const std::vector<Dims>& dims,
                       const Dims& unreduced, bool uneven) const {
    if (unreduced.empty() || size_of(sizes) != total_) return nullptr;
    std::vector<AxisSize> axes;
    for (std::size_t a = 0; a < sizes.size(); ++a) axes.push_back({names[a], sizes[a]});
    auto refs = [](const Dims& list) {
      std::vector<AxisRef> out;
      for (auto a : list) {
        if (a >= 0) out.emplace_back(a);
      }
      return out;
    };
    std::vector<SpecEntry> entries;
    for (const auto& d : dims) entries.push_back(refs(d).empty() ? SpecEntry(none) : SpecEntry(refs(d)));
    return NamedSharding(AbstractMesh(axes), PartitionSpec(entries).with_unreduced(refs(unreduced)), {.uneven = uneven})
        .share();
  }
  void add_mesh(const AnyMesh& mesh, bool uneven) {
    axis_sharding(NamedSharding(mesh, PartitionSpec(), {.uneven = uneven}), 0, out_.module);
  }
  void add_use(const MeshUse& use) {
    const auto& c = use.constraint;
    if (out_.devices && !takes_part(use)) return;
    std::vector<AxisSize> axes;
    for (std::size_t a = 0; a < c.mesh_sizes.size(); ++a) axes.push_back({c.mesh_names.list[a], c.mesh_sizes[a]});
    add_mesh(AnyMesh(AbstractMesh(axes)), c.uneven);
  }
  // Throws where the mesh is not one of the program's devices, unless these are a default that nobody chose.
  bool takes_part(const MeshUse& use) const {
    const auto& c = use.constraint;
    if (!c.devices.empty()) {
      if (ids_of(*out_.devices) == c.devices) return true;
      std::string who = args_.empty() ? std::string("the program") : arg_name(0);
      throw DeviceMismatchError(str(options_.name, ": ", who, " is on devices ", base::list_text(ids_of(*out_.devices)),
                                    " and ", use.op(), " on devices ", base::list_text(c.devices),
                                    "; expected the same devices in the same order"));
    }
    std::int64_t n = size_of(c.mesh_sizes);
    if (n == total_) return true;
    if (!out_.committed && total_ == 1 && !use.manual) return false;
    throw ValueError(str(options_.name, ": ", use.manual ? "shard_map" : "constraint", " over mesh axes ",
                         join(c.mesh_names.list, ","), " of sizes ", c.mesh_sizes, " needs ", n,
                         " devices but the program runs on ", total_,
                         args_.empty() ? std::string() : str(" (", arg_name(0), ")")));
  }
  void check_nesting() const {
    for (const auto& use : uses_) {
      const auto& c = use.constraint;
      if (size_of(c.mesh_sizes) != total_ || out_.module.find_axes(c.mesh_sizes, c.mesh_names.list)) continue;
      throw ValueError(str(options_.name, ": the mesh of a sharding constraint, sizes ", c.mesh_sizes,
                           ", and the meshes of the arguments cut the devices in ways that do not nest"));
    }
    for (std::size_t i = 0; i < out_.module.outputs.size(); ++i) {
      auto want = wanted_out(i);
      if (!want || out_.module.outputs[i].layout) continue;
      throw ValueError(str(options_.name, ": out_shardings[", i, "] = ", want->text(),
                           " cuts the devices in a way that does not nest with the arguments' meshes"));
    }
  }

  // A sum whose axes the program does not know would be taken for the value.
  void check_sums() const {
    auto check = [&](const ir::Port& port, const std::string& who) {
      if (!port.sharding || port.sharding->unreduced.empty() || port.layout) return;
      throw UnimplementedError(str(options_.name, ": ", who,
                                   " is unreduced over axes of a mesh that does not nest with the program's others; "
                                   "use one mesh"));
    };
    for (std::size_t i = 0; i < args_.size(); ++i) check(out_.module.inputs[i], arg_name(i));
    for (std::size_t i = 0; i < graph_.outputs.size(); ++i) check(out_.module.outputs[i], str("result ", i));
  }

  // --- what the arguments' data adds ---------------------------------------------------------------------------------

  void finish_inputs() {
    for (std::size_t i = 0; i < args_.size(); ++i) {
      auto& layout = out_.module.inputs[i].layout;
      if (!layout) {
        if (by_scope_) layout = ir::Layout::replicated(arg(i).type.rank());
        continue;
      }
      if (!out_.devices) continue;
      auto want = wanted_in(i);
      if (want && !arg(i).committed) {
        if (!out_.devices->all_local() && !want->is_fully_replicated()) {
          throw ValueError(str(options_.name, ": ", arg_name(i), " is data of one process but in_shardings has ",
                               want->text(),
                               " over several; make it global with host_local_array_to_global_array or "
                               "make_array_from_callback"));
        }
        out_.moved_in[i] = want;
      } else if (!arg(i).replicas_equal) {
        const auto& sizes = out_.module.mesh->sizes;
        for (std::size_t a = 0; a < sizes.size(); ++a) {
          if (sizes[a] > 1 && !((layout->tiled() | layout->partial) >> a & 1)) layout->vary |= ir::AxisMask{1} << a;
        }
      }
    }
  }

  const ProgramOptions& options_;
  const std::vector<MeshUse>& uses_;
  const std::vector<Array>& args_;
  const ir::Graph& graph_;
  PlacedModule out_;
  std::string named_by_;   // the argument that named the devices
  bool by_scope_ = false;  // the devices are those of the mesh that is in scope
  std::int64_t total_ = 1;
  std::map<ir::ValueId, std::pair<const ir::Eqn*, std::size_t>> sums_;
};

// `seen`: constraints of several equations.
void collect(const ir::Graph& g, std::vector<MeshUse>& out, std::unordered_set<const void*>& seen) {
  for (const auto& e : g.eqns) {
    const auto* c = ir::get_if<ops::ShardingConstraint>(e.attrs);
    if (c != nullptr && seen.insert(c).second) out.push_back({*c});
    if (const auto* map = ir::get_if<ops::ShardMap>(e.attrs)) {
      MeshUse& use = out.emplace_back();
      use.manual = true;
      use.constraint.mesh_sizes = map->mesh_sizes;
      use.constraint.mesh_names = map->mesh_names;
      use.constraint.devices = map->devices;
    }
    for (const auto& sub : e.op->subgraphs(e.attrs)) collect(*sub, out, seen);
  }
}

}  // namespace

std::vector<MeshUse> mesh_uses(const ir::Graph& g) {
  std::vector<MeshUse> out;
  std::unordered_set<const void*> seen;
  collect(g, out, seen);
  return out;
}

PlacedModule place_module(const ir::GraphPtr& graph, const ProgramOptions& options, const std::vector<MeshUse>& uses,
                          const std::vector<Array>& args) {
  return Placing(graph, options, uses, args).run();
}

}  // namespace tessera::program
