// SPDX-License-Identifier: Apache-2.0
#include "tessera/vmap.h"

#include "base/strings.h"
#include "ir/pass.h"
#include "ops/transform/batch_axes.h"
#include "ops/transform/graph_rules.h"
#include "program/axis_env.h"
#include "program/graph_fragment.h"
#include "program/trace.h"
#include "tessera/error.h"

namespace tessera {

using MaybeAxis = std::optional<std::int64_t>;

void MapAxes::flatten(std::vector<MaybeAxis>& out) const {
  if (is_leaf_) out.push_back(axis_);
  for (const auto& c : children_) c.flatten(out);
}

std::vector<MaybeAxis> MapAxes::resolve(const std::vector<std::size_t>& leaves, const char* function,
                                        const char* what) const {
  std::size_t total = 0;
  for (auto n : leaves) total += n;
  if (is_leaf_) return std::vector<MaybeAxis>(total, axis_);
  std::vector<MaybeAxis> out;
  if (children_.size() == leaves.size()) {
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      std::size_t before = out.size();
      if (children_[i].is_leaf_) {
        out.insert(out.end(), leaves[i], children_[i].axis_);
      } else {
        children_[i].flatten(out);
      }
      if (out.size() - before != leaves[i]) {
        throw ValueError(str(function, ": ", what, "[", i, "] has ", out.size() - before, " entries; expected 1 or ",
                             leaves[i], ", one for each leaf"));
      }
    }
    return out;
  }
  flatten(out);
  if (out.size() != total) {
    throw ValueError(str(function, ": ", what, " has ", children_.size(), " entries; expected one axis, ",
                         leaves.size(), " entries or one for each of ", total, " leaves"));
  }
  return out;
}

namespace detail {

std::int64_t mapped_size(const std::vector<Array>& leaves, std::vector<MaybeAxis>& axes, const MaybeAxis& given,
                         const char* function) {
  MaybeAxis size = given;
  std::string from = "axis_size";
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    if (!axes[i]) continue;
    ir::Type t = program::type_of(leaves[i], function);
    std::int64_t axis = *axes[i];
    if (axis < -t.rank() || axis >= t.rank()) {
      throw IndexError(str(function, ": in_axes maps axis ", axis, " of argument leaf ", i, ", which is out of range ",
                           "for its shape ", t.shape, " of rank ", t.rank()));
    }
    if (axis < 0) axes[i] = axis + t.rank();
    std::int64_t n = t.shape[static_cast<std::size_t>(*axes[i])];
    if (size && *size != n) {
      throw ValueError(str(function, ": inconsistent sizes of the mapped axes: ", from, " has ", *size, " and axis ",
                           *axes[i], " of argument leaf ", i, " of shape ", t.shape, " has ", n));
    }
    if (!size) from = str("axis ", *axes[i], " of argument leaf ", i);
    size = n;
  }
  if (!size) throw ValueError(str(function, ": in_axes maps no argument; expected at least one axis, or axis_size"));
  if (*size < 0) throw ValueError(str(function, ": axis_size = ", *size, "; expected 0 or more"));
  return *size;
}

namespace {

// The explicit axes that the mapped dimension is split over, on which all mapped operands must agree and which the
// others must not use.
ir::AxisList mapped_entry(const std::vector<Array>& leaves, const std::vector<MaybeAxis>& axes,
                          const AxisNames& spmd_axis_name) {
  std::optional<ir::AxisList> entry;
  std::string from;
  const AbstractMesh* mesh = nullptr;
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    const ir::Type t = program::type_of(leaves[i], "vmap");
    if (t.sharding == nullptr || !axes[i]) continue;
    mesh = &t.sharding->mesh;
    const ir::AxisList& own = t.sharding->dims[static_cast<std::size_t>(*axes[i])];
    if (entry && *entry != own) {
      throw ValueError(str("vmap: the mapped dimension of argument leaf ", i, ", ", t, ", is sharded over ",
                           ir::axes_text(own, *mesh), ", and that of ", from, " over ", ir::axes_text(*entry, *mesh),
                           "; expected the same axes (reshard one)"));
    }
    if (!entry) from = str("argument leaf ", i, ", ", t);
    entry = own;
  }
  if (!entry) return {};
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    const ir::Type t = program::type_of(leaves[i], "vmap");
    if (t.sharding == nullptr || axes[i]) continue;
    for (auto a : *entry) {
      if ((t.sharding->split() >> a & 1) == 0) continue;
      throw ValueError(str("vmap: argument leaf ", i, ", ", t, ", is not mapped and is sharded over ",
                           ir::axes_text({a}, *mesh), ", which the mapped dimensions are sharded over; reshard it"));
    }
  }
  ir::AxisList named;
  for (const auto& name : spmd_axis_name.values()) {
    if (auto i = name ? mesh->axis_index(*name) : std::nullopt) named.push_back(static_cast<std::uint8_t>(*i));
  }
  if (!entry->empty() && !spmd_axis_name.values().empty() && named != *entry) {
    std::string given;
    for (const auto& name : spmd_axis_name.values()) given += str(given.empty() ? "" : ",", name.value_or(""));
    throw ValueError(
        str("vmap: Only one of spmd_axis_name and the explicit axes of the mapped dimension can name axes: ",
            "spmd_axis_name is ", given, " and the dimension is sharded over ", ir::axes_text(*entry, *mesh)));
  }
  return *entry;
}

