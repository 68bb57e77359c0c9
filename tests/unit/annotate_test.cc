// SPDX-License-Identifier: Apache-2.0
// Annotations, one requirement of the specification after the other.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <thread>

#include "mesh/client_state.h"
#include "support/meshes.h"
#include "support/spec_report.h"
#include "tessera/tessera.h"

namespace tessera::test {
namespace {

HostArray counted(const Shape& shape) {
  std::vector<float> v(static_cast<std::size_t>(size_of(shape)));
  for (std::size_t i = 0; i < v.size(); ++i) v[i] = static_cast<float>(i);
  return HostArray::from(v, shape);
}
std::vector<std::int64_t> eight() { return {0, 1, 2, 3, 4, 5, 6, 7}; }
Mesh mesh_xy(const Shape& shape, const AxisNames& names = {"x", "y"}) {
  auto ids = eight();
  return Mesh(std::span<const std::int64_t>(ids), shape, names);
}
int count(const std::string& text, const std::string& word) {
  int n = 0;
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + word.size())) ++n;
  return n;
}
std::string v1(const Array& a) {
  auto s = op_sharding(a);
  return s ? s->hlo_v1() : "none";
}

TEST(Annotate, GlobalMesh) {
  TESSERA_SPEC("T17", "T18", "T19");
  EightDevices e;
  set_global_mesh(std::nullopt);
  EXPECT_EQ(global_mesh(), std::nullopt);
  Mesh a = mesh_xy({2, 4});
  set_global_mesh(a);
  ASSERT_TRUE(global_mesh());
  EXPECT_EQ(*global_mesh(), a);
  EXPECT_EQ(global_mesh()->identity(), a.identity());
  EXPECT_EQ(to_string(*get_global_mesh()), to_string(a));
  Mesh b = mesh_xy({4, 2});
  set_global_mesh(b);
  EXPECT_EQ(*global_mesh(), b);
  // mark_sharding goes by its argument alone.
  EXPECT_EQ(v1(mark_sharding(ones({8, 8}), a, P("x", "y"))), "{devices=[2,4]0,1,2,3,4,5,6,7}");
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int k = 0; k < 100; ++k) {
        set_global_mesh(k % 2 == 0 ? a : b);
        auto m = global_mesh();
        EXPECT_TRUE(m && (*m == a || *m == b));
      }
    });
  }
  for (auto& t : threads) t.join();
  set_global_mesh(std::nullopt);
  EXPECT_EQ(global_mesh(), std::nullopt);
}

TEST(Annotate, OneDimensionalMesh) {
  TESSERA_SPEC("T20", "T108");
  ClientScope scope(Client::cpu({.devices = 4}));
  Mesh m = get_1d_mesh("data");
  EXPECT_EQ(m.mesh_shape(), (Shape{4}));
  EXPECT_EQ(m.axis_names()[0], "data");
  EXPECT_EQ(m.flat_ids(), (std::vector<std::int64_t>{0, 1, 2, 3}));
  EXPECT_EQ(get_1d_mesh().shape(), (OrderedMap<std::string, std::int64_t>{{"0", 4}}));
  EXPECT_FALSE(get_1d_mesh().has_names());
  EXPECT_TRUE(get_1d_mesh("").has_names());
  EXPECT_EQ(global_device_count(), 4);
  EXPECT_EQ(default_device(), devices()[0]);
  for (const Client& c : cluster_clients(2, 4)) {
    ClientScope process(c);
    EXPECT_EQ(get_1d_mesh("d").mesh_shape(), (Shape{8}));
    EXPECT_EQ(global_device_count(), 8);
    EXPECT_EQ(device_attributes()[5].process_index, 1);
  }
}

