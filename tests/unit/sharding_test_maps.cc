// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <set>
#include <thread>
#include <unordered_map>

#include "sharding/placement.h"
#include "sharding/shard_places.h"
#include "support/golden_rows.h"
#include "support/meshes.h"
#include "support/spec_report.h"
#include "tessera/cache_stats.h"
#include "tessera/error.h"
#include "tessera/sharding.h"

namespace tessera {
namespace {

using test::EightDevices;

std::string index_text(const Index& index) {
  std::string out = "[";
  for (std::size_t d = 0; d < index.size(); ++d) {
    if (d > 0) out += ",";
    if (index[d].start) out += std::to_string(*index[d].start);
    out += ":";
    if (index[d].stop) out += std::to_string(*index[d].stop);
  }
  return out + "]";
}
// The golden table's form of a map.
std::string text_of(const PlaceMap& map) {
  std::string out;
  for (const auto& [device, place] : map) {
    if (!out.empty()) out += " ";
    out += std::to_string(device.id()) + index_text(place.index) + "." + std::to_string(place.replica_id);
  }
  return out;
}
std::vector<int> replicas(const PlaceMap& map) {
  std::vector<int> out;
  for (const auto& e : map) out.push_back(e.place.replica_id);
  return out;
}
Mesh mesh_named(const EightDevices& e, char name) {
  return name == 'A' ? e.A() : name == 'B' ? e.B() : name == 'C' ? e.C() : e.D();
}

TEST(GoldenTable, HoldsForMapsShardingsAndPlacements) {
  TESSERA_SPEC("G6", "G10", "G11", "G16", "G17", "G18", "G32");
  EightDevices e;
  ASSERT_EQ(test::golden_rows().size(), 28u);
  for (const auto& row : test::golden_rows()) {
    SCOPED_TRACE(row.name);
    TESSERA_SPEC(row.name);
    Mesh m = mesh_named(e, row.mesh);
    auto places = get_shard_indices_replica_ids(row.shape, m, row.spec);
    EXPECT_EQ(text_of(places), row.places);
    EXPECT_EQ(get_shard_shape(row.shape, m, row.spec), row.shard);
    NamedSharding s(m, row.spec);
    EXPECT_EQ(s.shard_shape(row.shape), row.shard);
    auto p = sharding::placement(s, row.shape);
    auto indices = get_shard_indices(row.shape, m, row.spec);
    auto own = s.devices_indices_map(row.shape);
    for (std::size_t i = 0; i < 8; ++i) {
      EXPECT_EQ(indices.device(i), m.devices_flat()[i]);
      EXPECT_EQ(indices.index(i), places.place(i).index);
      EXPECT_EQ(own.at(m.devices_flat()[i]), places.place(i).index);
      auto tile = static_cast<std::size_t>(p->tile_of[i]);
      EXPECT_EQ(p->tile_index[tile], places.place(i).index);
      EXPECT_EQ(p->replica_id[i], places.place(i).replica_id);
      EXPECT_EQ(p->tile_shape[tile], row.shard);
      EXPECT_LE(static_cast<std::size_t>(p->first_position[tile]), i);
    }
  }
}

TEST(IndexMaps, GroupEqualShards) {
  TESSERA_SPEC("G3");
  EightDevices e;
  std::unordered_map<Index, std::vector<std::int64_t>> groups;
  for (const auto& [device, index] : get_shard_indices({8, 4}, e.B(), P(none, "y")))
    groups[index].push_back(device.id());
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ((groups[Index{{}, {0, 2}}]), (std::vector<std::int64_t>{0, 1, 4, 5}));
  EXPECT_EQ((groups[Index{{}, {2, 4}}]), (std::vector<std::int64_t>{2, 3, 6, 7}));
}

TEST(IndexMaps, FollowMeshOrder) {
  TESSERA_SPEC("G5");
  EightDevices e;
  auto map = get_shard_indices({8, 2}, e.D(), P("x", "y"));
  std::vector<std::int64_t> order;
  for (const auto& entry : map) order.push_back(entry.device.id());
  EXPECT_EQ(order, (std::vector<std::int64_t>{3, 1, 0, 2, 7, 6, 5, 4}));
  EXPECT_EQ(map.at(e.d(0)), (Index{{2, 4}, {0, 1}}));
  EXPECT_ERROR(ValueError, get_shard_indices({8, 2}, Mesh(), P()),
               "global_mesh is empty; expected at least one device");
  EXPECT_ERROR(ValueError, get_shard_indices_replica_ids({8, 2}, Mesh(), P()), "global_mesh is empty");
  EXPECT_ERROR(ValueError, map.at(Client::cpu({.devices = 1}).device(0)), "CpuDevice(id=0)");
  EXPECT_ERROR(IndexError, map.index(8), "8", "0..7");
}

TEST(IndexMaps, UnknownAxis) {
  EightDevices e;
  EXPECT_ERROR(ValueError, get_shard_indices({8, 2}, e.A(), P("q")), "'q'", "P('q',)", "(x, y)");
}

TEST(IndexMaps, TupleOrderAndEmptyTuples) {
  TESSERA_SPEC("G7", "G8", "G9");
  EightDevices e;
  EXPECT_EQ(get_shard_indices({8, 2}, e.A(), P(axes("x", "y"))).index(1)[0], (Slice{1, 2}));
  EXPECT_EQ(get_shard_indices({8, 2}, e.A(), P(axes("y", "x"))).index(1)[0], (Slice{4, 5}));
  EXPECT_EQ(get_shard_indices({8, 4}, e.B(), P(axes("z", "x"), "y")).index(4), (Index{{2, 4}, {0, 2}}));
  EXPECT_ERROR(ValueError, axes("x", axes("y", "z")), "entry 1");
  EXPECT_EQ(get_shard_indices({8, 2}, e.A(), P(axes(), "y")), get_shard_indices({8, 2}, e.A(), P(none, "y")));
  EXPECT_EQ(get_shard_shape({8, 2, 3}, e.A(), P("x")), (Shape{2, 2, 3}));
  EXPECT_EQ(get_shard_indices({8, 2}, e.A(), P("x")), get_shard_indices({8, 2}, e.A(), P("x", none)));
}

TEST(IndexMaps, RefuseRepeatedAxes) {
  TESSERA_SPEC("G12");
  EightDevices e;
  for (const auto& spec : {P("x", "x"), P(axes("x", "x")), P("x", "y", "x")}) {
    std::string text = test::error_of<DuplicateAxisError>([&] { get_shard_indices({8, 2, 4}, e.A(), spec); });
    EXPECT_TRUE(test::has(text, {"mesh_axes", spec.text()})) << text;
    EXPECT_NE(text.find("`x`"), std::string::npos);
    EXPECT_EQ(text.find("`x`"), text.rfind("`x`"));
    EXPECT_THROW(get_shard_shape({8, 2, 4}, e.A(), spec), DuplicateAxisError);
  }
}

TEST(IndexMaps, RefuseSpecsLongerThanTheShape) {
  TESSERA_SPEC("G13");
  EightDevices e;
  EXPECT_ERROR(ValueError, get_shard_indices({8}, e.A(), P("x", none)), "mesh_axes has 2 entries", "(8", "rank 1");
  EXPECT_ERROR(ValueError, get_shard_indices_replica_ids({8}, e.A(), P("x", none)), "mesh_axes has 2 entries",
               "rank 1");
  EXPECT_ERROR(ValueError, get_shard_shape({8}, e.A(), P("x", none)), "mesh_axes has 2 entries", "rank 1");
  EXPECT_ERROR(ValueError, get_shard_shape(Shape{}, e.A(), P(none)), "rank 0", "P()");
  EXPECT_ERROR(ValueError, get_shard_indices(Shape{}, e.A(), P("x")), "rank 0", "P()");
  EXPECT_ERROR(ValueError, NamedSharding(e.A(), P("x", none)).shard_shape({8}), "spec has 2 entries", "rank 1");
  EXPECT_ERROR(ValueError, NamedSharding(e.A(), P("x", none)).devices_indices_map({8}), "2 entries", "rank 1");
  EXPECT_EQ(get_shard_shape(Shape{}, e.A(), P()), Shape{});
}

TEST(IndexMaps, RefuseUnevenDivision) {
  TESSERA_SPEC("G14");
  EightDevices e;
  EXPECT_ERROR(IndivisibleError, get_shard_shape({7, 2}, e.A(), P("x")), "dimension 0", "7", "4", "(7, 2)", "[4, 1]");
  EXPECT_ERROR(IndivisibleError, get_shard_indices({7, 2}, e.A(), P("x")), "dimension 0", "7", "4", "[4, 1]");
  EXPECT_ERROR(IndivisibleError, get_shard_shape({8, 3}, e.A(), P("x", "y")), "dimension 1", "3", "2", "[4, 2]");
  EXPECT_ERROR(IndivisibleError, get_shard_shape({6, 2}, e.A(), P(axes("x", "y"))), "dimension 0", "6", "8");
  EXPECT_ERROR(IndivisibleError, get_shard_shape({4}, e.B(), P(axes("x", "y", "z"))), "dimension 0", "4", "8");
  EXPECT_ERROR(IndivisibleError, get_shard_shape({1, 2}, e.A(), P("x")), "dimension 0", "1", "4");
  EXPECT_ERROR(ValueError, get_shard_shape({8, -1}, e.A(), P("x")), "global_shape[1] = -1");
}

TEST(IndexMaps, AxesOfSizeOneKeepTheDimensionWhole) {
  TESSERA_SPEC("G15");
  EightDevices e;
  EXPECT_TRUE(get_shard_indices({8, 2}, e.C(), P("x", "y")).index(0)[1].is_full());
  EXPECT_EQ(get_shard_shape({8, 3}, e.C(), P("x", "y")), (Shape{1, 3}));
}

TEST(IndexMaps, NumberReplicas) {
  TESSERA_SPEC("G19");
  EightDevices e;
  EXPECT_EQ(replicas(get_shard_indices_replica_ids({8, 2}, e.A(), P("y"))), (std::vector<int>{0, 0, 1, 1, 2, 2, 3, 3}));
  EXPECT_EQ(replicas(get_shard_indices_replica_ids({8, 4}, e.B(), P(none, "y"))),
            (std::vector<int>{0, 1, 0, 1, 2, 3, 2, 3}));
  EXPECT_EQ(replicas(get_shard_indices_replica_ids({8, 4}, e.B(), P("z", "x"))),
            (std::vector<int>{0, 0, 1, 1, 0, 0, 1, 1}));
}

TEST(IndexMaps, ReplicaNumbersCountAcrossProcesses) {
  TESSERA_SPEC("G20");
  auto c = test::cluster_clients(2, 4);
  Mesh a = test::mesh_of(c[1], {0, 1, 2, 3, 4, 5, 6, 7}, {4, 2}, {"x", "y"});
  auto local = [&](const PartitionSpec& s) {
    std::vector<int> out;
    auto map = get_shard_indices_replica_ids({8, 2}, a, s);
    for (const Device& d : a.local_devices()) out.push_back(map.at(d).replica_id);
    return out;
  };
  EXPECT_EQ(local(P("y")), (std::vector<int>{2, 2, 3, 3}));
  EXPECT_EQ(local(P()), (std::vector<int>{4, 5, 6, 7}));
  EXPECT_EQ(local(P("x")), (std::vector<int>{0, 1, 0, 1}));
}

TEST(IndexMaps, ReplicaZeroCoversTheArrayOnce) {
  TESSERA_SPEC("G21", "G22");
  EightDevices e;
  std::map<std::string, std::int64_t> shards;
  for (const auto& row : test::golden_rows()) {
    std::int64_t covered = 0;
    for (const auto& [device, place] : get_shard_indices_replica_ids(row.shape, mesh_named(e, row.mesh), row.spec)) {
      if (place.replica_id != 0) continue;
      covered += size_of(row.shard);
      ++shards[row.name];
    }
    EXPECT_EQ(covered, size_of(row.shape)) << row.name;
  }
  std::map<std::string, std::int64_t> expected{{"R1", 8},  {"R2", 4},  {"R7", 1},  {"R15", 4},
                                               {"R21", 1}, {"R22", 2}, {"R23", 4}, {"R24", 1}};
  for (const auto& [name, count] : expected) EXPECT_EQ(shards[name], count) << name;
  auto wrong = [](std::int64_t position) { return Index{{position % 2, position % 2 + 1}, {}}; };
  EXPECT_ERROR(StateError, detail::compute_shard_places({8, 2}, e.A(), P("x"), wrong), "2", "4");
}

TEST(IndexMaps, UncachedVariant) {
  TESSERA_SPEC("G23");
  EightDevices e;
  auto cached = get_shard_indices_replica_ids({8, 2}, e.A(), P("y"));
  auto fresh = detail::compute_shard_places({8, 2}, e.A(), P("y"));
  EXPECT_EQ(fresh, cached);
  EXPECT_NE(fresh.identity(), cached.identity());
  EXPECT_ERROR(ValueError, detail::compute_shard_places({8, 2}, Mesh(), P()), "global_mesh is empty");
}

TEST(IndexMaps, ShardShape) {
  TESSERA_SPEC("G24");
  EightDevices e;
  EXPECT_EQ(get_shard_shape({16, 4, 6}, e.B(), P(none, axes("x", "y"))), (Shape{16, 1, 6}));
  EXPECT_EQ(get_shard_shape({16, 4, 6}, e.B(), P(axes("x", "y", "z"))), (Shape{2, 4, 6}));
  for (const auto& row : test::golden_rows()) {
    EXPECT_EQ(get_shard_shape(row.shape, mesh_named(e, row.mesh), row.spec), row.shard) << row.name;
  }
}

TEST(IndexMaps, AreCached) {
  TESSERA_SPEC("G25");
  EightDevices e;
  auto check = [&](CacheId id, auto ask) {
    clear_caches();
    auto first = ask();
    EXPECT_EQ(cache_stats(), (CacheStats{0, 1, 1}));
    auto second = ask();
    EXPECT_EQ(cache_stats(), (CacheStats{1, 1, 1}));
    EXPECT_EQ(cache_stats(id).misses, 1);
    EXPECT_EQ(first, second);
    return std::pair(first, second);
  };
  auto a = check(CacheId::ShardIndices, [&] { return get_shard_indices({8, 2}, e.A(), P("x")); });
  EXPECT_EQ(a.first.identity(), a.second.identity());
  auto b = check(CacheId::ShardPlaces, [&] { return get_shard_indices_replica_ids({8, 2}, e.A(), P("x")); });
  EXPECT_EQ(b.first.identity(), b.second.identity());
  check(CacheId::ShardShape, [&] { return get_shard_shape({8, 2}, e.A(), P("x")); });
  for (int i = 0; i < 40000; ++i) get_shard_shape({4 * i, 2}, e.A(), P("x"));
  EXPECT_LE(cache_stats(CacheId::ShardShape).entries, 32768);
}

TEST(IndexMaps, AnySequenceIsTheSameKey) {
  TESSERA_SPEC("G26");
  EightDevices e;
  clear_caches();
  get_shard_indices(std::array{8, 2}, e.A(), P("x"));
  get_shard_indices(std::vector<std::int64_t>{8, 2}, e.A(), P("x"));
  get_shard_indices({8, 2}, e.A(), P(std::vector<SpecEntry>{"x"}));
  EXPECT_EQ(cache_stats(CacheId::ShardIndices), (CacheStats{2, 1, 1}));
}

template <class T>
concept Assignable = requires(T v) {
  v = {};
};

TEST(IndexMaps, CannotBeChanged) {
  TESSERA_SPEC("G27");
  static_assert(std::is_const_v<std::remove_reference_t<decltype(std::declval<IndexMap&>().at(Device()))>>);
  static_assert(std::is_const_v<std::remove_reference_t<decltype(*std::declval<IndexMap&>().begin())>>);
  static_assert(std::is_const_v<std::remove_reference_t<decltype(std::declval<PlaceMap&>().at(Device()))>>);
  static_assert(!Assignable<decltype(std::declval<IndexMap&>().index(0))>);
  EightDevices e;
  clear_caches();
  std::vector<IndexMap> maps(8);
  std::vector<std::thread> threads;
  for (auto& m : maps) threads.emplace_back([&m, a = e.A()] { m = get_shard_indices({8, 2}, a, P("x", "y")); });
  for (auto& t : threads) t.join();
  for (const auto& m : maps) EXPECT_EQ(m.identity(), maps[0].identity());
  EXPECT_EQ(cache_stats(CacheId::ShardIndices).misses, 1);
}

TEST(IndexMaps, ErrorsAreNotCached) {
  EightDevices e;
  clear_caches();
  EXPECT_THROW(get_shard_shape({7, 2}, e.A(), P("x")), IndivisibleError);
  EXPECT_THROW(get_shard_shape({7, 2}, e.A(), P("x")), IndivisibleError);
  EXPECT_EQ(cache_stats().entries, 0);
}

TEST(Placement, UnevenShardsHaveTrueExtents) {
  EightDevices e;
  NamedSharding s(e.A(), P("x"), {.uneven = true});
  auto p = sharding::placement(s, {5, 2});
  EXPECT_EQ(p->num_tiles, 4);
  EXPECT_EQ(p->shard_shape, (Shape{2, 2}));
  std::vector<std::int64_t> extents;
  for (const Shape& t : p->tile_shape) extents.push_back(t[0]);
  EXPECT_EQ(extents, (std::vector<std::int64_t>{2, 2, 1, 0}));
  EXPECT_EQ(p->tile_index[3][0], (Slice{5, 5}));
  EXPECT_EQ(p->replica_id, (std::vector<std::int32_t>{0, 1, 0, 1, 0, 1, 0, 1}));
  // Extent 1 over four parts: one element, and three empty shards that are one shard three times.
  auto q = sharding::placement(s, {1, 2});
  EXPECT_EQ(q->replica_id, (std::vector<std::int32_t>{0, 1, 0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(q->first_position, (std::vector<std::int32_t>{0, 2, 4, 6}));
  EXPECT_NE(NamedSharding(e.A(), P("x")), s);
  EXPECT_EQ(s.shard_shape({7, 5}), (Shape{2, 5}));
}

TEST(Placement, IsSharedByEqualShardings) {
  EightDevices e;
  auto p = sharding::placement(NamedSharding(e.A(), P("x")), {8, 2});
  EXPECT_EQ(p, sharding::placement(NamedSharding(e.A(), P("x")), {8, 2}));
  EXPECT_NE(p, sharding::placement(NamedSharding(e.A(), P("x")), {4, 2}));
  EXPECT_EQ(p->devices, e.A().device_list());
  EXPECT_EQ(p->parts, (std::vector<std::int32_t>{4, 1}));
}

TEST(Placement, MillionsOfDevicesAreArithmetic) {
  Client c = Client::cpu({.devices = 1 << 20});
  Mesh m = make_mesh({1024, 1024}, {"x", "y"}, c.devices());
  NamedSharding s(m, P("y", "x"));
  auto map = s.devices_indices_map({1 << 20, 1 << 20});
  EXPECT_EQ(map.index(777777), (Index{{(777777 % 1024) * 1024, (777777 % 1024 + 1) * 1024},
                                      {(777777 / 1024) * 1024, (777777 / 1024 + 1) * 1024}}));
  EXPECT_EQ(s.to_tiles(2).text(), "{devices=[1024,1024]<=[1024,1024]T(1,0)}");
  EXPECT_EQ(get_shard_indices_replica_ids({1 << 20, 4}, m, P("y")).place(5 * 1024 + 7).replica_id, 5);
}

TEST(CommonRefinement, CutsAtAllBoundaries) {
  auto r = sharding::common_refinement({{4, 2}, {2, 2, 2}, {8}});
  ASSERT_TRUE(r);
  EXPECT_EQ(r->sizes, (std::vector<std::int64_t>{2, 2, 2}));
  EXPECT_EQ(r->axes[0], (std::vector<std::vector<int>>{{0, 1}, {2}}));
  EXPECT_EQ(r->axes[1], (std::vector<std::vector<int>>{{0}, {1}, {2}}));
  EXPECT_EQ(r->axes[2], (std::vector<std::vector<int>>{{0, 1, 2}}));
  EXPECT_FALSE(sharding::common_refinement({{2, 3}, {3, 2}}));
  EXPECT_FALSE(sharding::common_refinement({{2, 2}, {8}}));
  auto ones = sharding::common_refinement({{4, 1}, {1, 2, 2}});
  ASSERT_TRUE(ones);
  EXPECT_EQ(ones->sizes, (std::vector<std::int64_t>{2, 2}));
  EXPECT_EQ(ones->axes[0], (std::vector<std::vector<int>>{{0, 1}, {}}));
}

}  // namespace
}  // namespace tessera
