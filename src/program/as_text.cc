// SPDX-License-Identifier: Apache-2.0
// Traced programs as StableHLO text: which devices there are, and what the text says about arguments and results.
#include <algorithm>

#include "base/strings.h"
#include "hlo/export/export.h"
#include "ops/collective/shard_map_op.h"
#include "program/program.h"
#include "sharding/mesh_tiling.h"
#include "tessera/config.h"
#include "tessera/error.h"
#include "tessera/jit.h"
#include "tessera/mesh.h"

namespace tessera::program {

namespace {

ShardingPtr at(const std::vector<ShardingPtr>& list, std::size_t i) { return i < list.size() ? list[i] : nullptr; }

// The sharding as axes of a mesh: its own names, or d0, d1, … for kinds without.
struct Said {
  std::vector<std::string> names;
  Dims sizes;
  std::vector<Dims> dims;  // {-1}: unconstrained
};
std::optional<Said> said(const Sharding& s, std::int64_t rank) {
  Said out;
  if (const auto* named = dynamic_cast<const NamedSharding*>(&s)) {
    for (const auto& a : named->mesh().abstract_mesh().shape_tuple()) {
      out.names.push_back(a.name.empty() ? str("d", out.names.size()) : a.name);
      out.sizes.push_back(a.size);
    }
    if (static_cast<std::int64_t>(named->spec().size()) > rank) {
      throw ValueError(
          str("the spec ", named->spec(), " has ", named->spec().size(), " entries but the value has rank ", rank));
    }
    for (std::size_t d = 0; d < static_cast<std::size_t>(rank); ++d) {
      if (d < named->spec().size() && named->spec()[d].is_unconstrained()) {
        out.dims.push_back({-1});
        continue;
      }
      auto axes = named->dim_axes(d);
      out.dims.emplace_back(axes.begin(), axes.end());
    }
    return out;
  }
  auto tiling = sharding::mesh_tiling(s, rank);
  if (!tiling) return std::nullopt;
  out.sizes = Dims(tiling->axis_sizes.begin(), tiling->axis_sizes.end());
  for (std::size_t a = 0; a < out.sizes.size(); ++a) out.names.push_back(str("d", a));
  for (const auto& d : tiling->dim_axes) out.dims.emplace_back(d.begin(), d.end());
  return out;
}

class Ports {
 public:
  Ports(hlo::ExportOptions& options) : options_(options) {}
  hlo::PortText of(const ShardingPtr& s, std::int64_t rank) {
    hlo::PortText out;
    if (!s || (s->num_devices() == 1 && dynamic_cast<const NamedSharding*>(s.get()) == nullptr)) return out;
    auto what = said(*s, rank);
    if (!what) {
      const auto* tiles = dynamic_cast<const GspmdSharding*>(s.get());
      if (tiles == nullptr) throw UnimplementedError(str("StableHLO text of ", s->text(), "; use a NamedSharding"));
      out.mhlo = tiles->tiles().text();
    } else if (options_.shardy) {
      hlo::SdySharding sdy;
      sdy.mesh = mesh(what->names, what->sizes);
      for (const auto& d : what->dims) {
        hlo::SdyDim dim;
        dim.open = d == Dims{-1};
        for (auto a : d) {
          if (a >= 0) dim.axes.push_back({what->names[static_cast<std::size_t>(a)], 1, 0});
        }
        sdy.dims.push_back(std::move(dim));
      }
      out.sdy = std::move(sdy);
    } else {
      out.mhlo = hlo::hlo_sharding_text(what->sizes, what->dims);
    }
    return out;
  }

 private:
  std::string mesh(const std::vector<std::string>& names, const Dims& sizes) {
    for (const auto& m : options_.meshes) {
      if (m.axes == names && m.sizes == sizes) return m.name;
    }
    hlo::SdyMesh m;
    m.name = options_.meshes.empty() ? "mesh" : str("mesh_", options_.meshes.size() - 1);
    m.axes = names;
    m.sizes = sizes;
    options_.meshes.push_back(m);
    return m.name;
  }
  hlo::ExportOptions& options_;
};

// Devices that placed arguments, options and meshes speak of; 0 where none does.
std::int64_t known_devices(const ProgramOptions& options, const std::vector<MeshUse>& uses,
                           const std::vector<Array>& args) {
  for (std::size_t i = 0; i < args.size(); ++i) {
    if (auto s = at(options.in_shardings, i)) return s->num_devices();
    const auto& impl = *args[i].impl();
    if (impl.committed) return impl.sharding->num_devices();
  }
  for (const auto& s : options.out_shardings) {
    if (s) return s->num_devices();
  }
  for (const auto& u : uses) {
    if (!u.constraint.devices.empty()) return static_cast<std::int64_t>(u.constraint.devices.size());
  }
  if (!current_mesh().empty()) return NamedSharding(current_mesh(), PartitionSpec()).num_devices();
  return 0;
}

}  // namespace

bool Program::has_devices(const std::vector<Array>& args) const {
  auto abstract = [](const ShardingPtr& s) { return s && !s->is_concrete(); };
  if (std::any_of(options_.in_shardings.begin(), options_.in_shardings.end(), abstract)) return false;
  if (std::any_of(options_.out_shardings.begin(), options_.out_shardings.end(), abstract)) return false;
  if (known_devices(options_, constraints_, args) > 0) return true;
  std::int64_t have = 1;
  for (const auto& a : args) {
    if (a.impl()->sharding) have = std::max(have, a.impl()->sharding->num_devices());
  }
  return std::none_of(constraints_.begin(), constraints_.end(),
                      [&](const MeshUse& u) { return u.op == "shard_map" && size_of(u.constraint.mesh_sizes) > have; });
}

std::string Program::stablehlo_text(const std::vector<Array>& args, const StablehloTextOptions& how) const {
  hlo::ExportOptions o;
  o.name = options_.name == "jit" ? "jit" : "jit_" + options_.name;
  o.shardy = how.shardy.value_or(config().use_shardy);
  o.replicas = how.replicas;
  std::int64_t devices = known_devices(options_, constraints_, args);
  for (const auto& a : args) {
    if (devices == 0 && a.impl()->sharding && a.impl()->sharding->num_devices() > 1) {
      devices = a.impl()->sharding->num_devices();
    }
  }
  for (const auto& u : constraints_) {
    if (devices == 0 && u.op == "shard_map") devices = size_of(u.constraint.mesh_sizes);
  }
  devices = std::max<std::int64_t>(devices, 1);
  (how.replicas ? o.num_replicas : o.num_partitions) = devices;
  if (!how.replicas) {
    Ports ports(o);
    for (std::size_t i = 0; i < graph_->inputs.size(); ++i) {
      const auto& impl = *args[i].impl();
      ShardingPtr s = at(options_.in_shardings, i);
      if (!s && impl.sharding && impl.sharding->num_devices() == devices) s = impl.sharding;
      o.inputs.push_back(ports.of(s, impl.type.rank()));
    }
    for (std::size_t i = 0; i < graph_->outputs.size(); ++i) {
      o.outputs.push_back(ports.of(at(options_.out_shardings, i), graph_->type(graph_->outputs[i]).rank()));
    }
  }
  return hlo::export_module(*graph_, o);
}

}  // namespace tessera::program