TEST(Annotate, MeshesCompareByValue) {
  TESSERA_SPEC("T9", "T15", "T16");
  static_assert(!std::is_constructible_v<Mesh, std::vector<std::vector<int>>, Shape>, "ids are a flat list");
  EightDevices e;
  EXPECT_EQ(mesh_xy({2, 4}), mesh_xy({2, 4}));
  EXPECT_NE(mesh_xy({2, 4}), mesh_xy({4, 2}));
  EXPECT_EQ(std::hash<Mesh>{}(mesh_xy({2, 4})), std::hash<Mesh>{}(mesh_xy({2, 4})));
  Mesh unnamed = mesh_xy({2, 4}, std::nullopt);
  EXPECT_EQ(v1(mark_sharding(ones({8, 8}), unnamed, P(1, 0))), "{devices=[4,2]0,4,1,5,2,6,3,7}");
  EXPECT_EQ(NamedSharding(unnamed, P(0, 1)).shard_shape({8, 8}), (Shape{4, 2}));
}

TEST(Annotate, EagerIsPlacement) {
  TESSERA_SPEC("T65", "T69");
  EightDevices e;
  Mesh mesh = mesh_xy({4, 2});
  Array x = device_put(counted({8, 32}));
  Array y = mark_sharding(x, mesh, P(0, None));
  EXPECT_EQ(y.addressable_shards()[0].value().shape(), (Shape{2, 32}));
  EXPECT_EQ(y.addressable_shards()[1].replica_id(), 1);
  EXPECT_TRUE(identical(y.host(), x.host()));
  EXPECT_FALSE(is_annotated(x));
  EXPECT_EQ(mark_sharding(ones({32, 10}), mesh, P(None, 1)).addressable_shards()[0].value().shape(), (Shape{32, 5}));
  Array scalar = mark_sharding(Array(1.0), mesh, P());
  EXPECT_EQ(v1(scalar), "{replicated}");
  ASSERT_EQ(scalar.addressable_shards().size(), 8U);
  for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(scalar.addressable_shards()[i].replica_id(), static_cast<int>(i));
  EXPECT_EQ(scalar.addressable_shards()[7].value().shape(), Shape{});
  EXPECT_ERROR(ValueError, mark_sharding(Array(1.0), mesh, P("x")), "partition_spec", "1", "0");
}

TEST(Annotate, TheWholeMachine) {
  TESSERA_SPEC("T66", "T67", "T68");
  EightDevices e;
  Mesh part({0, 1, 2, 3}, {2, 2}, {"x", "y"});
  EXPECT_ERROR(ValueError, mark_sharding(ones({8, 8}), part, P("x", "y")), "mesh", "(2, 2)", "8");
  EXPECT_EQ(device_put(ones({8, 8}), NamedSharding(part, P("x", "y"))).addressable_shards().size(), 4U);
  Mesh all = mesh_xy({2, 4});
  EXPECT_ERROR(ValueError, mark_sharding(ones({16, 4}), all, P("x")), "partition_spec", "1", "2");
  EXPECT_ERROR(ValueError, mark_sharding(ones({16}), all, P()), "partition_spec", "0", "1");
  Array x = ones({8, 8});
  ClientScope none_there(mesh::make_client("mock", "MockDevice", 0, 1, {}));
  EXPECT_ERROR(ValueError, mark_sharding(x, all, P("x", "y")), "devices", "0", "at least 1");
}

