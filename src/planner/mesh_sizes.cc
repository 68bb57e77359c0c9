// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>

#include "base/strings.h"
#include "ir/op_def.h"
#include "ir/rewriter.h"
#include "ops/collective/shard_map_op.h"
#include "ops/control/subgraph_structure.h"
#include "ops/shared_attrs.h"
#include "planner/simulate.h"
#include "tessera/error.h"

namespace tessera::planner {

namespace {

using Sizes = std::vector<std::pair<std::string, std::int64_t>>;

void set_sizes(const Sizes& axes, const std::vector<std::string>& names, Dims& sizes, std::set<std::string>& found) {
  for (std::size_t i = 0; i < names.size(); ++i) {
    for (const auto& [name, size] : axes) {
      if (name != names[i]) continue;
      sizes[i] = size;
      found.insert(name);
    }
  }
}

void set_mesh(const Sizes& axes, ir::NamedMesh& mesh, std::set<std::string>& found) {
  const Dims before = mesh.sizes;
  set_sizes(axes, mesh.axes, mesh.sizes, found);
  if (mesh.sizes != before) mesh.device_ids.clear();
}

// Constraints name the sizes of their mesh.
ir::GraphPtr with_sizes(const ir::GraphPtr& graph, const Sizes& axes, std::set<std::string>& found) {
  ir::Builder b;
  ir::Rewriter to(b, *graph);
  to.add_inputs();
  to.walk([&](const ir::Eqn& e, const ir::Values& in) {
    if (ir::get_if<ops::ShardMap>(e.attrs)) {
      throw UnimplementedError(str("--mesh: the program has a map over devices (", to_string(e.loc),
                                   "), whose shapes are those of its own mesh"));
    }
    if (const auto* c = ir::get_if<ops::ShardingConstraint>(e.attrs)) {
      ops::ShardingConstraint other = *c;
      set_sizes(axes, other.mesh_names.list, other.mesh_sizes, found);
      other.devices.clear();
      return to.copy(e, in, ir::make_attrs(std::move(other)));
    }
    const auto control = ops::control_of(e);
    if (!control) return to.copy(e, in);
    std::vector<ir::GraphPtr> bodies;
    for (const auto& body : control->bodies) bodies.push_back(with_sizes(body.graph, axes, found));
    return to.copy(e, in, ops::with_bodies(e, bodies));
  });
  return to.finish("with_mesh_sizes");
}

}  // namespace

ir::Module with_mesh_sizes(ir::Module m, const Sizes& axes) {
  std::set<std::string> found;
  for (auto& mesh : m.meshes) set_mesh(axes, mesh, found);
  for (auto* ports : {&m.inputs, &m.outputs}) {
    for (auto& port : *ports) {
      if (port.sharding && port.sharding->inlined) set_mesh(axes, *port.sharding->inlined, found);
    }
  }
  m.graph = with_sizes(m.graph, axes, found);
  for (const auto& [name, size] : axes) {
    if (found.contains(name)) continue;
    std::vector<std::string> names;
    for (const auto& mesh : m.meshes) names.insert(names.end(), mesh.axes.begin(), mesh.axes.end());
    throw ValueError(str("--mesh: the program has no axis \"", name, "\"; its axes are: ", join(names)));
  }
  m.num_replicas = 1;
  m.num_partitions = 1;  // `placed` takes the mesh's
  return m;
}

ir::Module placed(ir::Module m) {
  // A module that names a mesh and no number of partitions is for the mesh.
  if (m.num_devices() == 1) {
    for (const auto& mesh : m.meshes) m.num_partitions = std::max(m.num_partitions, mesh.size());
  }
  const std::int64_t total = m.num_devices();
  ir::place(m, total);
  auto check = [&](const std::vector<ir::Port>& ports, const char* what) {
    for (std::size_t i = 0; i < ports.size(); ++i) {
      const bool named = ports[i].sharding.has_value() || !ports[i].tiles.empty();
      if (!named || ports[i].layout || total == 1) continue;
      throw UnimplementedError(str(what, " ", i, " has a sharding that is not over the axes of the program's mesh of ",
                                   total, " devices; expected one mesh for all shardings"));
    }
  };
  check(m.inputs, "argument");
  check(m.outputs, "result");
  return m;
}

}  // namespace tessera::planner
