// SPDX-License-Identifier: Apache-2.0
// Several processes, simulated by threads: the checks that the specification marks [MP] and [MP4].
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <thread>

#include "support/meshes.h"
#include "support/spec_report.h"
#include "tessera/tessera.h"

namespace tessera::test {
namespace {

using Ints = std::vector<std::int32_t>;

HostArray iota(const Shape& shape, std::int32_t times = 1, std::int32_t plus = 0) {
  Ints v(static_cast<std::size_t>(size_of(shape)));
  for (std::size_t i = 0; i < v.size(); ++i) v[i] = static_cast<std::int32_t>(i) * times + plus;
  return HostArray::from(v, shape);
}
Ints values(const Array& a) { return a.to_vector<std::int32_t>(); }
Ints shard(const Array& a, std::size_t i) { return values(a.addressable_shards()[i].value()); }

// One process's view.
struct Process {
  Client client;
  int p;
  Mesh mesh(const Shape& sizes, const AxisNames& names) const { return make_mesh(sizes, names, client.devices()); }
  Mesh of(std::initializer_list<std::int64_t> ids, const Shape& shape, const AxisNames& names) const {
    return mesh_of(client, ids, shape, names);
  }
  Mesh A() const { return mesh({4, 2}, {"x", "y"}); }
  Mesh A24() const { return mesh({2, 4}, {"x", "y"}); }
  Mesh B() const { return mesh({2, 2, 2}, {"x", "y", "z"}); }
  Mesh L8() const { return mesh({8}, "x"); }
  Mesh T() const { return of({0, 4, 1, 5, 2, 6, 3, 7}, {4, 2}, {"x", "y"}); }
};

// Runs the processes of a cluster, each on a thread of its own.
void cluster(int processes, std::int64_t devices_each, const std::function<void(const Process&)>& body) {
  auto clients = cluster_clients(processes, devices_each);
  std::vector<std::thread> threads;
  for (int p = 0; p < processes; ++p) {
    threads.emplace_back([&, p] {
      ClientScope scope(clients[static_cast<std::size_t>(p)]);
      try {
        body({clients[static_cast<std::size_t>(p)], p});
      } catch (const std::exception& e) {
        ADD_FAILURE() << "process " << p << ": " << e.what();
      }
    });
  }
  for (auto& t : threads) t.join();
}

const HostArray X = iota({8, 2});

TEST(Cluster, ShardsOfOtherProcesses) {
  TESSERA_SPEC("G30", "G31", "G33", "G43", "G47", "G48", "A27", "A28", "G20");
  cluster(2, 4, [](const Process& at) {
    GlobalArray g = device_put(X, NamedSharding(at.A(), P("x", "y")));
    ShardList all = g.global_shards();
    ASSERT_EQ(all.size(), 8U);
    EXPECT_EQ(g.global_shards().data(), all.data());
    EXPECT_EQ(g.local_shards().size(), 4U);
    for (std::size_t i = 0; i < 8; ++i) {
      EXPECT_EQ(all[i].device().id(), static_cast<std::int64_t>(i));
      EXPECT_EQ(all[i].data().has_value(), (i < 4) == (at.p == 0));
      EXPECT_EQ(all[i].data().has_value(), all[i].device().process_index() == g.process_index());
    }
    const Shard& remote = all.at(at.p == 0 ? 7 : 0);
    EXPECT_ERROR(StateError, remote.value(), at.p == 0 ? "process 1" : "process 0", "id=");
    if (at.p == 0) {
      EXPECT_NE(to_string(remote).find("index=(slice(6, 8, None), slice(1, 2, None)), replica_id=0, data=None"),
                std::string::npos)
          << to_string(remote);
      EXPECT_EQ(all[3].index(), (Index{Slice{2, 4}, Slice{1, 2}}));
      EXPECT_EQ(values(all[3].value()), (Ints{5, 7}));
    }
    EXPECT_THROW(g.local_shards().at(4), IndexError);

    Array rows = device_put(X, NamedSharding(at.A(), P("x")));
    auto shards = rows.addressable_shards();
    EXPECT_EQ(rows.addressable_shards().data(), shards.data());
    for (std::size_t i = 0; i < 4; ++i) {
      auto row = 4 * at.p + static_cast<int>(i / 2) * 2;
      EXPECT_EQ(shards[i].device().id(), 4 * at.p + static_cast<int>(i));
      EXPECT_EQ(*shards[i].index()[0].start, row);
      EXPECT_EQ(shards[i].replica_id(), static_cast<int>(i % 2));
    }
    auto replicas = [&](const P& spec) {
      std::vector<int> out;
      Array placed = device_put(X, NamedSharding(at.A(), spec));
      for (const auto& s : placed.addressable_shards()) out.push_back(s.replica_id());
      return out;
    };
    if (at.p == 1) {
      EXPECT_EQ(replicas(P("y")), (std::vector<int>{2, 2, 3, 3}));
      EXPECT_EQ(replicas(P()), (std::vector<int>{4, 5, 6, 7}));
      EXPECT_EQ(replicas(P("x")), (std::vector<int>{0, 1, 0, 1}));
    }
  });
}

TEST(Cluster, ReadingValues) {
  TESSERA_SPEC("A30", "A31", "A46", "A48", "A2", "A17", "A21", "A22");
  cluster(2, 4, [](const Process& at) {
    auto put = [&](const P& spec) { return device_put(X, NamedSharding(at.A(), spec)); };
    EXPECT_TRUE(identical(put(P()).host(), X));
    EXPECT_TRUE(identical(put(P("y")).host(), X));
    for (const P& spec : {P("x"), P("x", "y"), P(axes("x", "y"))}) {
      EXPECT_ERROR(NotAddressableError, put(spec).host(), "(8, 2)", "process_allgather", "addressable_shards",
                   at.p == 0 ? "4" : "0");
    }
    Array a = put(P("x", "y"));
    EXPECT_EQ(to_string(a), "Array(shape=(8, 2), dtype=int32)");
    EXPECT_EQ(kind(a), ArrayKind::MultiProcess);
    EXPECT_EQ(a.device_set().size(), 8U);
    EXPECT_EQ(a.sharding()->addressable_devices().size(), 4U);
    EXPECT_FALSE(a.is_fully_addressable());
    EXPECT_TRUE(put(P()).is_fully_replicated());
    EXPECT_FALSE(put(P()).is_fully_addressable());
    Array next = a + 1;
    for (std::size_t i = 0; i < 4; ++i) {
      auto first = 8 * at.p + static_cast<std::int32_t>(i / 2 * 4 + i % 2);
      EXPECT_EQ(shard(a, i), (Ints{first, first + 2}));
      EXPECT_EQ(shard(next, i), (Ints{first + 1, first + 3}));
    }
    EXPECT_ERROR(ValueError, device_put(a, at.client.local_devices()[0]), "several processes");
  });
}

TEST(Cluster, Callbacks) {
  TESSERA_SPEC("A34", "G58", "G60", "G63", "G37", "G51");
  cluster(2, 4, [](const Process& at) {
    std::vector<Index> calls;
    auto data = [&](const Index& i) {
      calls.push_back(i);
      return X.slice(i);
    };
    make_array_from_callback({8, 2}, NamedSharding(at.A(), P("x", "y")), data);
    EXPECT_EQ(calls.size(), 4U);
    calls.clear();
    make_array_from_callback({8, 2}, NamedSharding(at.A(), P()), data);
    EXPECT_EQ(calls.size(), 1U);
    calls.clear();
    GlobalArray g = GlobalArray::from_callback({8, 2}, at.A(), P("x", "y"), data);
    ASSERT_EQ(calls.size(), 4U);
    EXPECT_EQ(calls[0], (Index{Slice{4 * at.p, 4 * at.p + 2}, Slice{0, 1}}));
    EXPECT_EQ(calls[3], (Index{Slice{4 * at.p + 2, 4 * at.p + 4}, Slice{1, 2}}));
    EXPECT_EQ(values(g.local_data(0U)), at.p == 0 ? (Ints{0, 2}) : (Ints{8, 10}));

    std::size_t asked = 0;
    GlobalArray::from_batched_callback({8, 2}, at.A(), P("x"), [&](std::span<const Index> list) {
      asked = list.size();
      std::vector<HostArray> out;
      for (const auto& i : list) out.push_back(X.slice(i));
      return out;
    });
    EXPECT_EQ(asked, 4U);
    std::vector<std::vector<std::int64_t>> groups;
    auto grouped = [&](const P& spec) {
      groups.clear();
      return GlobalArray::from_batched_callback_with_devices({8, 2}, at.A(), spec, [&](auto list) {
        std::vector<Array> out;
        for (const auto& group : list) {
          groups.emplace_back();
          for (const auto& d : group.devices) {
            groups.back().push_back(d.id());
            out.push_back(device_put(X.slice(group.index), d));
          }
        }
        return out;
      });
    };
    using Groups = std::vector<std::vector<std::int64_t>>;
    grouped(P("x"));
    EXPECT_EQ(groups, at.p == 0 ? (Groups{{0, 1}, {2, 3}}) : (Groups{{4, 5}, {6, 7}}));
    grouped(P("y"));
    EXPECT_EQ(groups, at.p == 0 ? (Groups{{0, 2}, {1, 3}}) : (Groups{{4, 6}, {5, 7}}));

    std::vector<Array> three;
    for (std::size_t i = 0; i < 3; ++i) three.push_back(g.local_data(i));
    EXPECT_ERROR(ValueError, GlobalArray({8, 2}, at.A(), P("x", "y"), three), "3 elements", "expected 4");
  });
}

TEST(Cluster, MeshOfAnotherProcess) {
  TESSERA_SPEC("A37", "G40");
  cluster(2, 4, [](const Process& at) {
    Mesh other = at.p == 0 ? at.of({4, 5, 6, 7}, {4}, "x") : at.of({0, 1, 2, 3}, {4}, "x");
    NamedSharding s(other, P("x"));
    EXPECT_ERROR(ValueError, make_array_from_single_device_arrays({4}, s, std::vector<Array>{}), "dtype");
    EXPECT_ERROR(ValueError, GlobalArray({4}, other, P("x"), std::vector<Array>{}), "dtype");
    GlobalArray g({4}, other, P("x"), std::vector<Array>{}, int32);
    for (const Array& a : {g.array(), make_array_from_single_device_arrays({4}, s, std::vector<Array>{}, int32)}) {
      EXPECT_EQ(a.addressable_shards().size(), 0U);
      EXPECT_EQ(a.global_shards().size(), 4U);
      EXPECT_FALSE(a.is_fully_addressable());
      EXPECT_EQ(a.dtype(), int32);
    }
  });
}

TEST(Cluster, ProgramsOverProcesses) {
  TESSERA_SPEC("G70", "A62", "A74");
  cluster(2, 4, [](const Process& at) {
    ShardingPtr s = NamedSharding(at.A(), P("x", "y")).share();
    Array a = device_put(X, s);
    Array out = jit([](Array v) { return matmul(v, transpose(v)); }, {.out_shardings = {s}})(a);
    EXPECT_EQ(shard(out, 0), at.p == 0 ? (Ints{1, 3, 5, 7, 3, 13, 23, 33}) : (Ints{9, 43, 77, 111, 11, 53, 95, 137}));
    auto twice = [](Array v) { return v * 2; };
    EXPECT_ERROR(ValueError, jit(twice, {.in_shardings = {NamedSharding(at.A(), P("x")).share()}})(device_put(X)),
                 "argument 0", "host_local_array_to_global_array", "make_array_from_callback");
    Array whole = jit(twice, {.in_shardings = {NamedSharding(at.A(), P()).share()}})(device_put(X));
    EXPECT_EQ(values(whole)[15], 30);
    EXPECT_ERROR(NotAddressableError, jit([&](Array v) { return v + a; })(device_put(X, s)), "int32[8,2]", "argument");
  });
}

TEST(Cluster, LocalToGlobalAndBack) {
  TESSERA_SPEC("A64", "A66", "A67", "A68", "A69", "A70");
  cluster(2, 4, [](const Process& at) {
    HostArray mine = iota({4}, at.p == 0 ? 1 : 10);
    Ints all{0, 1, 2, 3, 0, 10, 20, 30};
    auto global = [&](const HostArray& v, const Mesh& m, const P& spec) {
      return host_local_array_to_global_array(v, m, spec);
    };
    auto read = [&](const Array& a) { return process_allgather(a, {.tiled = true}).to_vector<std::int32_t>(); };
    for (auto& [mesh, spec] : std::vector<std::pair<Mesh, P>>{
             {at.L8(), P("x")}, {at.A(), P("x")}, {at.A(), P(axes("x", "y"))}, {at.B(), P(axes("x", "y", "z"))}}) {
      Array g = global(mine, mesh, spec);
      EXPECT_EQ(g.shape(), (Shape{8}));
      EXPECT_EQ(read(g), all);
    }
    Array rows = global(iota({4, 2}, 1, 100 * at.p), at.A(), P("x", "y"));
    EXPECT_EQ(rows.shape(), (Shape{8, 2}));
    Ints got = read(rows);
    for (std::int32_t i = 0; i < 8; ++i) EXPECT_EQ(got[static_cast<std::size_t>(8 + i)], 100 + i);
    EXPECT_EQ(global(iota({2, 4}), at.A24(), P("x", "y")).shape(), (Shape{4, 4}));
    Array columns = global(iota({4, 1}, 1, 10 * at.p), at.T(), P("x", "y"));
    EXPECT_EQ(columns.shape(), (Shape{4, 2}));
    EXPECT_EQ(read(columns), (Ints{0, 10, 1, 11, 2, 12, 3, 13}));
    EXPECT_ERROR(ValueError, host_local_array_to_global_array(mine, at.A(), std::nullopt), "P()");
    EXPECT_THROW(global(mine, at.of({0, 4, 1, 5, 2, 6, 3, 7}, {8}, "x"), P("x")), ValueError);
    EXPECT_THROW(global(iota({3}), at.L8(), P("x")), IndivisibleError);

    // Equal data everywhere keeps its shape.
    EXPECT_EQ(global(iota({4}), at.L8(), P()).shape(), (Shape{4}));
    Array batch = global(mine, at.L8(), P("x"));
    Array key = global(iota({4}), at.L8(), P(none));
    auto [total, doubled] = jit([](Array k, Array v) { return std::pair{sum(k), v * 2}; })(key, batch);
    EXPECT_EQ(total.item<std::int32_t>(), 6);
    Array mine_again = global_array_to_host_local_array(doubled, at.L8(), P("x"));
    EXPECT_EQ(values(mine_again), at.p == 0 ? (Ints{0, 2, 4, 6}) : (Ints{0, 20, 40, 60}));

    // Global stays global, local stays local, shards are shared.
    EXPECT_EQ(host_local_array_to_global_array(batch, at.L8(), P("x")).impl(), batch.impl());
    Array local = device_put(mine, NamedSharding(at.L8().local_mesh(), P("x")));
    EXPECT_EQ(global_array_to_host_local_array(local, at.L8(), P("x")).impl(), local.impl());
    Array shared = host_local_array_to_global_array(local, at.L8(), P("x"));
    Array back = global_array_to_host_local_array(shared, at.L8(), P("x"));
    for (std::size_t i = 0; i < 4; ++i) {
      const void* data = local.addressable_shards()[i].value().host().data();
      EXPECT_EQ(shared.addressable_shards()[i].value().host().data(), data);
      EXPECT_EQ(back.addressable_shards()[i].value().host().data(), data);
    }
    EXPECT_EQ(values(back), mine.to_vector<std::int32_t>());
    EXPECT_TRUE(back.is_fully_addressable());
    EXPECT_TRUE(*back.sharding() == NamedSharding(at.L8().local_mesh(), P("x")));

    std::vector<Array> pair{device_put(mine), device_put(iota({4}))};
    auto both = host_local_array_to_global_array(pair, at.L8(), std::vector<P>{P("x"), P(none)});
    EXPECT_EQ(both[0].shape(), (Shape{8}));
    EXPECT_EQ(both[1].shape(), (Shape{4}));
    auto same = host_local_array_to_global_array(pair, at.L8(), std::vector<P>{P("x")});
    EXPECT_EQ(same[1].shape(), (Shape{8}));
    EXPECT_ERROR(ValueError, host_local_array_to_global_array(pair, at.L8(), std::vector<P>{P("x"), P(), P()}), "2",
                 "3");
  });
}

TEST(Cluster, AxesInsideAProcessDoNotGrow) {
  TESSERA_SPEC("A65");
  cluster(2, 4, [](const Process& at) {
    EXPECT_EQ(host_local_array_to_global_array(iota({8}), at.A24(), P("y")).shape(), (Shape{8}));
    EXPECT_EQ(host_local_array_to_global_array(iota({4, 2}), at.A(), P(none, "y")).shape(), (Shape{4, 2}));
  });
  cluster(4, 2, [](const Process& at) {
    auto global = [&](const Shape& shape, const P& spec) {
      return host_local_array_to_global_array(iota(shape, 1, 10 * at.p), at.B(), spec);
    };
    auto read = [&](const Array& a) { return process_allgather(a, {.tiled = true}).to_vector<std::int32_t>(); };
    for (const P& spec : {P(axes("x", "y", "z")), P(axes("x", "y"))}) {
      EXPECT_EQ(read(global({2}, spec)), (Ints{0, 1, 10, 11, 20, 21, 30, 31}));
    }
    EXPECT_EQ(global({2, 2}, P(none, axes("x", "z"))).shape(), (Shape{2, 4}));
    Array block = global({2, 1}, P(axes("x", "z"), "y"));
    EXPECT_EQ(block.shape(), (Shape{4, 2}));
    EXPECT_EQ(read(block), (Ints{0, 10, 1, 11, 20, 30, 21, 31}));
    EXPECT_EQ(global({4}, P("z")).shape(), (Shape{4}));
  });
}

TEST(Cluster, ProcessLocalData) {
  TESSERA_SPEC("A71", "A72");
  cluster(2, 4, [](const Process& at) {
    HostArray mine = iota({4}, at.p == 0 ? 1 : 10);
    Array g = make_array_from_process_local_data(NamedSharding(at.L8(), P("x")).share(), mine);
    EXPECT_EQ(g.shape(), (Shape{8}));
    for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(shard(g, i), (Ints{mine.to_vector<std::int32_t>()[i]}));
    Mesh mixed = at.of({0, 4, 1, 5, 2, 6, 3, 7}, {8}, "x");
    Array woven = make_array_from_process_local_data(NamedSharding(mixed, P("x")).share(), mine);
    EXPECT_EQ(process_allgather(woven, {.tiled = true}).to_vector<std::int32_t>(), (Ints{0, 0, 1, 10, 2, 20, 3, 30}));
    Mesh corner = at.of({0, 1, 2, 4, 3, 5, 6, 7}, {2, 4}, {"x", "y"});
    EXPECT_ERROR(ValueError,
                 make_array_from_process_local_data(NamedSharding(corner, P("x", "y")).share(), iota({2, 2})),
                 "global_shape");

    HostArray stacked = process_allgather(mine);
    EXPECT_EQ(stacked.shape(), (Shape{2, 4}));
    EXPECT_EQ(stacked.to_vector<std::int32_t>(), (Ints{0, 1, 2, 3, 0, 10, 20, 30}));
    EXPECT_EQ(process_allgather(mine, {.tiled = true}).shape(), (Shape{8}));
    EXPECT_ERROR(ValueError, process_allgather(g), "tiled");
  });
}

TEST(OneProcess, ConversionsAreIdentities) {
  TESSERA_SPEC("A73");
  EightDevices here;
  HostArray v8 = iota({8});
  Array g = host_local_array_to_global_array(v8, here.A(), P("x"));
  EXPECT_TRUE(identical(g.host(), v8));
  EXPECT_EQ(global_array_to_host_local_array(g, here.A(), P("x")).impl(), g.impl());
  ShardingPtr s = NamedSharding(here.A(), P("x")).share();
  EXPECT_TRUE(identical(make_array_from_process_local_data(s, v8).host(), v8));
  EXPECT_ERROR(ValueError, make_array_from_process_local_data(s, iota({8, 2}), Shape{16, 2}), "(16, 2)", "(8, 2)");
}

}  // namespace
}  // namespace tessera::test