TEST(Annotate, UnevenInBothWorlds) {
  TESSERA_SPEC("T70", "T77", "T78");
  EightDevices e;
  Mesh mesh = mesh_xy({2, 4});
  std::vector<std::int32_t> v(35);
  for (int i = 0; i < 35; ++i) v[static_cast<std::size_t>(i)] = i;
  Array a = mark_sharding(device_put(HostArray::from(v, {7, 5})), mesh, P("x", "y"));
  const Shard& two = a.addressable_shards()[2];
  EXPECT_EQ(two.padded().to_vector<std::int32_t>(), (std::vector<std::int32_t>{4, 0, 9, 0, 14, 0, 19, 0}));
  EXPECT_EQ(two.padded().devices()[0], two.device());
  EXPECT_EQ(two.index(), (Index{{0, 4}, {4, 5}}));
  const Shard& three = a.addressable_shards()[3];
  EXPECT_EQ(three.index(), (Index{{0, 4}, {5, 5}}));
  EXPECT_EQ(three.padded().to_vector<std::int32_t>(), std::vector<std::int32_t>(8, 0));
  EXPECT_EQ(three.unpadded().shape(), (Shape{4, 0}));
  EXPECT_EQ(a.addressable_shards()[7].unpadded().shape(), (Shape{3, 0}));
  EXPECT_THROW(device_put(a, NamedSharding(mesh, P("x", "y"))), IndivisibleError);
  auto f = jit([&](Array x) { return mark_sharding(x * 2, mesh, P("x", "y")); });
  EXPECT_EQ(f(device_put(HostArray::from(v, {7, 5}))).to_vector<std::int32_t>()[34], 68);
  EXPECT_EQ(mark_sharding(zeros({0, 8}), mesh, P("x", "y")).addressable_shards()[0].padded().shape(), (Shape{0, 2}));
  Array whole = mark_sharding(ones({3, 3}), mesh, P(None, None));
  ASSERT_EQ(whole.addressable_shards().size(), 8U);
  for (std::size_t i = 0; i < 8; ++i) {
    const Shard& s = whole.addressable_shards()[i];
    EXPECT_EQ(s.value().shape(), (Shape{3, 3}));
    EXPECT_TRUE(s.index()[0].is_full() && s.index()[1].is_full());
    EXPECT_EQ(s.replica_id(), static_cast<int>(i));
  }
}

TEST(Annotate, Again) {
  TESSERA_SPEC("T71");
  EightDevices e;
  Mesh mesh = mesh_xy({2, 4});
  Array x = device_put(counted({8, 8}));
  Array a = mark_sharding(x, mesh, P("x", "y"));
  std::int64_t before = transfer_stats().bytes;
  Array b = mark_sharding(a, mesh, P("x", "y"));
  EXPECT_EQ(transfer_stats().bytes, before);
  for (std::size_t i = 0; i < 8; ++i) {
    EXPECT_EQ(a.addressable_shards()[i].value().host().data(), b.addressable_shards()[i].value().host().data());
  }
  Array c = mark_sharding(a, mesh, P("y", "x"));
  EXPECT_EQ(v1(c), "{devices=[4,2]0,4,1,5,2,6,3,7}");
  EXPECT_TRUE(identical(c.host(), x.host()));
  auto f = jit([&](Array v) { return mark_sharding(mark_sharding(v * 2, mesh, P("x", "y")), mesh, P("y", "x")); });
  std::string text = f.trace(x).text();
  EXPECT_EQ(count(text, "sharding_constraint"), 2) << text;
  EXPECT_EQ(v1(f(x)), "{devices=[4,2]0,4,1,5,2,6,3,7}");
}

TEST(Annotate, OnlyWhatWasNamed) {
  TESSERA_SPEC("T45", "T72");
  EightDevices e;
  Mesh mesh = mesh_xy({2, 4});
  auto f = jit([&](Array x) {
    auto [values, indices] = lax::top_k(x, 2);
    Array marked = mark_sharding(values, mesh, P("x", none));
    EXPECT_EQ(sharding_type(marked), ShardingType::PARTIAL);
    EXPECT_FALSE(is_annotated(values));
    EXPECT_EQ(sharding_type(indices), std::nullopt);
    return std::pair(marked, indices);
  });
  f(device_put(counted({8, 8})));
  EXPECT_EQ(sharding_type(ones({4})), std::nullopt);
  EXPECT_FALSE(is_annotated(3.0));
  Array x = ones({8, 8});
  Array marked = mark_sharding(x, mesh, P("x", "y"));
  EXPECT_EQ(v1(copy(marked)), v1(marked));
  auto plus = jit([](Array a) { return a + 0; });
  plus(x);
  plus(marked);
  plus(marked);
  EXPECT_EQ(plus.stats().compiles, 2);
  EXPECT_ERROR(ValueError, OpSharding(ShardingType::TUPLE, {}), "TUPLE");
  EXPECT_ERROR(ValueError, OpSharding(ShardingType::UNKNOWN, {}), "UNKNOWN");
}

