// SPDX-License-Identifier: Apache-2.0
#include "tessera/automatic.h"

#include <algorithm>

#include "base/strings.h"
#include "planner/figures.h"
#include "planner/search.h"
#include "runtime/sharding_finder.h"
#include "tessera/device.h"
#include "tessera/error.h"

namespace tessera {

namespace {

using planner::SearchResult;

std::vector<SpecEntry> entries_of(const ir::Layout& l, const AnyMesh& mesh) {
  auto ref = [&](std::uint8_t a) {
    return mesh.has_names() ? AxisRef(mesh.axis_names()[a]) : AxisRef(static_cast<std::int64_t>(a));
  };
  std::vector<SpecEntry> out;
  for (const auto& axes : l.dims) {
    std::vector<AxisRef> refs;
    for (auto a : axes) refs.push_back(ref(a));
    out.push_back(refs.empty() ? SpecEntry(none) : SpecEntry(refs));
  }
  while (!out.empty() && out.back().is_none()) out.pop_back();
  return out;
}

ir::MeshAxes axes_of(const AbstractMesh& mesh) {
  ir::MeshAxes out;
  for (const auto& a : mesh.shape_tuple()) {
    out.sizes.push_back(a.size);
    out.names.push_back(a.name);
  }
  return out;
}

class ClusterFinder : public detail::ShardingFinder {
 public:
  ClusterFinder(ClusterModel cluster, AutomaticOptions options)
      : cluster_(std::move(cluster)), options_(std::move(options)) {}

  detail::FoundShardings find(const detail::UnplacedProgram& p) const override {
    const SearchResult r = planner::search(module_of(p), cluster_, search_options(p));
    const planner::MeshPlan& best = r.plans.front();
    check_fits(p, r);
    const AnyMesh mesh = options_.mesh ? *options_.mesh : found_mesh(best.mesh);
    detail::FoundShardings out;
    out.graph =
        planner::with_recomputations(planner::with_constraints(p.graph, r.groups, best.chosen, best.mesh), best.again);
    for (std::size_t i = 0; i < p.arguments; ++i) {
      const PartitionSpec spec(entries_of(best.arguments[i], mesh));
      out.arguments.push_back(NamedSharding(mesh, spec).share());
    }
    out.plan = std::make_shared<const ShardingPlan>(plan_of(r, mesh, out.arguments));
    return out;
  }

 private:
  ir::Module module_of(const detail::UnplacedProgram& p) const {
    for (std::size_t v = 0; v < p.graph->types.size(); ++v) {
      const ir::Type& t = p.graph->types[v];
      if (t.sharding == nullptr) continue;
      throw UnimplementedError(str(p.name, ": in_shardings = automatic: the program has a value of the type ",
                                   to_string(t),
                                   ", over Explicit axes; expected one whose axes are all Auto, or "
                                   "written shardings"));
    }
    ir::Module m = ir::module_of(p.graph);
    for (std::size_t i = 0; i < m.inputs.size(); ++i) m.inputs[i].donated = i < p.donated.size() && p.donated[i];
    if (!options_.mesh) return m;
    for (std::size_t i = 0; i < p.out_shardings.size(); ++i) {
      m.outputs[i].layout = layout_over(*options_.mesh, p.out_shardings[i], m.graph->type(m.graph->outputs[i]));
    }
    return m;
  }

  // A result's sharding over the mesh; none where it is free, or over another mesh.
  static std::optional<ir::Layout> layout_over(const AnyMesh& mesh, const ShardingPtr& s, const ir::Type& type) {
    const auto* named = dynamic_cast<const NamedSharding*>(s.get());
    if (named == nullptr || !(named->mesh().abstract_mesh() == mesh.abstract_mesh())) return std::nullopt;
    if (!named->unreduced_axes().empty() || named->spec().size() > type.shape.size()) return std::nullopt;
    ir::Layout out = ir::Layout::replicated(type.rank());
    for (std::size_t d = 0; d < named->spec().size(); ++d) {
      if (named->spec()[d].is_unconstrained()) return std::nullopt;
      for (auto a : named->dim_axes(d)) out.dims[d].push_back(static_cast<std::uint8_t>(a));
    }
    return out;
  }

  planner::SearchOptions search_options(const detail::UnplacedProgram& p) const {
    planner::SearchOptions o{options_.devices, options_.memory_limit, options_.threads};
    if (options_.mesh) o.mesh = axes_of(options_.mesh->abstract_mesh());
    o.arguments = p.arguments;
    return o;
  }

  void check_fits(const detail::UnplacedProgram& p, const SearchResult& r) const {
    const planner::MeshPlan& best = r.plans.front();
    if (best.fits) return;
    throw ValueError(
        str(p.name, ": in_shardings = automatic: memory_limit is ", r.memory_limit, " bytes (",
            planner::bytes_text(r.memory_limit), ") on a device; the least peak that was found is ", best.price.memory,
            " bytes (", planner::bytes_text(best.price.memory), "), over the mesh ", planner::mesh_text(best.mesh),
            ", with what helps computed again; expected a higher limit, more devices or smaller arguments"));
  }

