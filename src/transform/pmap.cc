// SPDX-License-Identifier: Apache-2.0
#include "tessera/pmap.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "base/strings.h"
#include "program/axis_env.h"
#include "program/jit_core.h"
#include "program/trace.h"
#include "tessera/config.h"
#include "tessera/error.h"
#include "tessera/lax.h"

namespace tessera::detail {

namespace {

using MaybeAxes = std::vector<std::optional<std::int64_t>>;

PartitionSpec spec_of(const std::optional<std::int64_t>& axis, const std::string& name) {
  if (!axis) return {};
  std::vector<SpecEntry> entries(static_cast<std::size_t>(*axis), none);
  entries.emplace_back(name);
  return PartitionSpec(entries);
}

}  // namespace

struct PmapCore::Impl {
  explicit Impl(PmapOptions given)
      : options(std::move(given)), jit({.name = "pmap", .donate_argnums = options.donate_argnums}) {}

  PmapOptions options;
  JitCore jit;

  std::string name() const { return options.axis_name.empty() ? "<pmap>" : options.axis_name; }
  Mesh mesh(std::int64_t size) const;
  std::vector<Array> map(const FlatBody& f, const MaybeAxes& in_axes, const Mesh& over,
                         const std::vector<Array>& leaves, MaybeAxes* out_axes, const Loc& loc) const;
  std::shared_ptr<JitEntry> entry(const FlatCall& call, const MaybeAxes& in_axes, const Mesh& over, const Loc& loc);
};

Mesh PmapCore::Impl::mesh(std::int64_t size) const {
  std::vector<Device> devices = options.devices;
  if (devices.empty()) {
    auto local = Client::current().local_devices();
    devices.assign(local.begin(), local.end());
    if (size > std::ssize(devices)) {
      throw ValueError(str("pmap: the mapped axes have size ", size, " but this process has ", devices.size(),
                           " devices; expected at most one index a device"));
    }
    devices.resize(static_cast<std::size_t>(size));
  } else if (size != std::ssize(devices)) {
    throw ValueError(str("pmap: the mapped axes have size ", size, " but devices has ", devices.size(),
                         " entries; expected one device an index"));
  }
  if (size == 0) throw ValueError("pmap: the mapped axes have size 0; expected at least 1");
  return Mesh(DeviceArray(devices, {size}), name());
}

// The function as a map over the mesh: blocks lose their mapped dimension of 1, results get it back.
std::vector<Array> PmapCore::Impl::map(const FlatBody& f, const MaybeAxes& in_axes, const Mesh& over,
                                       const std::vector<Array>& leaves, MaybeAxes* out_axes, const Loc& loc) const {
  std::vector<PartitionSpec> in_specs;
  for (const auto& axis : in_axes) in_specs.push_back(spec_of(axis, name()));
  ShardMapCall call{over, SpecTree(in_specs), PartitionSpec(), {.check_vma = false}, {leaves.size()}};
  call.in_specs = SpecTree(std::vector<SpecTree>{SpecTree(in_specs)});
  LeafFn body = [&](const std::vector<Array>& blocks) {
    std::vector<Array> in = blocks;
    for (std::size_t i = 0; i < in.size(); ++i) {
      if (in_axes[i]) in[i] = lax::squeeze(in[i], Dims{*in_axes[i]});
    }
    std::vector<Array> out = f.run(in);
    *out_axes = options.out_axes.resolve(f.result_parts(), "pmap", "out_axes");
    std::vector<PartitionSpec> specs;
    for (std::size_t i = 0; i < out.size(); ++i) {
      auto& axis = (*out_axes)[i];
      if (axis) {
        std::int64_t rank = out[i].ndim() + 1;
        if (*axis < -rank || *axis >= rank) {
          throw IndexError(str("pmap: out_axes has axis ", *axis, " for result leaf ", i,
                               ", which is out of range for rank ", rank));
        }
        if (*axis < 0) *axis += rank;
        out[i] = lax::expand_dims(out[i], Dims{*axis});
      }
      specs.push_back(spec_of(axis, name()));
    }
    call.out_specs = SpecTree(std::vector<SpecTree>{SpecTree(specs)});
    call.leaves_per_result = {out.size()};
    return out;
  };
  return shard_map_leaves(body, leaves, call, loc);
}

// jit of the map, with the sharding that results of pmap have: one slice per device.
std::shared_ptr<JitEntry> PmapCore::Impl::entry(const FlatCall& call, const MaybeAxes& in_axes, const Mesh& over,
                                                const Loc& loc) {
  MaybeAxes out_axes;
  auto shardings = [&over](const MaybeAxes& axes) {
    std::vector<ShardingPtr> out;
    for (const auto& axis : axes) {
      if (axis) {
        out.push_back(std::make_shared<PmapSharding>(over.devices().flat(), *axis));
      } else {
        out.push_back(NamedSharding(over, PartitionSpec()).share());
      }
    }
    return out;
  };
  CallPlacement placement{over, [&] { return shardings(in_axes); }, [&] { return shardings(out_axes); }};
  FlatCall mapped = call;
  mapped.function = [&] {
    FlatBody f = call.function();
    FlatBody whole = f;
    whole.run = [&, f](const std::vector<Array>& leaves) { return map(f, in_axes, over, leaves, &out_axes, loc); };
    return whole;
  };
  return jit.entry(mapped, &placement);
}

PmapCore::PmapCore(PmapOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
PmapCore::~PmapCore() = default;

std::vector<Array> PmapCore::call(const FlatCall& call, std::shared_ptr<void>* result, const Loc& loc) {
  program::check_leaves(call.leaves, "pmap", call.names);
  MaybeAxes in_axes = impl_->options.in_axes.resolve(call.leaves_per_arg, "pmap", "in_axes");
  Mesh over = impl_->mesh(mapped_size(call.leaves, in_axes, impl_->options.axis_size, "pmap"));
  if (program::Trace::current() != nullptr) {
    MaybeAxes out_axes;
    FlatBody f = call.function();
    std::vector<Array> out = impl_->map(f, in_axes, over, call.leaves, &out_axes, loc);
    *result = f.like();
    return out;
  }
  auto entry = impl_->entry(call, in_axes, over, loc);
  *result = JitCore::result(entry);
  return JitCore::call(entry, call.leaves);
}

std::string PmapCore::stablehlo_text(const FlatCall& call, const StablehloTextOptions& options, const Loc& loc) {
  MaybeAxes in_axes = impl_->options.in_axes.resolve(call.leaves_per_arg, "pmap", "in_axes");
  Mesh over = impl_->mesh(mapped_size(call.leaves, in_axes, impl_->options.axis_size, "pmap"));
  return JitCore::stablehlo_text(impl_->entry(call, in_axes, over, loc), call.leaves, options);
}

}  // namespace tessera::detail
