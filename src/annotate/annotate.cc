// SPDX-License-Identifier: Apache-2.0
#include "annotate/annotate.h"

#include <algorithm>
#include <atomic>
#include <mutex>

#include "annotate/manual_sharding.h"
#include "base/strings.h"
#include "ops/shared_attrs.h"
#include "program/trace.h"
#include "sharding/named_state.h"
#include "tessera/error.h"
#include "tessera/ops.h"

namespace tessera {

namespace {

struct GlobalMesh {
  std::mutex mutex;
  std::optional<Mesh> mesh;
  static GlobalMesh& get() {
    static auto* g = new GlobalMesh;
    return *g;
  }
};

std::atomic<std::int64_t> annotations{0};
std::atomic<std::int64_t> placed{0};
std::atomic<std::int64_t> copied{0};

bool is_constraint(const ir::Eqn* e) { return e != nullptr && e->op == &ops::def::sharding_constraint; }

}  // namespace

namespace annotate {

const ir::Eqn* defining_equation(const arrays::ArrayImpl& impl) {
  program::Trace* t = program::Trace::find(impl.trace);
  if (t == nullptr) return nullptr;
  const auto& eqns = t->builder().graph().eqns;
  auto it = std::find_if(eqns.rbegin(), eqns.rend(),
                         [&](const ir::Eqn& e) { return std::ranges::find(e.out, impl.value) != e.out.end(); });
  return it == eqns.rend() ? nullptr : &*it;
}

NamedSharding checked_sharding(const char* function, const Mesh& mesh, const PartitionSpec& spec, std::int64_t rank) {
  if (Client::current().devices().empty()) {
    throw ValueError(str(function, ": devices of the current client are 0; expected at least 1"));
  }
  const Client& client = mesh.empty() ? Client::current() : mesh.device_list()->client;
  auto all = static_cast<std::int64_t>(client.devices().size());
  if (mesh.size() != all) {
    throw ValueError(str(function, ": mesh of shape ", mesh.mesh_shape(), " has ", mesh.size(), " devices; expected ",
                         all, ", all there are"));
  }
  // Names and numbers first: they are wrong whatever the rank.
  auto resolved = sharding::resolve_spec(mesh, spec, {}, {function, "partition_spec"});
  if (static_cast<std::int64_t>(spec.size()) != rank) {
    throw ValueError(str(function, ": partition_spec = ", spec, " has ", spec.size(), " entries; expected ", rank,
                         ", one for each dimension of the array"));
  }
  mesh.op_sharding(spec);
  return {mesh, spec, {.uneven = true}};
}

OpSharding sharding_of_axes(const Dims& mesh_sizes, const Dims& devices, const std::vector<Dims>& dims) {
  std::vector<SpecEntry> entries;
  for (const Dims& axes : dims) {
    if (axes.empty() || axes[0] < 0) {
      entries.emplace_back(none);
    } else {
      entries.emplace_back(std::vector<AxisRef>(axes.begin(), axes.end()));
    }
  }
  PartitionSpec spec(std::move(entries));
  if (devices.empty()) {
    NamedSharding s(AbstractMesh::unnamed(mesh_sizes), spec);
    return OpSharding::parse(s.to_tiles(static_cast<std::int64_t>(dims.size())).explicit_text());
  }
  Client client = Client::current();
  std::vector<Device> list;
  for (auto id : devices) list.push_back(client.device(id));
  return {Mesh(DeviceArray(std::move(list), mesh_sizes), std::nullopt), spec};
}

void count_annotation(std::int64_t bytes_placed, std::int64_t bytes_copied) {
  annotations.fetch_add(1, std::memory_order_relaxed);
  placed.fetch_add(bytes_placed, std::memory_order_relaxed);
  copied.fetch_add(bytes_copied, std::memory_order_relaxed);
}

}  // namespace annotate

void set_global_mesh(const std::optional<Mesh>& mesh, const Loc&) {
  auto& g = GlobalMesh::get();
  std::lock_guard lock(g.mutex);
  g.mesh = mesh;
}
std::optional<Mesh> global_mesh() {
  auto& g = GlobalMesh::get();
  std::lock_guard lock(g.mutex);
  return g.mesh;
}
Mesh get_1d_mesh(const std::optional<std::string>& name, const Loc&) {
  auto all = devices();
  AxisNames names = std::nullopt;
  if (name) names = AxisNames(*name);
  return Mesh(DeviceArray({all.begin(), all.end()}, {static_cast<std::int64_t>(all.size())}), names);
}

std::int64_t global_device_count() { return static_cast<std::int64_t>(devices().size()); }
Device default_device(const Loc&) {
  auto local = local_devices();
  if (local.empty()) throw StateError("default_device: this process has 0 devices; expected at least 1");
  return local[0];
}

Array mark_sharding(const Array& x, const Mesh& mesh, const PartitionSpec& partition_spec, const Loc&) {
  arrays::checked(x, "mark_sharding");
  NamedSharding s = annotate::checked_sharding("mark_sharding", mesh, partition_spec, x.ndim());
  bool traced = program::Trace::current() != nullptr;
  std::int64_t before = transfer_stats().bytes;
  Array out = device_put(x, s.share());
  annotate::count_annotation(traced ? 0 : out.device_bytes(), traced ? 0 : transfer_stats().bytes - before);
  return out;
}

Array clear_sharding(const Array& x, const Loc&) {
  const auto& impl = *arrays::checked(x, "clear_sharding");
  if (impl.trace != 0) {
    const ir::Eqn* e = annotate::defining_equation(impl);
    if (!is_constraint(e)) return x;
    program::Trace* t = program::Trace::find(impl.trace);
    return clear_sharding(t->wrap(t->builder().value(e->in[0])));
  }
  if (!is_annotated(x)) return x;
  if (x.is_fully_addressable()) return arrays::reshard(x, arrays::default_sharding(), false);
  // Every process gets the whole value, and keeps one copy of it.
  Mesh all(DeviceArray(x.devices()), std::nullopt);
  Array whole = device_put(x, NamedSharding(all, PartitionSpec()));
  return arrays::reshard(whole.addressable_data(0), arrays::default_sharding(), false);
}

bool is_annotated(const Array& x, const Loc&) {
  const auto& impl = *arrays::checked(x, "is_annotated");
  if (impl.trace != 0) {
    return is_constraint(annotate::defining_equation(impl)) || annotate::manual_region(x) != nullptr;
  }
  if (impl.literal || !impl.sharding) return false;
  return dynamic_cast<const NamedSharding*>(impl.sharding.get()) != nullptr ||
         dynamic_cast<const GspmdSharding*>(impl.sharding.get()) != nullptr;
}

std::optional<OpSharding> op_sharding(const Array& x, const Loc&) {
  if (!is_annotated(x)) return std::nullopt;
  const auto& impl = *x.impl();
  if (impl.trace != 0) {
    if (annotate::manual_region(x) != nullptr) return OpSharding(ShardingType::MANUAL, {});
    const auto& c = ir::get<ops::ShardingConstraint>(annotate::defining_equation(impl)->attrs);
    return annotate::sharding_of_axes(c.mesh_sizes, c.devices, c.dims);
  }
  if (const auto* named = dynamic_cast<const NamedSharding*>(impl.sharding.get())) {
    return OpSharding::of(*named, x.ndim());
  }
  // Tiles count positions of their device list: written with its ids.
  const auto& gspmd = dynamic_cast<const GspmdSharding&>(*impl.sharding);
  const TileAssignment& t = gspmd.tiles();
  if (!t.is_tiled()) return OpSharding(ShardingType::REPLICATED, {});
  std::vector<std::int64_t> list = t.to_list();
  for (auto& p : list) p = gspmd.devices()[static_cast<std::size_t>(p)].id();
  return OpSharding::parse(TileAssignment::from_list(t.dims(), std::move(list), t.replicate_last()).explicit_text());
}

std::optional<ShardingType> sharding_type(const Array& x, const Loc&) {
  auto s = op_sharding(x);
  if (!s) return std::nullopt;
  return s->type();
}

AnnotationStats annotation_stats() {
  return {op_shardings_built(), annotations.load(std::memory_order_relaxed), placed.load(std::memory_order_relaxed),
          copied.load(std::memory_order_relaxed)};
}

}  // namespace tessera
