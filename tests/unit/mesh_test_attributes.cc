// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "support/meshes.h"
#include "support/spec_report.h"
#include "tessera/error.h"
#include "tessera/mesh.h"
#include "tessera/sharding.h"

namespace tessera {
namespace {

using test::EightDevices;
using test::mesh_of;

std::vector<std::int64_t> ids(std::span<const Device> devices) {
  std::vector<std::int64_t> out;
  for (const auto& d : devices) out.push_back(d.id());
  return out;
}
using Ids = std::vector<std::int64_t>;

TEST(MeshAttributes, SizeAndEmptiness) {
  TESSERA_SPEC("M19", "M20");
  EightDevices e;
  EXPECT_EQ(e.A().size(), 8);
  EXPECT_EQ(Mesh({e.d(3)}, "x").size(), 1);
  EXPECT_EQ(Mesh().size(), 0);
  EXPECT_EQ(Mesh(DeviceArray(e.list({0}), {}), AxisNames{}).size(), 1);
  EXPECT_FALSE(Mesh(DeviceArray(e.list({0}), {}), AxisNames{}).empty());
  EXPECT_TRUE(Mesh{}.empty());
  EXPECT_TRUE(Mesh{}.axis_names().empty());
  EXPECT_TRUE(Mesh{}.shape_tuple().empty());
  Mesh none({}, "x");
  EXPECT_TRUE(none.empty());
  EXPECT_EQ(none.size(), 0);
  EXPECT_EQ(none.axis_size("x"), 0);
}

TEST(MeshAttributes, DeviceIds) {
  TESSERA_SPEC("M21");
  EightDevices e;
  EXPECT_EQ(to_string(e.A().device_ids()), "[[0, 1], [2, 3], [4, 5], [6, 7]]");
  Mesh reversed(DeviceArray(e.list({7, 6, 5, 4, 3, 2, 1, 0}), {4, 2}), {"x", "y"});
  EXPECT_EQ(to_string(reversed.device_ids()), "[[7, 6], [5, 4], [3, 2], [1, 0]]");
  EXPECT_EQ(&reversed.device_ids(), &reversed.device_ids());
  EXPECT_ERROR(StateError, Mesh().device_ids(), "device_ids", "empty");
}

TEST(MeshAttributes, LocalDevicesKeepMeshOrder) {
  TESSERA_SPEC("M22", "M23");
  auto c = test::cluster_clients(2, 4);
  auto a = [&](int p) { return mesh_of(c[static_cast<std::size_t>(p)], {0, 1, 2, 3, 4, 5, 6, 7}, {4, 2}, {"x", "y"}); };
  EXPECT_EQ(ids(a(1).local_devices()), (Ids{4, 5, 6, 7}));
  Mesh t(a(0).devices().reshape({2, 4}).transpose({1, 0}), {"x", "y"});
  EXPECT_EQ(to_string(t.device_ids()), "[[0, 4], [1, 5], [2, 6], [3, 7]]");
  EXPECT_EQ(ids(t.local_devices()), (Ids{0, 1, 2, 3}));
  EXPECT_TRUE(a(0).is_multi_process());
  EXPECT_TRUE(a(1).is_multi_process());
  EXPECT_FALSE(mesh_of(c[0], {0, 1, 2, 3}, {4}, "x").is_multi_process());
  EXPECT_TRUE(mesh_of(c[1], {0, 1, 2, 3}, {4}, "x").is_multi_process());
  EightDevices e;
  Mesh reversed(DeviceArray(e.list({7, 6, 5, 4, 3, 2, 1, 0}), {8}), "x");
  EXPECT_EQ(ids(reversed.local_devices()), (Ids{7, 6, 5, 4, 3, 2, 1, 0}));
  EXPECT_FALSE(e.A().is_multi_process());
  EXPECT_TRUE(Mesh().local_devices().empty());
  EXPECT_FALSE(Mesh().is_multi_process());
}

TEST(MeshAttributes, LocalMeshIsTheSubBlock) {
  TESSERA_SPEC("M24");
  auto c = test::cluster_clients(2, 4);
  for (const Client& k : c) {
    auto shape = [&](std::initializer_list<std::int64_t> list, const Shape& s) {
      std::vector<std::string> names{"x", "y", "z"};
      names.resize(s.size());
      return mesh_of(k, list, s, names).local_mesh().mesh_shape();
    };
    EXPECT_EQ(shape({0, 1, 2, 3, 4, 5, 6, 7}, {4, 2}), (Shape{2, 2}));
    EXPECT_EQ(shape({0, 1, 2, 3, 4, 5, 6, 7}, {2, 2, 2}), (Shape{1, 2, 2}));
    EXPECT_EQ(shape({0, 1, 2, 3, 4, 5, 6, 7}, {2, 4}), (Shape{1, 4}));
    EXPECT_EQ(shape({0, 4, 1, 5, 2, 6, 3, 7}, {4, 2}), (Shape{4, 1}));
    EXPECT_EQ(shape({0, 1, 4, 5}, {2, 2}), (Shape{1, 2}));
  }
  Mesh a = mesh_of(c[0], {0, 1, 2, 3, 4, 5, 6, 7}, {4, 2}, {"x", "y"});
  EXPECT_EQ(to_string(a.local_mesh(1).device_ids()), "[[4, 5], [6, 7]]");
  EXPECT_EQ(a.local_mesh().axis_names()[1], "y");
  for (const Client& k : test::cluster_clients(4, 2)) {
    EXPECT_EQ(mesh_of(k, {0, 1, 2, 3, 4, 5, 6, 7}, {2, 4}, {"x", "y"}).local_mesh().mesh_shape(), (Shape{1, 2}));
    EXPECT_EQ(mesh_of(k, {0, 1, 2, 3, 4, 5, 6, 7}, {2, 2, 2}, {"x", "y", "z"}).local_mesh().mesh_shape(),
              (Shape{1, 1, 2}));
  }
}

TEST(MeshAttributes, LocalMeshMustBeContiguous) {
  TESSERA_SPEC("M25", "M26");
  for (const Client& k : test::cluster_clients(2, 4)) {
    std::string process = "process " + std::to_string(k.process_index());
    EXPECT_ERROR(ValueError, mesh_of(k, {0, 4, 1, 5, 2, 6, 3, 7}, {8}, "x").local_mesh(), process,
                 "contiguous sub-block", "'x': 8");
    EXPECT_ERROR(ValueError, mesh_of(k, {0, 1, 2, 4, 3, 5, 6, 7}, {2, 4}, {"x", "y"}).local_mesh(), process,
                 "contiguous");
    EXPECT_ERROR(ValueError, mesh_of(k, {0, 4, 5, 1}, {2, 2}, {"x", "y"}).local_mesh(), process, "position [0, ");
    if (k.process_index() == 1) {
      EXPECT_ERROR(ValueError, mesh_of(k, {0, 1, 2, 3}, {4}, "x").local_mesh(), "process 1 owns no device of this mesh",
                   "'x': 4");
    }
  }
}

TEST(MeshAttributes, TrivialLocalMeshes) {
  TESSERA_SPEC("M27");
  EightDevices e;
  EXPECT_EQ(e.A().local_mesh().identity(), e.A().identity());
  EXPECT_EQ(Mesh().local_mesh(), Mesh());
}

TEST(MeshAttributes, LocalMeshCacheIsBounded) {
  TESSERA_SPEC("M28");
  EightDevices e;
  clear_caches();
  Mesh a = e.A();
  a.local_mesh();
  a.local_mesh();
  EXPECT_EQ(cache_stats(CacheId::LocalMesh), (CacheStats{1, 1, 1}));
  for (int i = 0; i < 200; ++i) Mesh(e.A().devices(), {"x", std::to_string(i)}).local_mesh();
  EXPECT_EQ(cache_stats(CacheId::LocalMesh).misses, 201);
  EXPECT_LE(cache_stats(CacheId::LocalMesh).entries, 128);
  EXPECT_GE(cache_stats(CacheId::LocalMesh).entries, 100);
}

TEST(MeshAttributes, DerivedListsAreShared) {
  TESSERA_SPEC("M29", "M30");
  EightDevices e;
  Mesh a = e.A();
  auto before = device_sets_built();
  for (int i = 0; i < 100; ++i) {
    NamedSharding s(a, i % 2 == 0 ? P("x") : P("y"));
    EXPECT_TRUE(s.device_set().contains(e.d(3)));
    EXPECT_EQ(s.device_set().size(), 8u);
  }
  EXPECT_EQ(device_sets_built() - before, 1);
  EXPECT_EQ(a.device_set().size(), 8u);
  const DeviceSet all = a.device_set();  // of a temporary one the devices would be copies
  EXPECT_EQ(a.devices_flat().data(), all.devices().data());
  EXPECT_EQ(a.device_list(), e.A24().device_list());
  EXPECT_FALSE(a.device_set().contains(Client::cpu({.devices = 8}).device(3)));
  auto c = test::cluster_clients(2, 4);
  Mesh m = mesh_of(c[0], {0, 1, 2, 3, 4, 5, 6, 7}, {8}, "x");
  EXPECT_EQ(m.local_device_set().size(), 4u);
  EXPECT_FALSE(m.local_device_set().contains(c[0].device(5)));
  EXPECT_TRUE(a.is_device_mesh());
  EXPECT_FALSE(a.abstract_mesh().is_device_mesh());
}

TEST(MeshAttributes, Texts) {
  TESSERA_SPEC("M31", "M32");
  EightDevices e;
  EXPECT_EQ(to_string(e.A()), "Mesh('x': 4, 'y': 2)");
  EXPECT_EQ(to_string(Mesh()), "Mesh()");
  EXPECT_EQ(repr(e.A()), "Mesh(device_ids=[[0, 1], [2, 3], [4, 5], [6, 7]], axis_names=('x', 'y'))");
  EXPECT_EQ(repr(Mesh()), "Mesh(device_ids=[], axis_names=())");
}

TEST(MeshAttributes, AbstractCounterpart) {
  TESSERA_SPEC("M33");
  EightDevices e;
  Mesh reversed(DeviceArray(e.list({7, 6, 5, 4, 3, 2, 1, 0}), {4, 2}), {"x", "y"});
  EXPECT_EQ(e.A().abstract_mesh(), reversed.abstract_mesh());
  EXPECT_EQ(e.A().abstract_mesh(), (AbstractMesh{{"x", 4}, {"y", 2}}));
  EXPECT_EQ(Mesh().abstract_mesh(), AbstractMesh());
  Mesh a = e.A();
  EXPECT_EQ(&a.abstract_mesh(), &a.abstract_mesh());
}

TEST(AbstractMesh, HasNamesAndSizesOnly) {
  TESSERA_SPEC("M51", "M52", "M53", "M54", "M55");
  EightDevices e;
  AbstractMesh m{{"x", 4}, {"y", 2}};
  EXPECT_EQ(m, AbstractMesh({4, 2}, {"x", "y"}));
  EXPECT_EQ(m, AbstractMesh(e.A().shape_tuple()));
  EXPECT_ERROR(ValueError, AbstractMesh({4, 2}, {"x"}), "2", "1");
  EXPECT_ERROR(DuplicateAxisError, AbstractMesh({4, 2}, {"x", "x"}), "axis_names", "x");
  EXPECT_ERROR(ValueError, AbstractMesh({4, 2}, {"x", std::nullopt}), "axis_names[1]");
  EXPECT_ERROR(ValueError, (AbstractMesh{{"x", 0}}), "x", "0");
  EXPECT_ERROR(ValueError, (AbstractMesh{{"x", -1}}), "x", "-1");
  EXPECT_EQ(m.axis_names()[1], "y");
  EXPECT_EQ(m.axis_sizes(), (Shape{4, 2}));
  EXPECT_EQ(*m.shape().find("x"), 4);
  EXPECT_EQ(m.shape_tuple()[1], (AxisSize{"y", 2}));
  EXPECT_EQ(m.size(), 8);
  EXPECT_FALSE(m.empty());
  EXPECT_EQ(&m.abstract_mesh(), &m);
  AbstractMesh again{{"x", 4}, {"y", 2}};
  EXPECT_EQ(m.hash(), again.hash());
  EXPECT_NE(m, AbstractMesh({2, 4}, {"x", "y"}));
  EXPECT_NE(m, AbstractMesh({4, 2}, {"y", "x"}));
  EXPECT_NE(m, AbstractMesh::unnamed({4, 2}));
  EXPECT_NE(AnyMesh(m), AnyMesh(e.A()));
  EXPECT_EQ(to_string(m), "AbstractMesh((('x', 4), ('y', 2)))");
  EXPECT_EQ(to_string(AbstractMesh()), "AbstractMesh(())");
  EXPECT_EQ(AbstractMesh().size(), 0);
  EXPECT_TRUE(AbstractMesh().empty());
  EXPECT_TRUE(AbstractMesh().axis_names().empty());
}

TEST(AbstractMesh, HasNoDevices) {
  TESSERA_SPEC("M56");
  AnyMesh m = AbstractMesh{{"x", 4}};
  EXPECT_ERROR(ValueError, m.devices(), "AbstractMesh has no devices", "concrete Mesh");
  EXPECT_ERROR(ValueError, m.device_ids(), "AbstractMesh has no device_ids; a concrete Mesh is needed");
  EXPECT_ERROR(ValueError, m.is_multi_process(), "is_multi_process");
  EXPECT_ERROR(ValueError, m.local_devices(), "local_devices");
  EXPECT_ERROR(ValueError, m.local_mesh(), "local_mesh");
  EXPECT_EQ(m.device_list(), nullptr);
}

TEST(AbstractMesh, CannotBeEntered) {
  TESSERA_SPEC("M57");
  static_assert(!std::is_constructible_v<MeshScope, AbstractMesh>);
  AnyMesh m = AbstractMesh{{"x", 4}};
  EXPECT_ERROR(StateError, MeshScope scope(m), "abstract", "entered or left");
  EXPECT_EQ(mesh_scope_depth(), 1u);
}

}  // namespace
}  // namespace tessera
