// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <type_traits>
#include <typeinfo>

#include "sharding/placement.h"
#include "support/golden_rows.h"
#include "support/meshes.h"
#include "support/spec_report.h"
#include "tessera/cache_stats.h"
#include "tessera/error.h"
#include "tessera/sharding.h"

namespace tessera {
namespace {

using test::EightDevices;

// A user's kind: the i-th device holds the (n-1-i)-th slice of dimension 0.
class Reversed : public Sharding {
 public:
  explicit Reversed(std::vector<Device> devices) : devices_(std::move(devices)) {}
  bool is_fully_replicated() const override { return false; }
  Shape shard_shape(const Shape& s) const override { return {s.at(0) / num_devices()}; }
  std::string text() const override { return "Reversed()"; }
  std::string_view kind() const override { return "Reversed"; }
  ShardingPtr share() const override { return std::make_shared<Reversed>(*this); }
  std::span<const Device> devices() const override { return devices_; }
  bool equals(const Sharding& o) const override { return typeid(o) == typeid(*this); }
  std::size_t hash() const override { return 1; }
  std::optional<std::vector<Index>> shard_indices(const Shape& s) const override {
    std::vector<Index> out;
    std::int64_t n = num_devices(), each = s.at(0) / n;
    for (std::int64_t i = n; i-- > 0;) out.push_back({Slice{i * each, (i + 1) * each}});
    return out;
  }

