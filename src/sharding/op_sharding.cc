// SPDX-License-Identifier: Apache-2.0
#include "tessera/op_sharding.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>
#include <numeric>
#include <shared_mutex>
#include <unordered_map>

#include "base/hash.h"
#include "base/strings.h"
#include "sharding/named_state.h"
#include "tessera/error.h"

namespace tessera {

namespace sharding {

struct OpShardingState {
  ShardingType rule = ShardingType::REPLICATED;
  ShardingType normal = ShardingType::REPLICATED;
  TileAssignment tiles = TileAssignment::replicated();
  std::optional<Mesh> mesh;                  // else made from parts: positions are device ids
  std::vector<std::optional<Dims>> entries;  // mesh axes of every entry of the spec; nothing for `none`
  mutable std::once_flag tile_once, group_once;
  mutable OpSharding::Ids tile_assignment, group_assignment;
  mutable OpSharding::Groups groups;
};

}  // namespace sharding

using sharding::OpShardingState;
using Ids = OpSharding::Ids;
using Groups = OpSharding::Groups;

std::string to_string(ShardingType type) {
  static constexpr std::array<const char*, 7> names = {"REPLICATED", "MAXIMAL", "TUPLE",  "TILED",
                                                       "MANUAL",     "PARTIAL", "UNKNOWN"};
  auto i = static_cast<int>(type);
  return i < 0 || i > 6 ? str("ShardingType(", i, ")") : names[static_cast<std::size_t>(i)];
}

XlaShardingType to_xla(ShardingType type, const Loc&) {
  switch (type) {
    case ShardingType::REPLICATED:
      return {0, false};
    case ShardingType::MAXIMAL:
      return {1, false};
    case ShardingType::TUPLE:
      return {2, false};
    case ShardingType::TILED:
      return {3, false};
    case ShardingType::PARTIAL:
      return {3, true};
    case ShardingType::MANUAL:
      return {4, false};
    case ShardingType::UNKNOWN:
      return {5, false};
  }
  throw ValueError(str("to_xla: type = ", type, "; expected one of the seven sharding types"));
}

ShardingType from_xla(const XlaShardingType& type, const Loc&) {
  if (type.type == 3) return type.replicate_on_last_tile_dim ? ShardingType::PARTIAL : ShardingType::TILED;
  for (auto t : {ShardingType::REPLICATED, ShardingType::MAXIMAL, ShardingType::TUPLE, ShardingType::MANUAL,
                 ShardingType::UNKNOWN}) {
    if (to_xla(t).type == type.type) return t;
  }
  throw ValueError(str("from_xla: type = ", type.type, "; expected 0..5"));
}

namespace {

constexpr const char* kName = "OpSharding";

// --- from a mesh and a spec -------------------------------------------------------------------------------------

// Mesh axes in the order of the spec, then the unused ones ascending.
struct AxisOrder {
  Dims used, rest;
};
AxisOrder axis_order(const OpShardingState& s) {
  AxisOrder o;
  for (const auto& e : s.entries) {
    if (e) o.used.insert(o.used.end(), e->begin(), e->end());
  }
  for (std::int64_t a = 0; a < s.mesh->ndim(); ++a) {
    if (std::ranges::find(o.used, a) == o.used.end()) o.rest.push_back(a);
  }
  return o;
}

std::int64_t product(const Shape& sizes, const Dims& axes) {
  std::int64_t n = 1;
  for (auto a : axes) n *= sizes[static_cast<std::size_t>(a)];
  return n;
}

// Ids of the mesh with its axes in another order.
std::vector<std::int64_t> permuted_ids(const Mesh& mesh, Dims perm) {
  if (perm.empty()) return mesh.flat_ids();
  const auto& ids = mesh.flat_ids();
  std::vector<std::int64_t> out;
  out.reserve(ids.size());
  const Dims& reshape = mesh.mesh_shape();
  for (auto p : TileAssignment({size_of(reshape)}, reshape, std::move(perm)).to_list()) {
    out.push_back(ids[static_cast<std::size_t>(p)]);
  }
  return out;
}

ShardingType rule_type(const OpShardingState& s, std::size_t tile_rank) {
  if (s.entries.empty()) return ShardingType::REPLICATED;
  if (tile_rank > s.entries.size()) return ShardingType::PARTIAL;
  if (s.mesh->size() == 1) return ShardingType::MAXIMAL;
  auto whole = std::ranges::count_if(s.entries, [](const auto& e) { return !e; });
  if (whole == static_cast<std::ptrdiff_t>(s.entries.size())) return ShardingType::REPLICATED;
  return whole > 0 ? ShardingType::PARTIAL : ShardingType::TILED;
}

ShardingType normal_type(const TileAssignment& t) {
  switch (t.kind()) {
    case TileAssignment::Kind::Manual:
      return ShardingType::MANUAL;
    case TileAssignment::Kind::Tiled:
      return t.replicate_last() ? ShardingType::PARTIAL : ShardingType::TILED;
    default:
      return ShardingType::REPLICATED;
  }
}

std::shared_ptr<const OpShardingState> of_spec(const Mesh& mesh, const PartitionSpec& spec) {
  if (mesh.empty()) throw ValueError(str(kName, ": mesh is empty; expected at least one device"));
  auto resolved = sharding::resolve_spec(mesh, spec, {}, {"op_sharding", "partition_spec"});
  auto s = std::make_shared<OpShardingState>();
  s->mesh = mesh;
  std::size_t merged = 0;
  for (std::size_t i = 0; i < spec.size(); ++i) {
    if (spec[i].is_unconstrained()) {
      throw ValueError(str("op_sharding: partition_spec = ", spec, " leaves entry ", i,
                           " unconstrained; expected None or mesh axes"));
    }
    if (spec[i].is_none()) {
      s->entries.emplace_back();
    } else {
      s->entries.emplace_back(Dims(resolved->dim_axes[i].begin(), resolved->dim_axes[i].end()));
      ++merged;
    }
  }
  s->rule = rule_type(*s, merged + axis_order(*s).rest.size());
  s->tiles = NamedSharding(mesh, spec).to_tiles(static_cast<std::int64_t>(spec.size()));
  s->normal = normal_type(s->tiles);
  return s;
}

Ids tile_ids(const OpShardingState& s) {
  if (s.entries.empty()) return {};
  const Shape& sizes = s.mesh->mesh_shape();
  AxisOrder o = axis_order(s);
  Shape dims;
  for (const auto& e : s.entries) {
    if (e) dims.push_back(product(sizes, *e));
  }
  for (auto a : o.rest) dims.push_back(sizes[static_cast<std::size_t>(a)]);
  o.used.insert(o.used.end(), o.rest.begin(), o.rest.end());
  return {permuted_ids(*s.mesh, std::move(o.used)), std::move(dims)};
}

std::pair<Ids, Groups> group_ids(const OpShardingState& s) {
  if (s.rule != ShardingType::PARTIAL) return {};
  const Shape& sizes = s.mesh->mesh_shape();
  AxisOrder o = axis_order(s);
  auto each = static_cast<std::size_t>(product(sizes, o.rest));
  o.used.insert(o.used.end(), o.rest.begin(), o.rest.end());
  auto ids = permuted_ids(*s.mesh, std::move(o.used));
  Shape dims;
  for (const auto& e : s.entries) dims.push_back(e ? product(sizes, *e) : 1);
  std::vector<std::int64_t> numbers(ids.size() / each);
  std::iota(numbers.begin(), numbers.end(), std::int64_t{0});
  Groups groups;
  for (std::size_t g = 0; g < numbers.size(); ++g) {
    auto first = ids.begin() + static_cast<std::ptrdiff_t>(g * each);
    groups.emplace_back(first, first + static_cast<std::ptrdiff_t>(each));
  }
  return {Ids(std::move(numbers), std::move(dims)), std::move(groups)};
}

// --- from parts -------------------------------------------------------------------------------------------------

// Every number 0..n-1 once.
void check_once(const char* part, const std::vector<std::int64_t>& values) {
  std::vector<bool> seen(values.size());
  for (auto v : values) {
    if (v < 0 || v >= static_cast<std::int64_t>(values.size())) {
      throw ValueError(
          str(kName, ": ", part, " has the number ", v, "; expected 0..", values.size() - 1, ", each once"));
    }
    if (seen[static_cast<std::size_t>(v)]) {
      throw ValueError(str(kName, ": ", part, " repeats ", v, "; expected every number once"));
    }
    seen[static_cast<std::size_t>(v)] = true;
  }
}

TileAssignment tiled_parts(const Ids& tiles) {
  if (tiles.size() == 0) {
    throw ValueError(str(kName, ": tile_assignment is empty; expected the device of every tile for TILED"));
  }
  check_once("tile_assignment", tiles.flat());
  if (tiles.size() == 1) return TileAssignment::replicated();
  return TileAssignment::from_list(tiles.shape(), tiles.flat());
}

TileAssignment partial_parts(const Ids& order, const Groups& groups) {
  if (groups.empty()) {
    throw ValueError(str(kName, ": replication_groups has 0 groups; expected at least 1 for PARTIAL"));
  }
  if (order.size() != static_cast<std::int64_t>(groups.size())) {
    throw ValueError(str(kName, ": group_assignment has ", order.size(), " cells but replication_groups has ",
                         groups.size(), " groups; expected as many"));
  }
  check_once("group_assignment", order.flat());
  for (const auto& g : groups) {
    if (g.size() != groups[0].size() || g.empty()) {
      throw ValueError(str(kName, ": replication_groups have lengths ", groups[0].size(), " and ", g.size(),
                           "; expected groups of one length, at least 1"));
    }
  }
  std::vector<std::int64_t> list;
  for (auto i : order.flat()) {
    auto g = groups[static_cast<std::size_t>(i)];
    std::ranges::sort(g);
    list.insert(list.end(), g.begin(), g.end());
  }
  check_once("replication_groups", list);
  if (groups.size() == 1) return TileAssignment::replicated();
  Dims dims = order.shape();
  bool replicated = groups[0].size() > 1;
  if (replicated) dims.push_back(static_cast<std::int64_t>(groups[0].size()));
  return TileAssignment::from_list(std::move(dims), std::move(list), replicated);
}

TileAssignment tiles_of_parts(ShardingType type, const Ids& tiles, const Ids& order, const Groups& groups) {
  switch (type) {
    case ShardingType::REPLICATED:
    case ShardingType::MAXIMAL:
      return TileAssignment::replicated();
    case ShardingType::MANUAL:
      return TileAssignment::manual();
    case ShardingType::TILED:
      return tiled_parts(tiles);
    case ShardingType::PARTIAL:
      return partial_parts(order, groups);
    default:
      throw ValueError(str(kName, ": type = ", type, "; expected REPLICATED, MAXIMAL, TILED, PARTIAL or MANUAL"));
  }
}

// --- the cache --------------------------------------------------------------------------------------------------

// Kept for the whole program: what a mesh gives stays where it is, whoever still holds the mesh.
struct Cache {
  struct Entry {
    Mesh mesh;
    std::vector<std::optional<Dims>> axes;
    OpSharding sharding;
  };
  std::shared_mutex mutex;
  std::unordered_multimap<std::size_t, std::unique_ptr<const Entry>> entries;
  std::atomic<std::int64_t> built{0};
  static Cache& get() {
    static auto* c = new Cache;
    return *c;
  }
};

// Hash of mesh and spec with names as numbers; nothing when the spec is wrong. Allocates nothing.
std::optional<std::size_t> key_hash(const Mesh& mesh, const PartitionSpec& spec) {
  std::size_t h = mesh.hash();
  std::uint64_t used = 0;
  if (mesh.ndim() > 64) return std::nullopt;
  for (const SpecEntry& e : spec) {
    if (e.is_unconstrained()) return std::nullopt;
    h = base::hash_mix(h, e.is_none() ? 0 : 1 + e.axes().size());
    for (const AxisRef& a : e.axes()) {
      auto i = mesh.axis_index(a);
      if (!i || (used >> *i & 1) != 0) return std::nullopt;
      used |= std::uint64_t{1} << *i;
      h = base::hash_mix(h, static_cast<std::size_t>(*i));
    }
  }
  return h;
}

bool same_key(const Cache::Entry& entry, const Mesh& mesh, const PartitionSpec& spec) {
  if (!(entry.mesh == mesh) || entry.axes.size() != spec.size()) return false;
  for (std::size_t i = 0; i < spec.size(); ++i) {
    const auto& axes = spec[i].axes();
    const auto& own = entry.axes[i];
    if (spec[i].is_none() != !own || (own && own->size() != axes.size())) return false;
    for (std::size_t k = 0; k < axes.size(); ++k) {
      if (mesh.axis_index(axes[k]) != static_cast<int>((*own)[k])) return false;
    }
  }
  return true;
}

const OpSharding* find_entry(const Cache& cache, std::size_t hash, const Mesh& mesh, const PartitionSpec& spec) {
  auto [first, last] = cache.entries.equal_range(hash);
  for (auto it = first; it != last; ++it) {
    if (same_key(*it->second, mesh, spec)) return &it->second->sharding;
  }
  return nullptr;
}

std::vector<std::optional<Dims>> key_axes(const Mesh& mesh, const PartitionSpec& spec) {
  std::vector<std::optional<Dims>> out;
  for (const SpecEntry& e : spec) {
    auto& axes = out.emplace_back();
    if (e.is_none()) continue;
    axes.emplace();
    for (const AxisRef& a : e.axes()) axes->push_back(mesh.axis_index(a).value());
  }
  return out;
}

}  // namespace

const OpSharding& Mesh::op_sharding(const PartitionSpec& spec, const Loc&) const {
  Cache& cache = Cache::get();
  auto hash = key_hash(*this, spec);
  if (!hash) {
    static_cast<void>(of_spec(*this, spec));  // throws what is wrong with the spec
    throw UnimplementedError(str("op_sharding: a mesh of ", ndim(), " axes; at most 64 are supported"));
  }
  {
    std::shared_lock lock(cache.mutex);
    if (const auto* found = find_entry(cache, *hash, *this, spec)) return *found;
  }
  std::unique_lock lock(cache.mutex);
  if (const auto* found = find_entry(cache, *hash, *this, spec)) return *found;
  auto entry =
      std::make_unique<const Cache::Entry>(Cache::Entry{*this, key_axes(*this, spec), OpSharding(*this, spec)});
  cache.built.fetch_add(1, std::memory_order_relaxed);
  return cache.entries.emplace(*hash, std::move(entry))->second->sharding;
}

std::int64_t op_shardings_built() { return Cache::get().built.load(std::memory_order_relaxed); }

OpSharding::OpSharding(ShardingType type, const Ids& tile_assignment, const Ids& group_assignment,
                       const Groups& replication_groups, const Loc&) {
  auto s = std::make_shared<OpShardingState>();
  s->rule = type;
  s->tiles = tiles_of_parts(type, tile_assignment, group_assignment, replication_groups);
  s->normal = normal_type(s->tiles);
  s->tile_assignment = tile_assignment;
  s->group_assignment = group_assignment;
  s->groups = replication_groups;
  state_ = std::move(s);
}

OpSharding::OpSharding(const Mesh& mesh, const PartitionSpec& partition_spec, const Loc&)
    : state_(of_spec(mesh, partition_spec)) {}

OpSharding OpSharding::of(const NamedSharding& sharding, std::int64_t ndim, const Loc&) {
  if (static_cast<std::int64_t>(sharding.spec().size()) > ndim) {
    throw ValueError(str("OpSharding::of: the spec ", sharding.spec(), " has ", sharding.spec().size(),
                         " entries; expected at most ndim = ", ndim));
  }
  std::vector<SpecEntry> entries = sharding.spec().entries();
  entries.resize(static_cast<std::size_t>(ndim), SpecEntry(none));
  return OpSharding(of_spec(sharding.mesh().concrete("op_sharding"), PartitionSpec(std::move(entries))));
}

OpSharding OpSharding::parse(std::string_view text, const Loc&) {
  auto s = std::make_shared<OpShardingState>();
  s->tiles = TileAssignment::parse(text);
  s->normal = s->rule = normal_type(s->tiles);
  if (s->tiles.kind() == TileAssignment::Kind::Maximal) s->rule = ShardingType::MAXIMAL;
  if (!s->tiles.is_tiled()) return OpSharding(std::move(s));
  std::vector<std::int64_t> list = s->tiles.to_list();
  if (!s->tiles.replicate_last()) {
    s->tile_assignment = Ids(std::move(list), s->tiles.dims());
    return OpSharding(std::move(s));
  }
  Dims dims = s->tiles.dims();
  auto each = static_cast<std::size_t>(dims.back());
  s->tile_assignment = Ids(list, dims);
  dims.pop_back();
  std::vector<std::int64_t> numbers(list.size() / each);
  std::iota(numbers.begin(), numbers.end(), std::int64_t{0});
  for (std::size_t g = 0; g < numbers.size(); ++g) {
    auto first = list.begin() + static_cast<std::ptrdiff_t>(g * each);
    s->groups.emplace_back(first, first + static_cast<std::ptrdiff_t>(each));
  }
  s->group_assignment = Ids(std::move(numbers), std::move(dims));
  return OpSharding(std::move(s));
}

ShardingType OpSharding::sharding_type() const { return state_->rule; }
ShardingType OpSharding::type() const { return state_->normal; }
const TileAssignment& OpSharding::tiles() const { return state_->tiles; }

const OpSharding::Ids& OpSharding::tile_assignment() const {
  if (state_->mesh) std::call_once(state_->tile_once, [&] { state_->tile_assignment = tile_ids(*state_); });
  return state_->tile_assignment;
}
const OpSharding::Ids& OpSharding::group_assignment() const {
  replication_groups();
  return state_->group_assignment;
}
const OpSharding::Groups& OpSharding::replication_groups() const {
  if (state_->mesh) {
    std::call_once(state_->group_once,
                   [&] { std::tie(state_->group_assignment, state_->groups) = group_ids(*state_); });
  }
  return state_->groups;
}

namespace {
// Device ids by tile, ascending inside each replica group.
std::vector<std::int64_t> ids_by_tile(const OpShardingState& s) {
  std::vector<std::int64_t> list = s.tiles.to_list();
  if (s.mesh) {
    for (auto& p : list) p = s.mesh->flat_ids()[static_cast<std::size_t>(p)];
  }
  if (s.tiles.replicate_last()) {
    auto each = s.tiles.dims().back();
    for (auto it = list.begin(); it != list.end(); it += each) std::sort(it, it + each);
  }
  return list;
}
}  // namespace

std::string OpSharding::hlo_v1() const {
  const TileAssignment& t = state_->tiles;
  // One device has the whole: written as replication, which does not name it.
  if (t.kind() == TileAssignment::Kind::Maximal) return "{replicated}";
  if (!t.is_tiled()) return t.text();
  return str("{devices=[", join(t.dims(), ","), "]", join(ids_by_tile(*state_), ","),
             t.replicate_last() ? " last_tile_dim_replicate}" : "}");
}
std::string OpSharding::hlo_v2() const {
  return state_->tiles.kind() == TileAssignment::Kind::Maximal ? "{replicated}" : state_->tiles.text();
}

NamedSharding OpSharding::to_named_sharding(const Mesh& mesh, const Loc&) const {
  const TileAssignment& t = state_->tiles;
  if (t.kind() == TileAssignment::Kind::Manual) {
    throw ValueError("to_named_sharding: the sharding is {manual}; expected one that says where an array lies");
  }
  if (!t.is_tiled()) return {mesh, PartitionSpec(), {.uneven = true}};
  std::vector<std::int64_t> list = ids_by_tile(*state_);
  std::unordered_map<std::int64_t, std::int64_t> position;
  for (std::size_t i = 0; i < mesh.flat_ids().size(); ++i) {
    position[mesh.flat_ids()[i]] = static_cast<std::int64_t>(i);
  }
  if (position.size() != list.size()) {
    throw ValueError(str("to_named_sharding: the sharding ", hlo_v1(), " speaks of ", list.size(),
                         " devices; the mesh ", mesh, " has ", position.size()));
  }
  for (auto& id : list) {
    auto at = position.find(id);
    if (at == position.end()) {
      throw ValueError(str("to_named_sharding: device ", id, " of ", hlo_v1(), " is not in the mesh ", mesh));
    }
    id = at->second;
  }
  if (t.replicate_last()) {
    auto each = t.dims().back();
    for (auto it = list.begin(); it != list.end(); it += each) std::sort(it, it + each);
  }
  auto spec = to_spec(TileAssignment::from_list(t.dims(), std::move(list), t.replicate_last()), mesh);
  if (!spec) {
    throw ValueError(
        str("to_named_sharding: no spec over the axes of ", mesh, " places as ", hlo_v1(), "; use a GspmdSharding"));
  }
  std::vector<SpecEntry> entries = spec->entries();
  entries.resize(static_cast<std::size_t>(t.tiled_rank()), SpecEntry(none));
  return {mesh, PartitionSpec(std::move(entries)), {.uneven = true}};
}

bool OpSharding::operator==(const OpSharding& other) const {
  const auto& a = *state_;
  const auto& b = *other.state_;
  if (&a == &b) return true;
  if (a.rule != b.rule || a.normal != b.normal || a.tiles.dims() != b.tiles.dims()) return false;
  if (a.mesh == b.mesh) return a.tiles == b.tiles;
  return ids_by_tile(a) == ids_by_tile(b);
}
std::size_t OpSharding::hash() const {
  // Equal shardings may name the same devices through different meshes: only what these share goes in.
  return base::hash_range(
      base::hash_mix(static_cast<std::size_t>(state_->rule), static_cast<std::size_t>(state_->normal)),
      state_->tiles.dims());
}

std::string to_string(const OpSharding& s) { return s.hlo_v1(); }

}  // namespace tessera