// A result with the mapped dimension where `out_axes` wants it.
ir::Value placed(ir::Value x, bool batched, const MaybeAxis& axis, std::int64_t size, std::size_t i) {
  if (!axis) {
    if (!batched) return x;
    throw ValueError(
        str("vmap: out_axes is none for result leaf ", i, ", which differs between the instances; expected an axis"));
  }
  if (!batched) x = ops::repeat_in_front(x, size);
  if (*axis < -x.rank() || *axis >= x.rank()) {
    throw IndexError(
        str("vmap: out_axes has axis ", *axis, " for result leaf ", i, ", which is out of range for rank ", x.rank()));
  }
  return ops::move_dim(x, 0, *axis < 0 ? *axis + x.rank() : *axis);
}

}  // namespace

std::vector<Array> vmap_leaves(const LeafFn& body, const std::vector<Array>& leaves, const VmapCall& call,
                               const Loc& loc) {
  program::check_leaves(leaves, "vmap", call.names);
  std::vector<MaybeAxis> axes = call.options.in_axes.resolve(call.leaves_per_arg, "vmap", "in_axes");
  std::int64_t size = mapped_size(leaves, axes, call.options.axis_size, "vmap");
  ir::Types blocks;
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    const ir::Type t = program::type_of(leaves[i], "vmap");
    blocks.push_back(axes[i] ? ir::without_dim(t, static_cast<std::size_t>(*axes[i])) : t);
  }
  const ir::AxisList entry = mapped_entry(leaves, axes, call.options.spmd_axis_name);
  // The name stays bound while rules run, which may trace more of the user's functions.
  program::VmapAxisScope scope(call.options.axis_name, size);
  program::Traced t = program::trace(body, blocks, program::varying_of(leaves));
  std::vector<MaybeAxis> out_axes = call.options.out_axes.resolve(call.leaves_per_result, "vmap", "out_axes");

  std::vector<Array> all = leaves;
  all.insert(all.end(), t.captures.begin(), t.captures.end());
  ir::Builder b;
  b.set_loc(loc);
  ir::Values in;
  ops::Flags batched(all.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    ir::Value v = b.input(program::type_of(all[i], "vmap"));
    batched[i] = i < axes.size() && axes[i].has_value();
    in.push_back(batched[i] ? ops::move_dim(v, *axes[i], 0) : v);
  }
  std::vector<std::string> mesh_axes;
  for (const auto& name : call.options.spmd_axis_name.values()) {
    if (name) mesh_axes.push_back(*name);
  }
  ir::Batched r;
  {
    ops::BatchName name(scope.internal());
    ops::BatchMeshAxes laid(mesh_axes);
    ops::BatchEntry split(entry);
    r = ops::batch_inline(b, *t.graph, in, batched, size);
  }
  for (std::size_t i = 0; i < r.out.size(); ++i) {
    r.out[i] = program::marked(placed(r.out[i], r.batched[i], out_axes[i], size, i), t.graph->output_types()[i]);
  }
  return program::bind_graph(ir::after_pass("vmap", b.finish_shared(r.out)), all, loc);
}

}  // namespace detail
}  // namespace tessera
