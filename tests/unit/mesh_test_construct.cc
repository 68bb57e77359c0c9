// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <array>
#include <thread>
#include <type_traits>
#include <unordered_set>

#include "support/meshes.h"
#include "support/spec_report.h"
#include "tessera/error.h"
#include "tessera/mesh.h"

namespace tessera {
namespace {

using test::EightDevices;

TEST(Mesh, IsAGridOfDevices) {
  TESSERA_SPEC("M1", "M16", "M17", "M18");
  EightDevices e;
  Mesh a = make_mesh({4, 2}, {"x", "y"});
  EXPECT_EQ(a.shape(), (OrderedMap<std::string, std::int64_t>{{"x", 4}, {"y", 2}}));
  EXPECT_EQ(a.size(), 8);
  EXPECT_EQ(a.devices()(2, 1), e.d(5));
  EXPECT_EQ(std::vector(a.axis_names().begin(), a.axis_names().end()), (std::vector<std::string>{"x", "y"}));
  EXPECT_EQ(a.axis_size("x"), 4);
  EXPECT_EQ(a.axis_size(1), 2);
  EXPECT_ERROR(ValueError, a.axis_size("q"), "q", "x, y");
  ASSERT_EQ(a.shape_tuple().size(), 2u);
  EXPECT_EQ(a.shape_tuple()[0], (AxisSize{"x", 4}));
  EXPECT_EQ(a.shape_tuple()[1], (AxisSize{"y", 2}));
  EXPECT_EQ(a.shape_tuple().data(), a.shape_tuple().data());
}

TEST(Mesh, OneStringIsOneName) {
  TESSERA_SPEC("M2");
  EightDevices e;
  EXPECT_EQ(Mesh(devices(), "x"), Mesh(devices(), {"x"}));
  EXPECT_EQ(Mesh(devices(), std::string("xy")).axis_names()[0], "xy");
  EXPECT_ERROR(ValueError, Mesh(e.A().devices(), "xy"), "1", "2", "xy");
}

TEST(Mesh, NestedListsGiveDimensions) {
  TESSERA_SPEC("M3");
  EightDevices e;
  Mesh m({{e.d(0), e.d(1)}, {e.d(2), e.d(3)}}, {"x", "y"});
  EXPECT_EQ(m.shape(), (OrderedMap<std::string, std::int64_t>{{"x", 2}, {"y", 2}}));
  EXPECT_EQ(Mesh({e.d(0), e.d(1)}, "x").ndim(), 1);
  std::vector<std::vector<Device>> ragged{{e.d(0), e.d(1)}, {e.d(2)}};
  EXPECT_ERROR(ValueError, Mesh(ragged, {"x", "y"}), "devices", "1", "2");
}

TEST(Mesh, NamesComeFromAnySequence) {
  TESSERA_SPEC("M4");
  EightDevices e;
  std::vector<std::string> vector{"x", "y"};
  std::array<std::string, 2> array{"x", "y"};
  EXPECT_EQ(Mesh(e.A().devices(), vector).identity(), e.A().identity());
  EXPECT_EQ(Mesh(e.A().devices(), array).identity(), e.A().identity());
  static_assert(!std::is_constructible_v<Mesh, DeviceArray, std::vector<int>>);
}

TEST(Mesh, RankMustBeTheNumberOfNames) {
  TESSERA_SPEC("M5");
  EightDevices e;
  EXPECT_ERROR(ValueError, Mesh(devices(), {"x", "y"}), "rank 1", "2 entries", "(x, y)");
  EXPECT_ERROR(ValueError, Mesh(e.A().devices(), {"x"}), "rank 2", "1 entries");
  EXPECT_ERROR(ValueError, Mesh(DeviceArray{}, AxisNames{}), "rank 1", "0 entries");
}

TEST(Mesh, RefusesRepeatedNames) {
  TESSERA_SPEC("M6");
  EightDevices e;
  EXPECT_ERROR(DuplicateAxisError, Mesh(e.A().devices(), {"x", "x"}), "axis_names", "x");
}

TEST(Mesh, RefusesMissingNames) {
  TESSERA_SPEC("M7");
  EightDevices e;
  EXPECT_ERROR(ValueError, Mesh(e.A().devices(), {"x", std::nullopt}), "axis_names[1]");
  EXPECT_EQ(Mesh(e.A().devices(), {"x", ""}).axis_size(""), 2);
}

TEST(Mesh, RefusesRepeatedAndNullDevices) {
  TESSERA_SPEC("M8");
  EightDevices e;
  EXPECT_ERROR(ValueError, Mesh({e.d(0), e.d(0)}, "x"), "id 0", "devices[0]", "devices[1]");
  EXPECT_ERROR(ValueError, Mesh({e.d(0), Device()}, "x"), "devices[1]", "null");
}

TEST(Mesh, EqualMeshesAreOneObject) {
  TESSERA_SPEC("M9");
  EightDevices e;
  EXPECT_EQ(e.A().identity(), e.A().identity());
  std::vector<Mesh> made(8);
  std::vector<std::thread> threads;
  auto client = e.client;
  for (std::size_t i = 0; i < made.size(); ++i) {
    threads.emplace_back([&made, client, i] { made[i] = make_mesh({4, 2}, {"x", "y"}, client.devices()); });
  }
  for (auto& t : threads) t.join();
  for (const auto& m : made) EXPECT_EQ(m.identity(), made[0].identity());
}

TEST(Mesh, CopiesTheDeviceArray) {
  TESSERA_SPEC("M10");
  EightDevices e;
  DeviceArray devices(e.list({0, 1, 2, 3}), {2, 2});
  Mesh m(devices, {"x", "y"});
  devices(0, 0) = e.d(7);
  EXPECT_EQ(m.devices()(0, 0), e.d(0));
}

TEST(Mesh, CannotBeChanged) {
  TESSERA_SPEC("M11", "M12");
  static_assert(std::is_same_v<decltype(std::declval<Mesh&>().devices()), const DeviceArray&>);
  static_assert(std::is_same_v<decltype(std::declval<Mesh&>().devices()(0, 0)), const Device&>);
  static_assert(std::is_same_v<decltype(std::declval<Mesh&>().device_ids()), const NdArray<std::int64_t>&>);
  static_assert(std::is_const_v<std::remove_reference_t<decltype(std::declval<Mesh&>().shape())>>);
  static_assert(std::is_same_v<decltype(std::declval<Mesh&>().axis_names()), std::span<const std::string>>);
  auto clients = test::cluster_clients(2, 4);
  Mesh m = test::mesh_of(clients[0], {0, 1, 2, 3, 4, 5, 6, 7}, {4, 2}, {"x", "y"});
  std::vector<std::size_t> sums(8);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < sums.size(); ++i) {
    threads.emplace_back([&, i] {
      sums[i] =
          m.hash() + m.local_mesh().hash() + static_cast<std::size_t>(m.device_ids()(3, 1)) + m.local_devices().size();
    });
  }
  for (auto& t : threads) t.join();
  for (auto s : sums) EXPECT_EQ(s, sums[0]);
}

TEST(Mesh, EqualityIsByNamesShapeAndDevices) {
  TESSERA_SPEC("M13");
  EightDevices e;
  EXPECT_NE(e.A(), make_mesh({4, 2}, {"y", "x"}));
  EXPECT_NE(e.A(), e.A24());
  EXPECT_NE(e.A(), Mesh(DeviceArray(e.list({7, 6, 5, 4, 3, 2, 1, 0}), {4, 2}), {"x", "y"}));
  EXPECT_EQ(e.A(), make_mesh({4, 2}, {"x", "y"}));
  EXPECT_NE(AnyMesh(e.A()), AnyMesh(e.A().abstract_mesh()));
}

TEST(Mesh, HashAgreesWithEquality) {
  TESSERA_SPEC("M14");
  EightDevices e;
  EXPECT_EQ(e.A().hash(), make_mesh({4, 2}, {"x", "y"}).hash());
  EXPECT_EQ((std::unordered_set<Mesh>{e.A(), e.A(), e.A24()}.size()), 2u);
}

TEST(Mesh, SerialisesToTheSameObject) {
  TESSERA_SPEC("M15");
  EightDevices e;
  for (const Mesh& m : {e.A(), e.D(), Mesh(), Mesh(DeviceArray(e.list({5}), {}), AxisNames{}),
                        make_mesh({2, 4}, {"a b:1", ""}), Mesh({3, 2, 1, 0}, {2, 2})}) {
    EXPECT_EQ(deserialize_mesh(serialize(m), e.client).identity(), m.identity()) << serialize(m);
  }
  auto small = Client::cpu({.devices = 4});
  EXPECT_ERROR(ValueError, deserialize_mesh(serialize(e.A()), small), "4", "0..3");
  std::string text = serialize(e.A());
  EXPECT_ERROR(FormatError, deserialize_mesh(text + " 8", e.client), "column");
  for (std::size_t n = 0; n < text.size(); ++n) {
    EXPECT_THROW(deserialize_mesh(text.substr(0, n), e.client), ValueError) << n;
  }
}

TEST(Mesh, FromIds) {
  TESSERA_SPEC("T1", "T10", "T12", "T13", "T15");
  EightDevices e;
  Mesh m({0, 1, 2, 3, 4, 5, 6, 7}, {4, 2}, {"x", "y"});
  EXPECT_EQ(m, e.A());
  EXPECT_EQ(to_string(m.device_ids()), "[[0, 1], [2, 3], [4, 5], [6, 7]]");
  std::vector<int> ids{3, 1, 0, 2, 7, 5, 6, 4};
  Mesh p(ids, {2, 2, 2}, std::vector<std::string>{"x", "y", "z"});
  EXPECT_EQ(to_string(p.logical_mesh()), "[[[3, 1], [0, 2]], [[7, 5], [6, 4]]]");
  EXPECT_EQ(p.axis_index("z"), 2);
  EXPECT_EQ(p.axis_index("q"), std::nullopt);
  EXPECT_EQ(Mesh({0, 1, 2, 3, 4, 5, 6, 7}, {2, 1, 1, 1, 2, 1, 2}).size(), 8);
  EXPECT_EQ(Mesh({0}, Shape{}).size(), 1);
  EXPECT_EQ(Mesh(ids, {2, 4}), Mesh(ids, {2, 4}));
  EXPECT_NE(Mesh(ids, {2, 4}), Mesh(ids, {4, 2}));
  EXPECT_NE(Mesh(ids, {2, 4}), Mesh(ids, {2, 4}, {"0", "1"}));
}

TEST(Mesh, UnnamedAxesAreNumbers) {
  TESSERA_SPEC("T11", "T14");
  EightDevices e;
  Mesh m({7, 6, 5, 4, 3, 2, 1, 0}, {2, 4});
  EXPECT_FALSE(m.has_names());
  EXPECT_TRUE(m.axis_names().empty());
  EXPECT_EQ(m.shape(), (OrderedMap<std::string, std::int64_t>{{"0", 2}, {"1", 4}}));
  EXPECT_EQ(m.axis_size(1), 4);
  EXPECT_EQ(m.axis_index("x"), std::nullopt);
  EXPECT_EQ(m.axis_index(2), std::nullopt);
  EXPECT_EQ(m.axis_index(-1), std::nullopt);
  EXPECT_EQ(m.flat_ids(), (std::vector<std::int64_t>{7, 6, 5, 4, 3, 2, 1, 0}));
  EXPECT_EQ(m.mesh_shape(), (Shape{2, 4}));
  EXPECT_EQ(to_string(m), "Mesh(0: 2, 1: 4)");
}

TEST(Mesh, IdsAreChecked) {
  TESSERA_SPEC("T2", "T3", "T4", "T5", "T6", "T7", "T8");
  EightDevices e;
  auto eight = {0, 1, 2, 3, 4, 5, 6, 7};
  std::vector<int> ids(eight);
  EXPECT_ERROR(ValueError, Mesh(ids, {2, 4}, {"x"}), "axis_names", "1", "2");
  EXPECT_ERROR(ValueError, Mesh(ids, {2, 4}, {"x", "y", "z"}), "axis_names", "3", "2");
  EXPECT_ERROR(DuplicateAxisError, Mesh(ids, {2, 4}, {"x", "x"}), "axis_names", "x", "unique");
  EXPECT_ERROR(ValueError, Mesh(ids, {2, 2}), "device_ids", "8", "4");
  EXPECT_ERROR(ValueError, Mesh({0, 1, 2, 3}, {2, 4}), "device_ids", "4", "8");
  EXPECT_ERROR(ValueError, Mesh({0, 0, 2, 3, 4, 5, 6, 7}, {2, 4}), "device_ids", "0", "unique");
  EXPECT_ERROR(ValueError, Mesh({0, 1, 2, 3, 4, 5, 6, 8}, {2, 4}), "device_ids", "8", "0..7");
  EXPECT_ERROR(ValueError, Mesh({-1, 1, 2, 3, 4, 5, 6, 7}, {2, 4}), "device_ids", "-1", "0..7");
  EXPECT_ERROR(ValueError, Mesh(std::vector<int>{}, {0}), "mesh_shape", "0");
  EXPECT_ERROR(ValueError, Mesh(std::vector<int>{}, {2, 0}), "mesh_shape", "0");
  EXPECT_ERROR(ValueError, Mesh(ids, {-2, -4}), "mesh_shape", "-2");
  std::int64_t big = std::int64_t{1} << 40;
  EXPECT_ERROR(ValueError, Mesh(ids, {big, big}), "mesh_shape");
  EXPECT_ERROR(ValueError, Mesh(std::vector<int>{}, Shape{}), "device_ids", "0", "1");
  EXPECT_EQ(Mesh({0}, Shape{}).ndim(), 0);
}

TEST(Mesh, MakeMeshNeedsAllDevices) {
  EightDevices e;
  EXPECT_ERROR(ValueError, make_mesh({4, 4}, {"x", "y"}), "(4, 4)", "16", "8");
  Mesh some = make_mesh({2, 2}, {"x", "y"});
  EXPECT_EQ(repr(some), "Mesh(device_ids=[[0, 1], [2, 3]], axis_names=('x', 'y'))");
}

}  // namespace
}  // namespace tessera