  // Of the current client's devices where it has as many.
  static AnyMesh found_mesh(const ir::MeshAxes& axes) {
    const Client client = Client::current();
    const auto devices = client.devices();
    if (static_cast<std::int64_t>(devices.size()) == axes.num_positions()) {
      return Mesh(DeviceArray({devices.begin(), devices.end()}, axes.sizes), axes.names);
    }
    return AbstractMesh(axes.sizes, axes.names);
  }

  static PlannedChoice choice(std::string what, const planner::Price& p) { return {std::move(what), p.step, p.memory}; }

  static ShardingPlan plan_of(const SearchResult& r, const AnyMesh& mesh, const std::vector<ShardingPtr>& arguments) {
    const planner::MeshPlan& best = r.plans.front();
    ShardingPlan out;
    out.mesh = mesh.abstract_mesh();
    out.arguments = arguments;
    for (std::size_t g = 0; g < r.groups.size(); ++g) {
      const planner::ValueGroup& group = r.groups[g];
      if (!group.inside() || !best.chosen[g]) continue;
      out.constraints.push_back({group.loc, group.op, group.type.shape, group.type.dtype,
                                 PartitionSpec(entries_of(*best.chosen[g], mesh)),
                                 static_cast<std::int64_t>(group.values.size())});
    }
    for (const auto& v : best.recomputed) {
      out.recomputed.push_back({v.loc, v.op, v.type.shape, v.type.dtype, v.copies, v.count, v.bytes, v.seconds});
    }
    out.kept_step = best.kept.step;
    out.kept_memory = best.kept.memory;
    out.step = best.price.step;
    out.peak_memory = best.price.memory;
    out.memory_limit = r.memory_limit;
    out.replicated_step = r.replicated.step;
    out.replicated_memory = r.replicated.memory;
    for (std::size_t k = 0; k < best.decisions.size(); ++k) {
      const planner::Decision& d = best.decisions[k];
      PlannedDecision decision{choice(planner::decision_text(d, r, best.mesh), d.price), {}};
      for (const auto& a : best.rejected[k]) {
        decision.rejected.push_back(
            choice(a.instead ? planner::decision_text(*a.instead, r, best.mesh) : "nothing in its place", a.price));
      }
      out.decisions.push_back(std::move(decision));
    }
    for (const auto& d : best.further) out.further.push_back(choice(planner::decision_text(d, r, best.mesh), d.price));
    for (std::size_t i = 1; i < r.plans.size(); ++i) {
      out.other_meshes.push_back(choice(planner::mesh_text(r.plans[i].mesh), r.plans[i].price));
    }
    out.candidates = r.evaluated;
    out.seconds = r.seconds;
    out.text = planner::explain(r);
    return out;
  }

  ClusterModel cluster_;
  AutomaticOptions options_;
};

void check(const ClusterModel& cluster, const AutomaticOptions& o) {
  cluster.check("automatic: the cluster");
  auto least = [](const char* name, std::int64_t value, std::int64_t smallest) {
    if (value >= smallest) return;
    throw ValueError(str("automatic: ", name, " is ", value, "; expected at least ", smallest));
  };
  least("memory_limit", o.memory_limit, 0);
  least("devices", o.devices, 0);
  least("threads", o.threads, 1);
  const std::int64_t have = cluster.num_devices();
  const std::int64_t wanted = o.mesh ? o.mesh->size() : o.devices;
  if (o.mesh && wanted == 0) throw ValueError("automatic: mesh is empty; expected one with axes");
  if (wanted > have) {
    throw ValueError(str("automatic: ", o.mesh ? "mesh has " : "devices is ", wanted, "; the cluster \"", cluster.name,
                         "\" has ", have, " devices (a preset may be given more groups)"));
  }
  if (!o.mesh) return;
  const auto types = o.mesh->abstract_mesh().axis_types();
  if (std::ranges::all_of(types, [](AxisType t) { return t == AxisType::Auto; })) return;
  throw ValueError(str("automatic: mesh ", o.mesh->abstract_mesh(),
                       " has axes that are not Auto; expected Auto axes, "
                       "whose shardings the search may choose"));
}

}  // namespace

InShardings automatic(const ClusterModel& cluster, const AutomaticOptions& options, const Loc&) {
  check(cluster, options);
  return {std::make_shared<const ClusterFinder>(cluster, options)};
}
InShardings automatic(const ClusterModel& cluster, std::int64_t memory_limit, const Loc& loc) {
  return automatic(cluster, AutomaticOptions{.memory_limit = memory_limit}, loc);
}

}  // namespace tessera
