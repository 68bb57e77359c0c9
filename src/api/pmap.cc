// SPDX-License-Identifier: Apache-2.0
#include "tessera/pmap.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "api/axis_env.h"
#include "api/once.h"
#include "api/program.h"
#include "api/trace.h"
#include "base/strings.h"
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

// One traced call: its program, and what its results are.
struct Entry {
  std::string structure, env;
  ir::Types types;
  std::vector<StaticValue> statics;
  std::size_t config = 0;
  Mesh mesh;

  api::Once once;
  api::Traced traced;
  std::shared_ptr<void> result;
  std::unique_ptr<api::Program> program;

  bool is(const Entry& o) const {
    if (structure != o.structure || env != o.env || types != o.types || config != o.config || !(mesh == o.mesh) ||
        statics.size() != o.statics.size()) {
      return false;
    }
    for (std::size_t i = 0; i < statics.size(); ++i) {
      const auto& a = statics[i];
      const auto& b = o.statics[i];
      if (a.type != b.type || a.hash != b.hash || !a.equal(a.value.get(), b.value.get())) return false;
    }
    return true;
  }
};

}  // namespace

struct PmapCore::Impl {
  PmapOptions options;
  std::mutex mutex;
  std::vector<std::shared_ptr<Entry>> entries;

  std::string name() const { return options.axis_name.empty() ? "<pmap>" : options.axis_name; }
  Mesh mesh(std::int64_t size) const;
  std::vector<Array> map(const PmapRequest& request, const MaybeAxes& in_axes, const Mesh& over,
                         const std::vector<Array>& leaves, std::shared_ptr<void>* result, MaybeAxes* out_axes,
                         const Loc& loc) const;
  std::shared_ptr<Entry> entry(const PmapRequest& request, const MaybeAxes& in_axes, const Mesh& over, const Loc& loc);
  void build(Entry& e, const PmapRequest& request, const MaybeAxes& in_axes, const Loc& loc) const;
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
std::vector<Array> PmapCore::Impl::map(const PmapRequest& request, const MaybeAxes& in_axes, const Mesh& over,
                                       const std::vector<Array>& leaves, std::shared_ptr<void>* result,
                                       MaybeAxes* out_axes, const Loc& loc) const {
  std::vector<PartitionSpec> in_specs;
  for (const auto& axis : in_axes) in_specs.push_back(spec_of(axis, name()));
  ShardMapCall call{over, SpecTree(in_specs), PartitionSpec(), {.check_vma = false}, {leaves.size()}};
  call.in_specs = SpecTree(std::vector<SpecTree>{SpecTree(in_specs)});
  LeafFn body = [&](const std::vector<Array>& blocks) {
    std::vector<Array> in = blocks;
    for (std::size_t i = 0; i < in.size(); ++i) {
      if (in_axes[i]) in[i] = lax::squeeze(in[i], Dims{*in_axes[i]});
    }
    std::vector<std::size_t> parts;
    std::vector<Array> out = request.run(in, result, &parts);
    *out_axes = options.out_axes.resolve(parts, "pmap", "out_axes");
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

void PmapCore::Impl::build(Entry& e, const PmapRequest& request, const MaybeAxes& in_axes, const Loc& loc) const {
  std::vector<bool> donated =
      api::donated_arguments(options.donate_argnums, request.leaves_per_arg.size(), request.static_argnums, "pmap");
  MaybeAxes out_axes;
  e.traced = api::trace(
      [&](const std::vector<Array>& stand_ins) {
        return map(request, in_axes, e.mesh, stand_ins, &e.result, &out_axes, loc);
      },
      e.types);
  const std::vector<Device>& devices = e.mesh.devices().flat();
  auto sharding = [&](const std::optional<std::int64_t>& axis) -> ShardingPtr {
    if (axis) return std::make_shared<PmapSharding>(devices, *axis);
    return NamedSharding(e.mesh, PartitionSpec()).share();
  };
  api::ProgramOptions p;
  p.name = "pmap";
  for (const auto& axis : in_axes) p.in_shardings.push_back(sharding(axis));
  for (const auto& axis : out_axes) p.out_shardings.push_back(sharding(axis));
  p.arg_names = request.names.all();
  for (std::size_t arg = 0; arg < request.leaves_per_arg.size(); ++arg) {
    p.donate.insert(p.donate.end(), request.leaves_per_arg[arg], donated[arg]);
  }
  e.program = std::make_unique<api::Program>(e.traced.graph, std::move(p));
}

PmapCore::PmapCore(PmapOptions options) : impl_(std::make_unique<Impl>()) { impl_->options = std::move(options); }
PmapCore::~PmapCore() = default;

std::shared_ptr<Entry> PmapCore::Impl::entry(const PmapRequest& request, const MaybeAxes& in_axes, const Mesh& over,
                                             const Loc& loc) {
  auto fresh = std::make_shared<Entry>();
  fresh->mesh = over;
  fresh->structure = request.structure;
  fresh->env = api::axis_env_key();
  fresh->statics = request.statics;
  fresh->config = config_key();
  for (const auto& a : request.leaves) fresh->types.push_back(api::type_of(a, "pmap"));
  std::shared_ptr<Entry> found;
  {
    std::lock_guard lock(mutex);
    for (const auto& e : entries) {
      if (e->is(*fresh)) found = e;
    }
    if (!found) entries.push_back(found = fresh);
  }
  // Traced outside the lock; racing callers wait for the first. After an error the next call tries again.
  if (found->once.done()) return found;
  found->once.run([&] { build(*found, request, in_axes, loc); },
                  [&] {
                    throw StateError(str("pmap: the function calls itself while it is traced for the arguments (",
                                         base::join(found->types),
                                         "), and would do so without end; use while_loop, fori_loop or scan"));
                  });
  return found;
}

namespace {
std::vector<Array> with_captures(const Entry& e, const std::vector<Array>& leaves) {
  std::vector<Array> all = leaves;
  all.insert(all.end(), e.traced.captures.begin(), e.traced.captures.end());
  return all;
}
}  // namespace

std::vector<Array> PmapCore::call(const PmapRequest& request, std::shared_ptr<void>* result, const Loc& loc) {
  api::check_leaves(request.leaves, "pmap", request.names);
  MaybeAxes in_axes = impl_->options.in_axes.resolve(request.leaves_per_arg, "pmap", "in_axes");
  Mesh over = impl_->mesh(mapped_size(request.leaves, in_axes, impl_->options.axis_size, "pmap"));
  if (api::Trace::current() != nullptr) {
    MaybeAxes out_axes;
    return impl_->map(request, in_axes, over, request.leaves, result, &out_axes, loc);
  }
  auto entry = impl_->entry(request, in_axes, over, loc);
  *result = entry->result;
  return entry->program->call(with_captures(*entry, request.leaves));
}

std::string PmapCore::stablehlo_text(const PmapRequest& request, const StablehloTextOptions& options, const Loc& loc) {
  MaybeAxes in_axes = impl_->options.in_axes.resolve(request.leaves_per_arg, "pmap", "in_axes");
  Mesh over = impl_->mesh(mapped_size(request.leaves, in_axes, impl_->options.axis_size, "pmap"));
  auto entry = impl_->entry(request, in_axes, over, loc);
  return entry->program->stablehlo_text(with_captures(*entry, request.leaves), options);
}

}  // namespace tessera::detail
