// SPDX-License-Identifier: Apache-2.0
// Placement that may happen inside a program: device_put and with_sharding_constraint.
#include <algorithm>

#include "ir/derive_sharding.h"
#include "ops/shared_attrs.h"
#include "program/axis_env.h"
#include "program/program.h"
#include "program/promote.h"
#include "program/typed/typed_placement.h"
#include "runtime/engine.h"
#include "sharding/fits.h"
#include "tessera/mesh.h"
#include "tessera/ops.h"

namespace tessera {

namespace {

// Inside a map its own axes are spent: values there are blocks along them.
void check_manual(const NamedSharding& s) {
  const auto* outer = program::manual_mesh();
  if (outer == nullptr) return;
  auto check = [&](std::span<const int> axes) {
    for (int a : axes) {
      const auto& name = s.mesh().abstract_mesh().shape_tuple()[static_cast<std::size_t>(a)].name;
      if (std::find(outer->manual.begin(), outer->manual.end(), name) == outer->manual.end()) continue;
      throw ValueError(str("with_sharding_constraint: spec ", s.spec(), " names the axis '", name,
                           "', which the enclosing shard_map maps by hand; expected axes that it leaves automatic"));
    }
  };
  for (std::size_t d = 0; d < s.spec().size(); ++d) check(s.dim_axes(d));
  check(s.unreduced_axes());
  check(s.reduced_axes());
}

ops::ShardingConstraint constraint_of(const NamedSharding& s, std::int64_t ndim) {
  if (static_cast<std::int64_t>(s.spec().size()) > ndim) {
    throw ValueError(str("with_sharding_constraint: spec ", s.spec(), " has ", s.spec().size(),
                         " entries but the value has rank ", ndim));
  }
  ops::ShardingConstraint c;
  for (const auto& a : s.mesh().abstract_mesh().shape_tuple()) {
    c.mesh_sizes.push_back(a.size);
    c.mesh_names.list.push_back(a.name);
  }
  for (std::int64_t d = 0; d < ndim; ++d) {
    auto i = static_cast<std::size_t>(d);
    if (i < s.spec().size() && s.spec()[i].is_unconstrained()) {
      c.dims.push_back({-1});
      continue;
    }
    Dims axes;
    for (int a : s.dim_axes(i)) axes.push_back(a);
    c.dims.push_back(std::move(axes));
  }
  c.unreduced.assign(s.unreduced_axes().begin(), s.unreduced_axes().end());
  if (s.mesh().is_concrete()) {
    for (const auto& d : s.devices()) c.devices.push_back(d.id());
  }
  c.uneven = s.uneven();
  return c;
}

Array constrain(const char* function, const Array& a, const ShardingPtr& sharding, const Loc& loc) {
  const auto* named = dynamic_cast<const NamedSharding*>(sharding.get());
  if (named == nullptr) {
    if (sharding->is_fully_replicated() && sharding->num_devices() == 1) return a;
    throw UnimplementedError(
        str(function, ": sharding = ", sharding->text(), " inside a traced function; use a NamedSharding"));
  }
  check_manual(*named);
  sharding::check_fits(function, "sharding", *named, a.shape());
  return program::bind1(ops::def::sharding_constraint, {a}, program::attrs(constraint_of(*named, a.ndim())), loc);
}

// Inside a map its mesh is the one that specs mean, as in JAX.
ShardingPtr with_current_mesh(const PartitionSpec& spec, const char* function) {
  if (const auto* outer = program::manual_mesh()) return sharding::named(function, "spec", outer->mesh, spec).share();
  const Mesh& mesh = current_mesh();
  if (mesh.empty()) {
    throw StateError(str(function, ": the spec ", spec, " needs a mesh: open a MeshScope or give a NamedSharding"));
  }
  // Inside auto_axes the axes are other ones than those of the mesh.
  if (!(mesh.abstract_mesh() == get_abstract_mesh()) && program::Trace::current() != nullptr) {
    return sharding::named(function, "spec", get_abstract_mesh(), spec).share();
  }
  for (const SpecEntry& e : spec) {
    if (!e.is_unconstrained() || !mesh.auto_axes().empty()) continue;
    throw ValueError(str(function, ": spec = ", spec,
                         " has an UNCONSTRAINED entry, which only Auto axes can fill; expected ",
                         "axes or none over the mesh ", mesh));
  }
  return sharding::named(function, "spec", mesh, spec).share();
}

// An abstract mesh outside a program: the argument's own mesh of the same axes takes its place (M68).
ShardingPtr on_argument_mesh(const Array& a, const NamedSharding& s) {
  const auto& impl = *a.impl();
  auto wanted = s.mesh().abstract_mesh();
  if (!impl.sharding) {
    throw ValueError(str("with_sharding_constraint: the mesh ", wanted,
                         " is abstract and the argument is host data; place it "
                         "on a concrete mesh first"));
  }
  const auto* own = dynamic_cast<const NamedSharding*>(impl.sharding.get());
  if (own == nullptr) {
    if (!impl.committed) return nullptr;
    throw TypeError(str("with_sharding_constraint: the mesh ", wanted, " is abstract and the argument has a ",
                        impl.sharding->kind(), "; expected a NamedSharding on a concrete mesh"));
  }
  if (!(own->mesh().abstract_mesh() == wanted)) {
    throw ValueError(str("with_sharding_constraint: the abstract mesh ", wanted, " differs from the argument's mesh ",
                         own->mesh().abstract_mesh()));
  }
  return NamedSharding(own->mesh(), s.spec(), {.uneven = s.uneven()}).share();
}

// Where the memory is the engine's: the same sharding on the devices that have the array, from where whole shards go to
// their new devices without the host. Null where there is none, or nothing would be gained.
ShardingPtr on_own_devices(const Array& value, const sharding::DeviceList& to, const Sharding& sharding) {
  const auto& from = *value.impl()->placement->devices;
  const auto* named = dynamic_cast<const NamedSharding*>(&sharding);
  if (named == nullptr || !named->is_concrete() || from.client != to.client || from.size() != to.size() ||
      from.size() == 1 || !runtime::runtime_of(from.client).engine->partitions()) {
    return nullptr;
  }
  const Mesh& mesh = named->mesh().concrete();
  if (!mesh.has_names()) return nullptr;
  const auto names = mesh.axis_names();
  Mesh own(DeviceArray(from.devices, mesh.mesh_shape()),
           AxisNames(std::vector<std::string>(names.begin(), names.end())));
  ShardingPtr there = NamedSharding(own, named->spec(), {.uneven = named->uneven()}).share();
  return program::can_reshard(value, *there) ? there : nullptr;
}

const NamedSharding* over_explicit_axes(const Sharding& sharding) {
  const auto* named = dynamic_cast<const NamedSharding*>(&sharding);
  return named != nullptr && program::has_explicit(named->mesh().abstract_mesh()) ? named : nullptr;
}
// What a bare spec means: the devices of the current mesh under the axes of the scope.
AnyMesh mesh_of_scope() {
  if (!current_mesh().empty() && current_mesh().abstract_mesh() == get_abstract_mesh()) return current_mesh();
  return get_abstract_mesh();
}

// Over explicit axes it asserts the type; over automatic ones of the same mesh it places.
Array constrain_typed(const Array& a, const NamedSharding& s, const Loc& loc) {
  const char* function = "with_sharding_constraint";
  const AbstractMesh& mesh = s.mesh().abstract_mesh();
  const ir::TypeSharding own = ir::sharding_of(a.impl()->type, mesh);
  const bool mixed = !mesh.auto_axes().empty();
  if (!mixed) {
    const auto* want = program::wanted_type(s, a.shape(), function);
    if (*want == own) return a;
    throw ShardingTypeError(str(function, ": the value has the type ", a.impl()->type, ", placed by ", spec_text(own),
                                ", and the constraint asserts ", spec_text(*want),
                                "; over Explicit axes it moves nothing. Use reshard(x, ", spec_text(*want), ")"));
  }
  sharding::check_fits(function, "sharding", s, a.shape());
  auto check = [&](std::span<const int> axes) {
    for (int i : axes) {
      if (mesh.axis_types()[static_cast<std::size_t>(i)] == AxisType::Auto) continue;
      throw ValueError(str(function, ": spec = ", s.spec(), " names the mesh axis '",
                           mesh.shape_tuple()[static_cast<std::size_t>(i)].name, "', which is not Auto in ", mesh,
                           "; expected Auto axes (reshard moves over Explicit ones)"));
    }
  };
  ops::ShardingConstraint c = constraint_of(s, a.ndim());
  for (std::size_t d = 0; d < own.dims.size(); ++d) {
    check(s.dim_axes(d));
    // The type's own entries stay.
    if (c.dims[d] == Dims{-1} && !own.dims[d].empty()) c.dims[d].clear();
    c.dims[d].insert(c.dims[d].begin(), own.dims[d].begin(), own.dims[d].end());
  }
  check(s.unreduced_axes());
  check(s.reduced_axes());
  return program::bind1(ops::def::sharding_constraint, {a}, program::attrs(c), loc);
}

}  // namespace

Array with_sharding_constraint(const Operand& x, const ShardingPtr& sharding) {
  if (!sharding) throw ValueError("with_sharding_constraint: sharding is null; expected a Sharding");
  arrays::checked(x.array(), "with_sharding_constraint");
  if (const auto* typed = over_explicit_axes(*sharding)) return constrain_typed(x.array(), *typed, x.loc());
  if (program::Trace::current() != nullptr) return constrain("with_sharding_constraint", x.array(), sharding, x.loc());
  const auto* named = dynamic_cast<const NamedSharding*>(sharding.get());
  if (named != nullptr && !named->is_concrete()) {
    ShardingPtr own = on_argument_mesh(x.array(), *named);
    return own ? device_put(x.array(), own) : x.array();
  }
  sharding::check_fits("with_sharding_constraint", "sharding", *sharding, x.array().shape());
  return device_put(x.array(), sharding);
}
Array with_sharding_constraint(const Operand& x, const PartitionSpec& spec) {
  if (program::has_explicit(get_abstract_mesh())) {
    return with_sharding_constraint(x,
                                    sharding::named("with_sharding_constraint", "spec", mesh_of_scope(), spec).share());
  }
  return with_sharding_constraint(x, with_current_mesh(spec, "with_sharding_constraint"));
}

Array device_put(const Array& value, const ShardingPtr& sharding, const Loc&) {
  if (!sharding) throw ValueError("device_put: sharding is null; expected a Sharding");
  const auto& impl = *arrays::checked(value, "device_put");
  if (program::Trace::current() != nullptr && over_explicit_axes(*sharding) != nullptr) {
    return program::reshard_typed(value, program::wanted_type(sharding, value.shape(), "device_put"), sharding,
                                  "device_put");
  }
  if (program::Trace::current() != nullptr) return constrain("device_put", value, sharding, Loc::current());
  sharding::check_fits("device_put", "sharding", *sharding, impl.type.shape);
  if (impl.literal) return arrays::place(arrays::literal_value(impl), sharding, true, false, impl.type.weak);
  arrays::check_live(value, "device_put");
  auto placed = sharding::placement(sharding, impl.type.shape);
  bool cross = !impl.placement->devices->all_local();
  // On the same devices shards travel by the engine's collectives, also to other processes. What is placed so already,
  // and replicas that may differ, need none.
  bool same_devices = placed->devices == impl.placement->devices;
  bool differs = !sharding->is_equivalent_to(*impl.sharding, impl.type.rank());
  bool sums = differs && (impl.placement->addends > 1 || (same_devices && placed->addends > 1));
  bool moves = (impl.replicas_equal || sums) && differs;
  if (same_devices && (cross || (moves && program::can_reshard(value, *sharding)))) {
    return program::reshard(value, sharding);
  }
  if (impl.placement->addends > 1 && differs) {
    // Summed where it is, then moved.
    const auto& from = dynamic_cast<const NamedSharding&>(*impl.sharding);
    return device_put(device_put(value, from.with_spec(PartitionSpec(from.spec().entries())).share()), sharding);
  }
  if (!same_devices && moves && !cross) {
    if (auto there = on_own_devices(value, *placed->devices, *sharding)) {
      return arrays::reshard(program::reshard(value, there), sharding, true);
    }
  }
  if (cross && placed->devices->size() == 1) {
    throw ValueError(str("device_put: the array is on devices of several processes; it cannot move to ",
                         placed->devices->devices[0]));
  }
  return arrays::reshard(value, sharding, true);
}
Array device_put(const Array& value, const Device& device, const Loc&) {
  return device_put(value, SingleDeviceSharding(device).share());
}
Array device_put(const HostArray& value, const PartitionSpec& spec, const Loc&) {
  return device_put(value, with_current_mesh(spec, "device_put"));
}
Array device_put(const Array& value, const PartitionSpec& spec, const Loc&) {
  return device_put(value, with_current_mesh(spec, "device_put"));
}

}  // namespace tessera
