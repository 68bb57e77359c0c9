// SPDX-License-Identifier: Apache-2.0
#include "sharding/placement.h"

#include "base/hash.h"
#include "base/lru_cache.h"
#include "base/strings.h"
#include "mesh/local_mesh_cache.h"
#include "sharding/index_map_state.h"
#include "sharding/named_state.h"
#include "sharding/shard_places.h"
#include "tessera/cache_stats.h"
#include "tessera/error.h"

namespace tessera {

namespace sharding {

namespace {

struct Key {
  ShardingPtr sharding;
  Shape shape;
  bool local_only = false;
  bool operator==(const Key& o) const {
    return local_only == o.local_only && shape == o.shape && *sharding == *o.sharding;
  }
};
struct KeyHash {
  std::size_t operator()(const Key& k) const {
    return base::hash_range(base::hash_mix(k.sharding->hash(), k.local_only ? 1 : 0), k.shape);
  }
};
template <class Value>
using Cache = base::LruCache<Key, Value, KeyHash>;

// Weights are device positions (plus a constant an entry), so the bound is on memory, whatever the size of the meshes.
constexpr std::int64_t kCapacity = std::int64_t{1} << 23;
constexpr std::int64_t kEntryWeight = 256;

template <class Value>
Cache<Value>& cache(CacheId id) {
  static auto* caches = new std::vector<std::unique_ptr<Cache<Value>>>([] {
    std::vector<std::unique_ptr<Cache<Value>>> v;
    for (int i = 0; i < kNumCaches; ++i) v.push_back(std::make_unique<Cache<Value>>(kCapacity));
    return v;
  }());
  return *(*caches)[static_cast<std::size_t>(id)];
}
using IndexState = std::shared_ptr<const IndexMapState>;
using PlacementPtr = std::shared_ptr<const Placement>;

const ShardingPtr& need(const ShardingPtr& s) {
  if (s == nullptr) throw ValueError("placement: sharding is null; expected a sharding");
  return s;
}

// Distinct shards that a shape and its shards' shape ask for; a dimension without elements has one.
std::int64_t expected_shards(const Shape& global, const Shape& shard) {
  std::int64_t n = 1;
  for (std::size_t d = 0; d < global.size(); ++d) n *= shard[d] == 0 ? 1 : global[d] / shard[d];
  return n;
}

void check_shard_count(std::int64_t got, std::int64_t expected, const Shape& shape) {
  if (got != expected) {
    throw StateError(str("compute_shard_places: found ", got, " distinct shard_grid of global_shape ", shape,
                         "; expected ", expected));
  }
}

std::int64_t count_distinct(const ShardGrid& p) {
  if (!p.grid) return static_cast<std::int64_t>(p.listed.size());
  std::int64_t n = 1;
  for (std::size_t d = 0; d < p.dims.size(); ++d) n *= p.distinct_parts(d);
  return n;
}

}  // namespace

std::shared_ptr<const DeviceList> device_list(const Sharding& s) { return Access::device_list(s); }

std::shared_ptr<const Placement> placement(const ShardingPtr& s, const Shape& global_shape) {
  return cache<PlacementPtr>(CacheId::Placement).get({need(s), global_shape}, [&] {
    auto p = std::make_shared<Placement>();
    p->devices = Access::device_list(*s);
    p->shard_grid = std::make_shared<const ShardGrid>(make_shard_grid(*s, global_shape));
    const ShardGrid& shard_grid = *p->shard_grid;
    p->global_shape = global_shape;
    p->shard_shape = shard_grid.shard_shape();
    auto tiling = mesh_tiling(*s, rank(global_shape));
    std::vector<Digit> addend = tiling ? addend_digits(*tiling) : std::vector<Digit>{};
    for (const Digit& d : addend) p->addends *= d.size;
    p->num_tiles = shard_grid.num_tiles() * p->addends;
    p->tile_index = TileTable<Index, &ShardGrid::tile_index>(p->shard_grid, p->addends);
    p->tile_shape = TileTable<Shape, &ShardGrid::tile_shape>(p->shard_grid, p->addends);
    for (const auto& d : shard_grid.dims) {
      if (shard_grid.grid) p->parts.push_back(static_cast<std::int32_t>(d.parts));
    }
    p->replica_id = shard_grid.count_replicas();
    std::size_t n = p->devices->size();
    p->tile_of.resize(n);
    p->first_position.assign(static_cast<std::size_t>(p->num_tiles), -1);
    for (std::size_t i = 0; i < n; ++i) {
      std::int64_t number = 0;
      for (const Digit& d : addend) number = number * d.size + static_cast<std::int64_t>(i) / d.stride % d.size;
      auto t = number * shard_grid.num_tiles() + shard_grid.tile(static_cast<std::int64_t>(i));
      p->tile_of[i] = static_cast<std::int32_t>(t);
      auto& first = p->first_position[static_cast<std::size_t>(t)];
      if (first < 0) first = static_cast<std::int32_t>(i);
    }
    return std::pair(PlacementPtr(std::move(p)), static_cast<std::int64_t>(n) + kEntryWeight);
  });
}

}  // namespace sharding

using sharding::Caller;
using sharding::IndexMapState;
using sharding::IndexState;
using sharding::kEntryWeight;
using sharding::Key;

namespace {

// The sharding behind the functions over (shape, mesh, spec). Errors speak in the words of the function.
NamedSharding named(const Mesh& mesh, const PartitionSpec& spec, std::string_view function) {
  if (mesh.empty()) throw ValueError(str(function, ": global_mesh is empty; expected at least one device"));
  try {
    return NamedSharding(mesh, spec);
  } catch (const ValueError&) {
    sharding::resolve_spec(mesh, spec, {}, {function, "mesh_axes"});
    throw;
  }
}

// Only an answer that is not cached yet needs its shape checked.
Shape checked_shard_shape(const NamedSharding& s, const Shape& shape, std::string_view function) {
  Caller caller{function, "mesh_axes"};
  return sharding::named_shard_shape(*sharding::resolve_spec(s.mesh(), s.spec(), {}, caller), shape, caller);
}

IndexState cached_state(CacheId id, const ShardingPtr& s, const Shape& shape, bool local_only = false) {
  return sharding::cache<IndexState>(id).get(Key{s, shape, local_only}, [&] {
    auto state = std::make_shared<IndexMapState>(*s, shape, local_only);
    std::int64_t weight = state->shard_grid.by_digits ? 0 : state->shard_grid.num_devices;
    return std::pair(IndexState(std::move(state)), weight + kEntryWeight);
  });
}

}  // namespace

IndexMap Sharding::devices_indices_map(const Shape& global_shape, const Loc&) const {
  sharding::need_devices(*this, "devices_indices_map");
  return IndexMap(cached_state(CacheId::IndicesMap, share(), global_shape));
}
IndexMap Sharding::addressable_devices_indices_map(const Shape& global_shape, const Loc&) const {
  sharding::need_devices(*this, "addressable_devices_indices_map");
  return IndexMap(cached_state(CacheId::IndicesMap, share(), global_shape, true));
}

IndexMap get_shard_indices(const Shape& global_shape, const Mesh& global_mesh, const PartitionSpec& mesh_axes,
                           const Loc&) {
  NamedSharding s = named(global_mesh, mesh_axes, "get_shard_indices");
  return IndexMap(sharding::cache<IndexState>(CacheId::ShardIndices).get(Key{s, global_shape}, [&] {
    checked_shard_shape(s, global_shape, "get_shard_indices");
    return std::pair(IndexState(std::make_shared<IndexMapState>(s, global_shape)), kEntryWeight);
  }));
}

PlaceMap get_shard_indices_replica_ids(const Shape& global_shape, const Mesh& global_mesh,
                                       const PartitionSpec& mesh_axes, const Loc&) {
  NamedSharding s = named(global_mesh, mesh_axes, "get_shard_indices_replica_ids");
  return PlaceMap(sharding::cache<IndexState>(CacheId::ShardPlaces).get(Key{s, global_shape}, [&] {
    Shape shard = checked_shard_shape(s, global_shape, "get_shard_indices_replica_ids");
    auto state = std::make_shared<IndexMapState>(s, global_shape);
    sharding::check_shard_count(sharding::count_distinct(state->shard_grid),
                                sharding::expected_shards(global_shape, shard), global_shape);
    return std::pair(IndexState(std::move(state)), kEntryWeight);
  }));
}

Shape get_shard_shape(const Shape& global_shape, const Mesh& global_mesh, const PartitionSpec& mesh_axes, const Loc&) {
  NamedSharding s = named(global_mesh, mesh_axes, "get_shard_shape");
  return sharding::cache<Shape>(CacheId::ShardShape).get(Key{s, global_shape}, [&] {
    return std::pair(checked_shard_shape(s, global_shape, "get_shard_shape"), kEntryWeight);
  });
}

namespace detail {
PlaceMap compute_shard_places(const Shape& global_shape, const Mesh& global_mesh, const PartitionSpec& mesh_axes,
                              const std::function<Index(std::int64_t)>& index_of) {
  NamedSharding s = named(global_mesh, mesh_axes, "compute_shard_places");
  Shape shard = checked_shard_shape(s, global_shape, "compute_shard_places");
  std::shared_ptr<IndexMapState> state;
  if (index_of) {
    std::vector<Index> indices;
    for (std::int64_t i = 0; i < global_mesh.size(); ++i) indices.push_back(index_of(i));
    state = std::make_shared<IndexMapState>(s, sharding::make_listed_shard_grid(std::move(indices), global_shape));
  } else {
    state = std::make_shared<IndexMapState>(s, global_shape);
  }
  sharding::check_shard_count(sharding::count_distinct(state->shard_grid),
                              sharding::expected_shards(global_shape, shard), global_shape);
  return PlaceMap(std::move(state));
}
}  // namespace detail

CacheStats cache_stats(CacheId id) {
  base::LruStats s;
  switch (id) {
    case CacheId::LocalMesh:
      s = mesh::local_mesh_cache_stats();
      break;
    case CacheId::ShardShape:
      s = sharding::cache<Shape>(id).stats();
      break;
    case CacheId::Placement:
      s = sharding::cache<sharding::PlacementPtr>(id).stats();
      break;
    default:
      s = sharding::cache<IndexState>(id).stats();
      break;
  }
  return {s.hits, s.misses, s.entries};
}

CacheStats cache_stats() {
  CacheStats sum;
  for (auto id : {CacheId::ShardIndices, CacheId::ShardPlaces, CacheId::ShardShape}) {
    auto s = cache_stats(id);
    sum = {sum.hits + s.hits, sum.misses + s.misses, sum.entries + s.entries};
  }
  return sum;
}

void clear_caches() {
  mesh::clear_local_mesh_cache();
  sharding::cache<Shape>(CacheId::ShardShape).clear();
  sharding::cache<sharding::PlacementPtr>(CacheId::Placement).clear();
  for (auto id : {CacheId::ShardIndices, CacheId::ShardPlaces, CacheId::IndicesMap})
    sharding::cache<IndexState>(id).clear();
}

}  // namespace tessera
