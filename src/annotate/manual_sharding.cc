// SPDX-License-Identifier: Apache-2.0
#include "annotate/manual_sharding.h"

#include "annotate/annotate.h"
#include "base/strings.h"
#include "program/axis_env.h"
#include "program/trace.h"
#include "tessera/error.h"
#include "tessera/lax.h"
#include "tessera/ops.h"

namespace tessera {

namespace {

Mesh mesh_or_global(const std::optional<Mesh>& mesh, const char* function) {
  if (mesh) return *mesh;
  if (auto global = global_mesh()) return *global;
  throw ValueError(str(function, ": mesh is not given and the global mesh is not set; pass one or set_global_mesh"));
}

void need_trace(const char* function) {
  if (program::Trace::current() != nullptr) return;
  throw ValueError(str(function, ": the value has data; call it inside jit (or use shard_map)"));
}

ops::RegionBoundary boundary_of(const NamedSharding& s, std::int64_t rank) {
  ops::RegionBoundary b;
  for (const auto& a : s.mesh().shape_tuple()) {
    b.mesh_sizes.push_back(a.size);
    b.mesh_names.list.push_back(a.name);
  }
  for (const auto& d : s.devices()) b.devices.push_back(d.id());
  for (std::int64_t d = 0; d < rank; ++d) {
    auto axes = s.dim_axes(static_cast<std::size_t>(d));
    b.dims.emplace_back(axes.begin(), axes.end());
  }
  return b;
}

// The shape that whole blocks make up.
Shape padded_shape(const ops::RegionBoundary& boundary, const Shape& block) {
  Shape out = block;
  for (std::size_t d = 0; d < out.size(); ++d) out[d] *= boundary.parts(d);
  return out;
}

std::string sharding_text(const Array& x) {
  auto s = op_sharding(x);
  return s ? s->hlo_v1() : "none";
}

void check_full_shape(const Shape& full, const Shape& block, const ops::RegionBoundary& boundary) {
  if (full.size() != block.size()) {
    throw ValueError(str("disable_manual_sharding: full_shape = ", full, " has rank ", full.size(), "; expected rank ",
                         block.size(), ", as x of shape ", block));
  }
  bool fits = true;
  for (std::size_t d = 0; d < full.size() && fits; ++d) {
    fits = full[d] >= 0 && (full[d] + boundary.parts(d) - 1) / boundary.parts(d) == block[d];
  }
  if (fits) return;
  throw ValueError(str("disable_manual_sharding: full_shape = ", full, " does not have shards of shape ", block,
                       ", that of x; expected ", base::list_text(padded_shape(boundary, block)),
                       ", or less in a dimension as long as its shards stay as long"));
}

}  // namespace

namespace annotate {

const ops::RegionBoundary* manual_region(const Array& x) {
  const auto& impl = *arrays::checked(x, "manual_region");
  program::Trace* t = impl.trace == 0 ? nullptr : program::Trace::find(impl.trace);
  return t == nullptr ? nullptr : ops::region_of(t->builder().graph(), impl.value);
}

Array full_to_shard_shape(const Array& x, const ops::RegionBoundary& boundary) {
  if (!is_annotated(x)) {
    throw ValueError(
        str("full_to_shard_shape: x of shape ", x.shape(), " is not sharded; expected an annotated value"));
  }
  Shape whole = x.shape();
  for (std::size_t d = 0; d < whole.size(); ++d)
    whole[d] = (whole[d] + boundary.parts(d) - 1) / boundary.parts(d) * boundary.parts(d);
  Array full = x;
  if (whole != x.shape()) {
    std::vector<lax::PadDim> config;
    for (std::size_t d = 0; d < whole.size(); ++d) config.push_back({0, whole[d] - x.shape()[d], 0});
    full = lax::pad(x, astype(Array(0), x.dtype()), config);
  }
  return program::bind1(ops::def::full_to_shard, {full}, program::attrs(boundary), Loc::current());
}

Array mark_manual_sharding(const Array& x) {
  const auto& impl = *arrays::checked(x, "mark_manual_sharding");
  const ir::Eqn* e = impl.trace == 0 ? nullptr : defining_equation(impl);
  if (e == nullptr || e->op == &ops::def::constant) {
    throw ValueError(str("mark_manual_sharding: x of shape ", x.shape(),
                         " is data (an input or a constant); expected a computed value"));
  }
  return program::bind1(ops::def::mark_manual, {x}, program::attrs(ops::ManualMark{}), Loc::current());
}

}  // namespace annotate

Array enable_manual_sharding(const Array& x, const PartitionSpec& partition_spec, const std::optional<Mesh>& mesh,
                             const Loc&) {
  const char* name = "enable_manual_sharding";
  arrays::checked(x, name);
  need_trace(name);
  Mesh m = mesh_or_global(mesh, name);
  NamedSharding s = annotate::checked_sharding(name, m, partition_spec, x.ndim());
  if (const auto* region = annotate::manual_region(x)) {
    throw ValueError(str(name, ": x is already manual over the mesh axes (", join(region->mesh_names.list),
                         "); expected a global value"));
  }
  program::bind_region_axes(program::Trace::current()->id(), m, name);
  ops::RegionBoundary boundary = boundary_of(s, x.ndim());
  boundary.sharding = "{manual}";
  return annotate::full_to_shard_shape(mark_sharding(x, m, partition_spec), boundary);
}

Array disable_manual_sharding(const Array& x, const PartitionSpec& partition_spec, const Shape& full_shape,
                              const std::optional<Mesh>& mesh, const Loc&) {
  const char* name = "disable_manual_sharding";
  arrays::checked(x, name);
  Mesh m = mesh_or_global(mesh, name);
  const auto* region = annotate::manual_region(x);
  if (region == nullptr) {
    throw ValueError(str(name, ": x of shape ", x.shape(), " has sharding ", sharding_text(x),
                         "; expected a manual value (from enable_manual_sharding)"));
  }
  NamedSharding s = annotate::checked_sharding(name, m, partition_spec, x.ndim());
  ops::RegionBoundary boundary = boundary_of(s, x.ndim());
  if (!boundary.same_mesh(*region)) {
    throw ValueError(str(name, ": mesh ", m, " is not the one over which x is manual, with the axes (",
                         join(region->mesh_names.list), ")"));
  }
  check_full_shape(full_shape, x.shape(), boundary);
  boundary.sharding = m.op_sharding(partition_spec).hlo_v1();
  Array full = program::bind1(ops::def::shard_to_full, {annotate::mark_manual_sharding(x)}, program::attrs(boundary),
                              Loc::current());
  if (full.shape() != full_shape) full = lax::slice(full, Dims(full_shape.size(), 0), full_shape);
  return mark_sharding(full, m, partition_spec);
}

}  // namespace tessera