TEST(Annotate, GradientsGetTheConstraintToo) {
  TESSERA_SPEC("T73");
  EightDevices e;
  Mesh mesh = mesh_xy({2, 4});
  auto loss = [&](Array x) {
    Array y = mark_sharding_with_gradients(2.0 * x, mesh, P("x", "y"));
    return sum(y * y);
  };
  auto g = jit([&](Array x) { return grad(loss)(x); });
  Array x = device_put(counted({8, 8}));
  std::string text = g.trace(x).text();
  EXPECT_EQ(count(text, "sharding_constraint"), 2) << text;
  auto got = g(x).to_vector<float>();
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i], 8.0F * static_cast<float>(i));
}

TEST(Annotate, Clear) {
  TESSERA_SPEC("T75", "T76");
  EightDevices e;
  Mesh mesh = mesh_xy({2, 4});
  Array x = device_put(counted({8, 8}));
  Array a = mark_sharding(x, mesh, P("x", "y"));
  Array c = clear_sharding(a);
  EXPECT_FALSE(is_annotated(c));
  EXPECT_FALSE(c.committed());
  EXPECT_EQ(c.devices().size(), 1U);
  EXPECT_EQ(c.dtype(), a.dtype());
  EXPECT_TRUE(identical(c.host(), x.host()));
  EXPECT_TRUE(is_annotated(a));
  EXPECT_EQ(clear_sharding(x).impl(), x.impl());
  EXPECT_EQ(v1(mark_sharding(c, mesh, P("y", "x"))), "{devices=[4,2]0,4,1,5,2,6,3,7}");
  auto f = jit([&](Array v) { return clear_sharding(mark_sharding(v * 2, mesh, P("x", "y"))) + 1; });
  EXPECT_EQ(count(f.trace(x).text(), "sharding_constraint"), 0);
  EXPECT_EQ(f(x).to_vector<float>()[3], 7.0F);
  // What is no array passes through.
  EXPECT_EQ(wrap_if_sharded(3), 3);
  EXPECT_EQ(unwrap_sharded_tensor(std::string("host")), "host");
  ShardedTensor w = wrap_as_sharded_tensor(a);
  EXPECT_EQ(wrap_as_sharded_tensor(w).array().impl(), a.impl());
  EXPECT_EQ(unwrap_sharded_tensor(w).impl(), a.impl());
  EXPECT_EQ(w.sharding_type(), ShardingType::TILED);
  EXPECT_EQ(w.sharding_spec(), "{devices=[2,4]0,1,2,3,4,5,6,7}");
  EXPECT_ERROR(ValueError, wrap_as_sharded_tensor(x), "annotation");
}

TEST(Annotate, ClearOverProcesses) {
  auto clients = cluster_clients(2, 4);
  std::vector<std::thread> threads;
  for (const Client& c : clients) {
    threads.emplace_back([&] {
      ClientScope scope(c);
      Array a = mark_sharding(device_put(counted({8, 2})), get_1d_mesh("d"), P("d", none));
      Array b = clear_sharding(a);
      EXPECT_FALSE(is_annotated(b));
      EXPECT_TRUE(identical(b.host(), counted({8, 2})));
    });
  }
  for (auto& t : threads) t.join();
}