 protected:
  std::vector<Device> devices_;
};
class WithoutMap : public Reversed {
 public:
  using Reversed::Reversed;
  ShardingPtr share() const override { return std::make_shared<WithoutMap>(*this); }
  std::optional<std::vector<Index>> shard_indices(const Shape&) const override { return std::nullopt; }
};

TEST(Sharding, UsersMayAddKinds) {
  EightDevices e;
  Reversed r(e.list({0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(r.devices_indices_map({8}).at(e.d(0)), (Index{{7, 8}}));
  EXPECT_EQ(r.devices_indices_map({8}).identity(), Reversed(r).devices_indices_map({8}).identity());
  auto p = sharding::placement(r, {8});
  EXPECT_EQ(p->num_tiles, 8);
  EXPECT_EQ(p->tile_index[0], (Index{{7, 8}}));
  EXPECT_EQ(p->tile_of[3], 3);
  EXPECT_EQ(sharding::device_list(r), e.L8().device_list());
  EXPECT_FALSE(sharding::mesh_tiling(r, 1));
  WithoutMap w(e.list({0, 1}));
  EXPECT_ERROR(StateError, w.devices_indices_map({8}), "index map");
  EXPECT_ERROR(StateError, sharding::placement(w, {8}), "index map");
}

TEST(NamedSharding, ChecksItsSpec) {
  TESSERA_SPEC("A10");
  EightDevices e;
  EXPECT_ERROR(ValueError, NamedSharding(e.A(), P("q")), "q", "(x, y)", "spec");
  EXPECT_ERROR(DuplicateAxisError, NamedSharding(e.A(), P("x", "x")), "`x`");
  EXPECT_ERROR(ValueError, NamedSharding(e.A(), P(2)), "2", "0..1");
  EXPECT_ERROR(ValueError, NamedSharding(e.A(), P(-1)), "-1", "0..1");
  EXPECT_ERROR(DuplicateAxisError, NamedSharding(e.A(), P("x", 0)), "`x`");
  EXPECT_ERROR(ValueError, NamedSharding(Mesh({0, 1}, {2}), P("x")), "axis_names", "'x'");
  EXPECT_EQ(NamedSharding(e.A(), P(0, 1)), NamedSharding(e.A(), P("x", "y")));
  static_assert(!std::is_constructible_v<NamedSharding, int, PartitionSpec>);
  static_assert(std::is_convertible_v<NamedSharding, ShardingPtr>);
}

TEST(SingleDeviceSharding, PutsAllOnOneDevice) {
  TESSERA_SPEC("A11");
  EightDevices e;
  EXPECT_ERROR(ValueError, SingleDeviceSharding{Device{}}, "null");
  SingleDeviceSharding s(e.d(0));
  EXPECT_EQ(s.shard_shape({8, 2}), (Shape{8, 2}));
  EXPECT_EQ(s.devices_indices_map({8, 2}).at(e.d(0)), (Index{{}, {}}));
  EXPECT_TRUE(s.is_fully_replicated());
  EXPECT_EQ(s.device_set().size(), 1u);
  EXPECT_EQ(s.device_set()[0], e.d(0));
}

TEST(GspmdSharding, PlacesTiles) {
  TESSERA_SPEC("A12");
  EightDevices e;
  auto all = e.list({0, 1, 2, 3, 4, 5, 6, 7});
  GspmdSharding rows(all, TileAssignment({4, 2}));
  EXPECT_EQ(rows.devices_indices_map({8, 2}), NamedSharding(e.A(), P("x", "y")).devices_indices_map({8, 2}));
  GspmdSharding part(all, TileAssignment({4, 1, 2}, true));
  EXPECT_EQ(part.devices_indices_map({8, 2}), NamedSharding(e.A(), P("x")).devices_indices_map({8, 2}));
  EXPECT_EQ(sharding::placement(part, {8, 2})->replica_id, (std::vector<std::int32_t>{0, 1, 0, 1, 0, 1, 0, 1}));
  GspmdSharding odd(all, TileAssignment::from_list({8}, {0, 3, 1, 2, 7, 6, 5, 4}));
  std::vector<std::int64_t> held;
  for (const auto& entry : odd.devices_indices_map({8})) held.push_back(*entry.index[0].start);
  EXPECT_EQ(held, (std::vector<std::int64_t>{0, 2, 3, 1, 7, 6, 5, 4}));
  EXPECT_TRUE(GspmdSharding::replicated(all).is_fully_replicated());
  EXPECT_EQ(GspmdSharding::replicated(all).shard_shape({3}), (Shape{3}));
  EXPECT_ERROR(ValueError, GspmdSharding(all, TileAssignment({4})), "4", "8");
  EXPECT_ERROR(ValueError, rows.shard_shape({8}), "at least 2", "rank 1");
  EXPECT_ERROR(IndivisibleError, rows.shard_shape({7, 2}), "dimension 0", "7", "4", "[4, 2]");
}

TEST(GspmdSharding, MayReplicateWithoutIotaForm) {
  EightDevices e;
  auto t = TileAssignment::from_list({2, 4}, {0, 3, 5, 6, 1, 2, 4, 7}, true);
  EXPECT_FALSE(t.is_iota());
  GspmdSharding s(e.list({0, 1, 2, 3, 4, 5, 6, 7}), t);
  EXPECT_FALSE(sharding::mesh_tiling(s, 1));
  auto p = sharding::placement(s, {4, 3});
  EXPECT_EQ(p->tile_of, (std::vector<std::int32_t>{0, 1, 1, 0, 1, 0, 0, 1}));
  EXPECT_EQ(p->replica_id, (std::vector<std::int32_t>{0, 0, 1, 1, 2, 2, 3, 3}));
  // The order inside a group of replicas does not matter.
  GspmdSharding other(e.list({0, 1, 2, 3, 4, 5, 6, 7}),
                      TileAssignment::from_list({2, 4}, {6, 5, 3, 0, 1, 2, 4, 7}, true));
  EXPECT_TRUE(s.is_equivalent_to(other, 2));
  EXPECT_NE(s, other);
}

TEST(PmapSharding, CutsSlicesOfOne) {
  TESSERA_SPEC("A15");
  EightDevices e;
  auto all = e.list({0, 1, 2, 3, 4, 5, 6, 7});
  PmapSharding s(all, 0);
  EXPECT_EQ(s.shard_shape({8, 2}), (Shape{1, 2}));
  EXPECT_EQ(s.devices_indices_map({8, 2}).at(e.d(3)), (Index{{3, 4}, {}}));
  EXPECT_EQ(sharding::placement(s, {8, 2})->replica_id[3], 0);
  EXPECT_FALSE(s.is_fully_replicated());
  PmapSharding t(all, 1);
  EXPECT_EQ(t.shard_shape({2, 8}), (Shape{2, 1}));
  EXPECT_EQ(t.devices_indices_map({2, 8}).at(e.d(3)), (Index{{}, {3, 4}}));
  EXPECT_ERROR(ValueError, s.shard_shape({6, 2}), "dimension 0 is 6; expected 8, the number of devices", "(6, 2)");
  EXPECT_ERROR(ValueError, t.shard_shape({8}), "rank 1");
}

TEST(GspmdSharding, PositionalPlacement) {
  TESSERA_SPEC("A16");
  EightDevices e;
  auto all = e.list({0, 1, 2, 3, 4, 5, 6, 7});
  EXPECT_EQ(GspmdSharding::positional(all, {4, 2}).devices_indices_map({8, 2}).at(e.d(1)), (Index{{0, 2}, {1, 2}}));
  auto over1 = GspmdSharding::positional(all, {4, 2}, {1});
  EXPECT_EQ(over1.devices_indices_map({8, 2}).at(e.d(1)), (Index{{0, 2}, {}}));
  EXPECT_EQ(sharding::placement(over1, {8, 2})->replica_id[1], 1);
  auto over0 = GspmdSharding::positional(all, {4, 2}, {0});
  EXPECT_EQ(over0.devices_indices_map({8, 2}).at(e.d(2)), (Index{{}, {0, 1}}));
  EXPECT_EQ(sharding::placement(over0, {8, 2})->replica_id[0], 0);
  EXPECT_EQ(sharding::placement(over0, {8, 2})->replica_id[2], 1);
  EXPECT_ERROR(ValueError, GspmdSharding::positional(all, {3, 2}), "8", "(3, 2)");
}

TEST(Sharding, DeviceSetsAndProcesses) {
  TESSERA_SPEC("A17", "A21", "A22");
  EightDevices e;
  NamedSharding a(e.A(), P("x", "y"));
  EXPECT_EQ(a.device_set().size(), 8u);
  EXPECT_EQ(a.num_devices(), 8);
  EXPECT_TRUE(a.device_set().contains(e.d(7)));
  EXPECT_TRUE(a.is_fully_addressable());
  auto c = test::cluster_clients(2, 4);
  Mesh m = test::mesh_of(c[1], {0, 1, 2, 3, 4, 5, 6, 7}, {4, 2}, {"x", "y"});
  NamedSharding s(m, P("x", "y"));
  EXPECT_EQ(s.num_devices(), 8);
  EXPECT_EQ(s.addressable_devices().size(), 4u);
  EXPECT_FALSE(s.is_fully_addressable());
  NamedSharding whole(m, P());
  EXPECT_TRUE(whole.is_fully_replicated());
  EXPECT_FALSE(whole.is_fully_addressable());
  EXPECT_TRUE(NamedSharding(test::mesh_of(c[1], {4, 5, 6, 7}, {4}, "x"), P()).is_fully_addressable());
  EXPECT_FALSE(NamedSharding(test::mesh_of(c[1], {0, 1, 2, 3}, {4}, "x"), P()).is_fully_addressable());
  auto map = s.addressable_devices_indices_map({8, 2});
  ASSERT_EQ(map.size(), 4u);
  EXPECT_EQ(map.at(c[1].device(4)), (Index{{4, 6}, {0, 1}}));
  EXPECT_EQ(map.at(c[1].device(5)), (Index{{4, 6}, {1, 2}}));
  EXPECT_EQ(map.at(c[1].device(6)), (Index{{6, 8}, {0, 1}}));
  EXPECT_EQ(map.at(c[1].device(7)), (Index{{6, 8}, {1, 2}}));
  EXPECT_FALSE(map.contains(c[1].device(0)));
  EXPECT_EQ(s.devices_indices_map({8, 2}).size(), 8u);
}

TEST(Sharding, Equality) {
  TESSERA_SPEC("A18");
  EightDevices e;
  NamedSharding s(e.A(), P("x"));
  EXPECT_EQ(s, NamedSharding(e.A(), P("x")));
  EXPECT_EQ(s.hash(), NamedSharding(e.A(), P("x")).hash());
  EXPECT_NE(s, NamedSharding(e.A(), P("x", none)));
  EXPECT_NE(s, NamedSharding(e.A24(), P("x")));
  EXPECT_NE(s, NamedSharding(e.A(), P("x"), {.memory_kind = "pinned_host"}));
  const Sharding& single = SingleDeviceSharding(e.d(0));
  EXPECT_FALSE(single == NamedSharding(Mesh({e.d(0)}, "q"), P("q")));
}

TEST(Sharding, Equivalence) {
  TESSERA_SPEC("A19");
  EightDevices e;
  auto all = e.list({0, 1, 2, 3, 4, 5, 6, 7});
  auto on = [](const Mesh& m, const PartitionSpec& s) { return NamedSharding(m, s); };
  EXPECT_TRUE(on(e.A(), P("x")).is_equivalent_to(on(e.A(), P("x", none)), 2));
  EXPECT_TRUE(SingleDeviceSharding(e.d(0)).is_equivalent_to(on(Mesh({e.d(0)}, "q"), P("q")), 1));
  EXPECT_TRUE(on(e.A(), P("x")).is_equivalent_to(on(e.B(), P(axes("x", "y"))), 2));
  EXPECT_TRUE(on(e.A(), P(axes("x", "y"))).is_equivalent_to(on(e.B(), P(axes("x", "y", "z"))), 2));
  GspmdSharding g(all, TileAssignment({4, 2}));
  EXPECT_TRUE(g.is_equivalent_to(on(e.A(), P("x", "y")), 2));
  EXPECT_TRUE(on(e.A(), P("x", "y")).is_equivalent_to(g, 2));
  EXPECT_FALSE(g.is_equivalent_to(on(e.A(), P("x")), 2));
  EXPECT_TRUE(GspmdSharding(all, TileAssignment({4, 1, 2}, true)).is_equivalent_to(on(e.A(), P("x")), 2));
  EXPECT_TRUE(PmapSharding(all).is_equivalent_to(on(e.L8(), P("x")), 2));
  Mesh reversed(DeviceArray(e.list({7, 6, 5, 4, 3, 2, 1, 0}), {4, 2}), {"x", "y"});
  EXPECT_FALSE(on(e.A(), P()).is_equivalent_to(on(reversed, P()), 2));
  EXPECT_FALSE(on(e.A(), P(axes("x", "y"))).is_equivalent_to(on(e.A(), P(axes("y", "x"))), 2));
}

TEST(Sharding, FullReplicationIsDecidedWithoutShapes) {
  TESSERA_SPEC("A20");
  EightDevices e;
  EXPECT_TRUE(NamedSharding(e.A(), P()).is_fully_replicated());
  EXPECT_TRUE(NamedSharding(e.A(), P(none, none)).is_fully_replicated());
  EXPECT_TRUE(SingleDeviceSharding(e.d(0)).is_fully_replicated());
  EXPECT_TRUE(NamedSharding(e.C(), P("y")).is_fully_replicated());
  EXPECT_TRUE(NamedSharding(Mesh({e.d(0)}, "q"), P("q")).is_fully_replicated());
  NamedSharding r21(e.A(), P("x"));
  EXPECT_EQ(r21.shard_shape({0, 2}), (Shape{0, 2}));
  EXPECT_FALSE(r21.is_fully_replicated());
}

TEST(Sharding, MapsAreCachedAndConstant) {
  TESSERA_SPEC("A23");
  EightDevices e;
  auto first = NamedSharding(e.A(), P("x")).devices_indices_map({8, 2});
  auto second = NamedSharding(e.A(), P("x")).devices_indices_map({8, 2});
  EXPECT_EQ(first.identity(), second.identity());
  EXPECT_NE(first.identity(), NamedSharding(e.A(), P("x")).devices_indices_map({4, 2}).identity());
  static_assert(std::is_const_v<std::remove_reference_t<decltype(first.at(Device()))>>);
}

TEST(Sharding, Texts) {
  TESSERA_SPEC("A24");
  EightDevices e;
  EXPECT_EQ(to_string(NamedSharding(e.A(), P("x"))), "NamedSharding(mesh=Mesh('x': 4, 'y': 2), spec=P('x',))");
  EXPECT_EQ(to_string(SingleDeviceSharding(e.d(3))), "SingleDeviceSharding(device=CpuDevice(id=3))");
  EXPECT_EQ(to_string(NamedSharding(e.A(), P(), {.memory_kind = "pinned_host"})),
            "NamedSharding(mesh=Mesh('x': 4, 'y': 2), spec=P(), memory_kind=pinned_host)");
  EXPECT_EQ(to_string(GspmdSharding(e.list({0, 1}), TileAssignment({2}))), "GspmdSharding({devices=[2]<=[2]})");
  EXPECT_EQ(to_string(PmapSharding(e.list({0, 1}))),
            "PmapSharding(devices=[CpuDevice(id=0), CpuDevice(id=1)], sharded_dim=0)");
}

TEST(AbstractNamedSharding, KnowsShapesButNoDevices) {
  TESSERA_SPEC("M58", "M69");
  AbstractMesh m{{"x", 4}, {"y", 2}};
  NamedSharding s(m, P("x", "y"));
  EXPECT_EQ(s.num_devices(), 8);
  EXPECT_FALSE(s.is_fully_replicated());
  EXPECT_EQ(s.shard_shape({8, 2}), (Shape{2, 1}));
  EXPECT_EQ(s.text(), "NamedSharding(mesh=AbstractMesh((('x', 4), ('y', 2))), spec=P('x', 'y'))");
  EXPECT_ERROR(ValueError, NamedSharding(m, P("q")), "q", "(x, y)");
  EXPECT_THROW(NamedSharding(m, P("x", "x")), DuplicateAxisError);
  EXPECT_ERROR(IndivisibleError, s.shard_shape({7, 2}), "dimension 0", "7", "4", "[4, 2]");
  static_assert(!std::is_constructible_v<SingleDeviceSharding, AbstractMesh>);
  static_assert(!std::is_constructible_v<GspmdSharding, AbstractMesh, TileAssignment>);
  static_assert(!std::is_constructible_v<PmapSharding, AbstractMesh> &&
                !std::is_constructible_v<PmapSharding, AbstractMesh, int>);
}

TEST(AbstractNamedSharding, RefusesWhatNeedsDevices) {
  NamedSharding s(AbstractMesh{{"x", 4}, {"y", 2}}, P("x", "y"));
  EXPECT_FALSE(s.is_concrete());
  EXPECT_ERROR(ValueError, s.device_set(), "device_set", "AbstractMesh");
  EXPECT_ERROR(ValueError, s.addressable_devices(), "addressable_devices", "AbstractMesh");
  EXPECT_ERROR(ValueError, s.is_fully_addressable(), "is_fully_addressable", "AbstractMesh");
  EXPECT_ERROR(ValueError, s.devices(), "devices", "AbstractMesh");
  EXPECT_ERROR(ValueError, s.devices_indices_map({8, 2}), "devices_indices_map", "AbstractMesh");
  EXPECT_ERROR(ValueError, sharding::device_list(s), "AbstractMesh");
}

}  // namespace
}  // namespace tessera
