// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "base/hash.h"
#include "base/strings.h"
#include "mesh/device_list.h"
#include "sharding/access.h"
#include "sharding/named_state.h"
#include "tessera/error.h"

namespace tessera {

namespace sharding {

namespace {

[[noreturn]] void throw_unknown_axis(const AnyMesh& mesh, const PartitionSpec& spec, const AxisRef& axis,
                                     const Caller& caller) {
  std::string expected;
  if (!axis.is_name()) {
    expected = str("an axis number in the range 0..", mesh.ndim() - 1);
  } else if (!mesh.has_names()) {
    expected = "axis numbers: the mesh has no axis_names";
  } else {
    expected = str("one of the mesh's axes (", join(mesh.axis_names()), ")");
  }
  throw ValueError(
      str(caller.function, ": ", caller.argument, " = ", spec, " names the mesh axis ", axis, "; expected ", expected));
}

void check_rank(const NamedState& s, std::int64_t ndim, const char* what, const Caller& caller,
                const Shape* shape = nullptr) {
  if (static_cast<std::int64_t>(s.spec.size()) <= ndim) return;
  throw ValueError(str(caller.function, ": ", caller.argument, " has ", s.spec.size(), " entries but ", what,
                       shape ? str(" ", *shape) : std::string(), " has rank ", ndim,
                       ndim == 0 ? "; expected P() for a scalar" : "; expected at most one entry a dimension", " (",
                       caller.argument, " = ", s.spec, ")"));
}

}  // namespace

std::shared_ptr<const NamedState> resolve_spec(const AnyMesh& mesh, const PartitionSpec& spec,
                                               const NamedOptions& options, const Caller& caller) {
  std::vector<SpecEntry> entries;
  std::vector<std::vector<int>> dim_axes;
  Dims parts;
  std::vector<bool> used(static_cast<std::size_t>(mesh.ndim()));
  for (const SpecEntry& e : spec) {
    std::vector<AxisRef> refs;
    auto& axes = dim_axes.emplace_back();
    std::int64_t n = 1;
    for (const AxisRef& a : e.axes()) {
      auto at = mesh.axis_index(a);
      if (!at) throw_unknown_axis(mesh, spec, a, caller);
      auto i = static_cast<std::size_t>(*at);
      refs.push_back(mesh.has_names() ? AxisRef(mesh.axis_names()[i]) : AxisRef(*at));
      if (used[i]) {
        throw DuplicateAxisError(str(caller.function, ": ", caller.argument, " = ", spec,
                                     " has duplicate entries: it uses the mesh axis `", mesh.shape_tuple()[i].name,
                                     "` more than once; expected every axis at most once"));
      }
      used[i] = true;
      axes.push_back(*at);
      n *= mesh.mesh_shape()[i];
    }
    parts.push_back(n);
    entries.push_back(e.kind() == SpecEntry::Kind::Axes ? SpecEntry(std::move(refs)) : e);
  }
  auto set = [&](const char* name, const std::vector<AxisRef>& axes, std::vector<AxisRef>& refs) {
    std::vector<int> out;
    for (const AxisRef& a : axes) {
      auto at = mesh.axis_index(a);
      if (!at) throw_unknown_axis(mesh, spec, a, caller);
      auto i = static_cast<std::size_t>(*at);
      if (used[i]) {
        throw ValueError(str(caller.function, ": ", caller.argument, " = ", spec, " has the mesh axis `",
                             mesh.shape_tuple()[i].name, "` in ", name,
                             " and in another place; expected axes of no other use"));
      }
      used[i] = true;
      refs.push_back(mesh.has_names() ? AxisRef(mesh.axis_names()[i]) : AxisRef(*at));
      out.push_back(static_cast<int>(*at));
    }
    std::sort(out.begin(), out.end());
    return out;
  };
  std::vector<AxisRef> unreduced_refs, reduced_refs;
  std::vector<int> unreduced = set("unreduced", spec.unreduced(), unreduced_refs);
  std::vector<int> reduced = set("reduced", spec.reduced(), reduced_refs);
  PartitionSpec by_name =
      PartitionSpec(std::move(entries)).with_unreduced(std::move(unreduced_refs)).with_reduced(std::move(reduced_refs));
  auto s = std::make_shared<NamedState>(NamedState{mesh, std::move(by_name), options, std::move(dim_axes),
                                                   std::move(parts), std::move(unreduced), std::move(reduced)});
  s->hash = base::hash_mix(base::hash_mix(mesh.hash(), s->spec.hash()),
                           std::hash<std::string>{}(options.memory_kind) + (options.uneven ? 1 : 0));
  return s;
}

Shape named_shard_shape(const NamedState& s, const Shape& global_shape, const Caller& caller) {
  check_rank(s, rank(global_shape), "global_shape", caller, &global_shape);
  return split_shape(global_shape, s.parts, s.options.uneven, caller.function);
}

}  // namespace sharding

using sharding::MeshTiling;

NamedSharding::NamedSharding(const AnyMesh& mesh, const PartitionSpec& spec, const NamedOptions& options, const Loc&)
    : state_(sharding::resolve_spec(mesh, spec, options, {"NamedSharding", "spec"})) {}

const AnyMesh& NamedSharding::mesh() const& { return state_->mesh; }
const PartitionSpec& NamedSharding::spec() const& { return state_->spec; }
bool NamedSharding::uneven() const { return state_->options.uneven; }
NamedSharding NamedSharding::with_spec(const PartitionSpec& spec, const Loc&) const {
  return {state_->mesh, spec, state_->options};
}

std::span<const int> NamedSharding::dim_axes(std::size_t dim) const {
  if (dim >= state_->dim_axes.size()) return {};
  return state_->dim_axes[dim];
}

std::span<const int> NamedSharding::unreduced_axes() const { return state_->unreduced; }
std::span<const int> NamedSharding::reduced_axes() const { return state_->reduced; }

std::int64_t NamedSharding::num_devices() const { return state_->mesh.size(); }
bool NamedSharding::is_concrete() const { return state_->mesh.is_concrete(); }
bool NamedSharding::is_fully_replicated() const {
  auto alone = [&](int a) { return state_->mesh.mesh_shape()[static_cast<std::size_t>(a)] == 1; };
  if (!std::ranges::all_of(state_->unreduced, alone)) return false;
  return std::ranges::all_of(state_->parts, [](std::int64_t n) { return n == 1; });
}
Shape NamedSharding::shard_shape(const Shape& global_shape) const {
  return sharding::named_shard_shape(*state_, global_shape, {"shard_shape", "spec"});
}
std::string_view NamedSharding::memory_kind() const { return state_->options.memory_kind; }

bool NamedSharding::equals(const Sharding& other) const {
  const auto* o = dynamic_cast<const NamedSharding*>(&other);
  if (o == nullptr) return false;
  const auto& a = *state_;
  const auto& b = *o->state_;
  return &a == &b || (a.hash == b.hash && a.mesh == b.mesh && a.spec == b.spec &&
                      a.options.uneven == b.options.uneven && a.options.memory_kind == b.options.memory_kind);
}
std::size_t NamedSharding::hash() const { return state_->hash; }

std::string NamedSharding::text() const {
  std::string out = str("NamedSharding(mesh=", state_->mesh, ", spec=", state_->spec);
  if (state_->options.uneven) out += ", uneven=true";
  if (!state_->options.memory_kind.empty()) out += str(", memory_kind=", state_->options.memory_kind);
  return out + ")";
}
ShardingPtr NamedSharding::share() const { return std::make_shared<NamedSharding>(*this); }
std::span<const Device> NamedSharding::devices() const { return device_list()->devices; }
std::shared_ptr<const mesh::DeviceList> NamedSharding::device_list() const {
  sharding::need_devices(*this, "devices");
  return state_->mesh.concrete().device_list();
}

std::optional<MeshTiling> NamedSharding::mesh_tiling(std::int64_t ndim) const {
  sharding::check_rank(*state_, ndim, "the array", {"NamedSharding", "spec"});
  MeshTiling t;
  t.axis_sizes = state_->mesh.mesh_shape();
  t.dim_axes.reserve(static_cast<std::size_t>(ndim));
  t.dim_axes = state_->dim_axes;
  t.dim_axes.resize(static_cast<std::size_t>(ndim));
  t.unreduced = state_->unreduced;
  return t;
}

TileAssignment NamedSharding::to_tiles(std::int64_t ndim, const Loc&) const {
  sharding::check_rank(*state_, ndim, "ndim", {"to_tiles", "spec"});
  if (!state_->unreduced.empty()) {
    throw UnimplementedError(str("to_tiles: spec = ", state_->spec, " is unreduced, which tiles cannot say"));
  }
  if (is_fully_replicated()) return TileAssignment::replicated();
  const Shape& sizes = state_->mesh.mesh_shape();
  std::vector<bool> used(sizes.size());
  Dims dims, perm;
  for (std::size_t d = 0; d < static_cast<std::size_t>(ndim); ++d) {
    dims.push_back(d < state_->parts.size() ? state_->parts[d] : 1);
    for (int a : dim_axes(d)) {
      perm.push_back(a);
      used[static_cast<std::size_t>(a)] = true;
    }
  }
  std::int64_t replicas = 1;
  for (std::size_t a = 0; a < used.size(); ++a) {
    if (used[a]) continue;
    perm.push_back(static_cast<std::int64_t>(a));
    replicas *= sizes[a];
  }
  if (replicas > 1) dims.push_back(replicas);
  return TileAssignment(std::move(dims), sizes, std::move(perm), replicas > 1);
}

AxisMapping to_axis_mapping(const PartitionSpec& spec, std::string_view argument_name, const Loc&) {
  std::vector<AxisMapping::value_type> out;
  for (std::size_t d = 0; d < spec.size(); ++d) {
    for (const AxisRef& a : spec[d].axes()) {
      std::string key = a.is_name() ? a.name() : str(a.number());
      if (std::ranges::any_of(out, [&](const auto& e) { return e.first == key; })) {
        throw DuplicateAxisError(str("to_axis_mapping: ", argument_name, " = ", spec, " uses the mesh axis `", key,
                                     "` more than once; expected every axis at most once"));
      }
      out.emplace_back(std::move(key), static_cast<std::int64_t>(d));
    }
  }
  return AxisMapping(std::move(out));
}

}  // namespace tessera