TEST(Annotate, ShardsAreReplacedInPlace) {
  TESSERA_SPEC("T77", "T80");
  EightDevices e;
  std::vector<std::int64_t> ids{7, 6, 5, 4, 3, 2, 1, 0};
  Mesh mesh(std::span<const std::int64_t>(ids), {2, 4}, {"x", "y"});
  ShardedTensor t = wrap_as_sharded_tensor(mark_sharding(device_put(counted({7, 5})), mesh, P("x", "y")));
  Array before = t;
  auto shards = t.local_shards();
  ASSERT_EQ(shards.size(), 8U);
  for (std::size_t i = 0; i < 8; ++i) {
    EXPECT_EQ(shards[i].device().id(), static_cast<std::int64_t>(i));
    EXPECT_EQ(shards[i].data().shape(), (Shape{4, 2}));
    HostArray doubled = shards[i].unpadded();
    for (float& f : doubled.span<float>()) f *= 2;
    shards[i].set_unpadded(doubled);
  }
  EXPECT_EQ(shards[5].data().to_vector<float>(), (std::vector<float>{8, 0, 18, 0, 28, 0, 38, 0}));
  t.load_local_shards(shards);
  auto got = t.array().to_vector<float>();
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i], 2.0F * static_cast<float>(i));
  EXPECT_EQ(before.to_vector<float>()[3], 3.0F);
  EXPECT_EQ(t.sharding_spec(), "{devices=[2,4]7,6,5,4,3,2,1,0}");
  shards.pop_back();
  EXPECT_ERROR(ValueError, t.load_local_shards(shards), "7", "8");
  EXPECT_ERROR(ValueError, shards[0].set_unpadded(counted({4, 2})), "(4, 2)", "(3, 0)");
}

TEST(Annotate, MillionDeviceSharding) {
  TESSERA_SPEC("T60");
  ClientScope scope(Client::cpu({.devices = 1 << 20}));
  Mesh mesh = make_mesh({1024, 1024}, {"x", "y"});
  auto begin = std::chrono::steady_clock::now();
  const OpSharding& s = mesh.op_sharding(P("y", "x"));
  EXPECT_EQ(s.hlo_v2(), "{devices=[1024,1024]<=[1024,1024]T(1,0)}");
  EXPECT_EQ(&mesh.op_sharding(P(1, 0)), &s);
  EXPECT_EQ(OpSharding(mesh, P("y", "x")), s);
  EXPECT_EQ(OpSharding(mesh, P("y", "x")).hash(), s.hash());
  auto end = std::chrono::steady_clock::now();
  std::printf("1024x1024: sharding, text, equality and hash in %.1f us\n",
              std::chrono::duration<double, std::micro>(end - begin).count());
}

TEST(Annotate, CacheIsSharedBetweenThreads) {
  TESSERA_SPEC("T61", "T62");
  EightDevices e;
  Mesh mesh = mesh_xy({2, 4});
  const OpSharding* first = &mesh.op_sharding(P("x", axes("y")));
  std::int64_t built = annotation_stats().op_shardings_built;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int k = 0; k < 50; ++k) EXPECT_EQ(&mesh.op_sharding(P(0, "y")), first);
    });
  }
  for (auto& t : threads) t.join();
  EXPECT_EQ(annotation_stats().op_shardings_built, built);
  EXPECT_EQ(mesh.op_sharding(P()).sharding_type(), ShardingType::REPLICATED);
  EXPECT_EQ(mesh.op_sharding(P()).tile_assignment().size(), 0);
  EXPECT_TRUE(mesh.op_sharding(P()).replication_groups().empty());
}

TEST(Annotate, Counters) {
  TESSERA_SPEC("T107", "T109");
  EightDevices e;
  use_spmd();
  EXPECT_TRUE(is_spmd());
  Mesh mesh = mesh_xy({1, 8});
  Array x = device_put(counted({1, 16}));
  AnnotationStats a = annotation_stats();
  mark_sharding(x, mesh, P("x", "y"));
  AnnotationStats b = annotation_stats();
  EXPECT_EQ(b.annotations - a.annotations, 1);
  EXPECT_EQ(b.bytes_placed - a.bytes_placed, 64);
  EXPECT_EQ(b.bytes_copied - a.bytes_copied, 64);
  mark_sharding(x, mesh, P(none, none));
  AnnotationStats c = annotation_stats();
  EXPECT_EQ(c.bytes_placed - b.bytes_placed, 512);
  EXPECT_LE(c.bytes_copied - b.bytes_copied, 64);
}

}  // namespace
}  // namespace tessera::test
