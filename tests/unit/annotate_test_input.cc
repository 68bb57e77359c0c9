// SPDX-License-Identifier: Apache-2.0
// Shardings of inputs, the loader, path patterns.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <sstream>
#include <thread>

#include "mesh/client_state.h"
#include "support/meshes.h"
#include "support/spec_report.h"
#include "tessera/tessera.h"

namespace tessera::test {
namespace {

HostArray counted(const Shape& shape, float first = 0) {
  std::vector<float> v(static_cast<std::size_t>(size_of(shape)));
  for (std::size_t i = 0; i < v.size(); ++i) v[i] = first + static_cast<float>(i);
  return HostArray::from(v, shape);
}
Mesh mesh_xy(const Shape& shape) { return make_mesh(shape, {"x", "y"}); }

TEST(ShardingSpec, SaysWhereInputsLie) {
  TESSERA_SPEC("T90", "T91", "T92", "T93");
  EightDevices e;
  Mesh mesh = mesh_xy({2, 4});
  ShardingSpec s(mesh, P("x", "y"));
  EXPECT_FALSE(s.minibatch());
  EXPECT_TRUE(ShardingSpec(mesh, P("x", none), {.minibatch = true}).minibatch());
  EXPECT_TRUE(ShardingSpec(mesh, P("x", none), true).minibatch());
  EXPECT_EQ(s, ShardingSpec(mesh_xy({2, 4}), P("x", "y")));
  EXPECT_FALSE(s == ShardingSpec(mesh, P("x", "y"), true));
  EXPECT_EQ(&s.op_sharding(), &mesh.op_sharding(P("x", "y")));
  EXPECT_EQ(ShardingSpec(mesh, P("x")).op_sharding().sharding_type(), ShardingType::PARTIAL);
  EXPECT_ERROR(ValueError, ShardingSpec(mesh, P("q", none)), "partition_spec", "q");
  EXPECT_ERROR(ValueError, ShardingSpec(mesh, P(2, none)), "partition_spec", "2");
  EXPECT_ERROR(ValueError, ShardingSpec(mesh, P("x", "x")), "partition_spec", "once");
  EXPECT_TRUE(s.can_apply(Shape{8, 4}));
  EXPECT_TRUE(s.can_apply(Shape{7, 5}));
  EXPECT_FALSE(s.can_apply(Shape{8}));
  EXPECT_FALSE(s.for_array(ones({8})));
  ASSERT_TRUE(s.xla_spec(ones({7, 5})));
  EXPECT_EQ(s.xla_spec(ones({7, 5}))->shard_shape({7, 5}), (Shape{4, 2}));

  std::string log;
  set_log_sink([&](LogLevel level, std::string_view line) {
    log += std::string(to_string(level)) + ": " + std::string(line) + "\n";
  });
  Array a = device_put(counted({3, 2, 2}), s);
  device_put(counted({3, 2, 2}), s);
  set_log_sink(nullptr);
  EXPECT_TRUE(a.is_fully_replicated());
  EXPECT_EQ(a.addressable_shards().size(), 8U);
  EXPECT_EQ(log,
            "warning: device_put: partition_spec = P('x', 'y') has 2 entries and cannot apply to data of "
            "rank 3, which is replicated\n");
}

TEST(ShardingSpec, Apply) {
  TESSERA_SPEC("T94");
  EightDevices e;
  Mesh mesh = mesh_xy({2, 4});
  ShardingSpec s(mesh, P("x", "y"));
  Array a = s.apply(ones({8, 8}));
  EXPECT_EQ(*a.sharding(), *mark_sharding(ones({8, 8}), mesh, P("x", "y")).sharding());
  EXPECT_ERROR(ValueError, s.apply(ones({8})), "partition_spec", "2", "1");
  Array x = ones({8, 8});
  ClientScope other(mesh::make_client(
      "mock", "MockDevice", 0, 1, {{.id = 0, .process_index = 0, .coords = {}, .core_on_chip = 0, .slice_index = {}}}));
  EXPECT_ERROR(ValueError, s.apply(x), "device", "cpu", "mock");
}

TEST(ShardingSpec, EachByteOnce) {
  TESSERA_SPEC("T95");
  EightDevices e;
  Mesh mesh = mesh_xy({2, 4});
  ShardingSpec s(mesh, P("x", "y"));
  HostArray data = counted({16, 8});
  std::int64_t before = transfer_stats().bytes;
  Array a = device_put(data, s);
  EXPECT_EQ(transfer_stats().bytes - before, data.nbytes());
  EXPECT_EQ(*a.sharding(), *mark_sharding(device_put(data), mesh, P("x", "y")).sharding());
  std::vector<Array> both{ones({8, 8}), ones({4, 8})};
  auto placed = device_put(both, {s, ShardingSpec(mesh, P(none, "x"))});
  EXPECT_EQ(op_sharding(placed[0])->hlo_v1(), "{devices=[2,4]0,1,2,3,4,5,6,7}");
  EXPECT_EQ(placed[1].addressable_shards()[0].value().shape(), (Shape{4, 4}));
  EXPECT_ERROR(ValueError, device_put(both, std::vector<ShardingSpec>{s, s, s}), "2", "3");
}

TEST(ShardingSpec, Minibatch) {
  TESSERA_SPEC("T96", "T97");
  auto clients = cluster_clients(2, 4);
  std::vector<std::thread> threads;
  for (int p = 0; p < 2; ++p) {
    threads.emplace_back([&, p] {
      ClientScope scope(clients[static_cast<std::size_t>(p)]);
      ShardingSpec s(get_1d_mesh("d"), P("d", none, none), {.minibatch = true});
      Array a = device_put(counted({8, 7, 4}, static_cast<float>(1000 * p)), s);
      EXPECT_EQ(a.shape(), (Shape{16, 7, 4}));
      EXPECT_EQ(a.addressable_shards()[0].value().shape(), (Shape{2, 7, 4}));
      EXPECT_EQ(a.addressable_shards()[0].index()[0], (Slice{8 * p, 8 * p + 2}));
      // Without minibatch every process passes the whole.
      Array whole = device_put(counted({16, 7, 4}), ShardingSpec(get_1d_mesh("d"), P("d", none, none)));
      EXPECT_EQ(whole.shape(), (Shape{16, 7, 4}));
      EXPECT_ERROR(ValueError, device_put(counted({6, 7, 4}), s), "(6, 7, 4)", "4", "divisible");
    });
  }
  for (auto& t : threads) t.join();
}

TEST(Loader, PreparesInTheBackground) {
  TESSERA_SPEC("T95");
  EightDevices e;
  Mesh mesh = mesh_xy({8, 1});
  std::atomic<int> read{0};
  std::vector<std::int64_t> seen;
  ShardedDataLoader loader(
      [&]() -> std::optional<HostBatch> {
        int i = read.load();
        if (i == 5) return std::nullopt;
        ++read;
        return HostBatch{{"x", counted({16, 4}, static_cast<float>(i))}, {"label", counted({16})}};
      },
      {.specs = {{"x", ShardingSpec(mesh, P("x", none))}},
       .prefetch = 2,
       .total = 5,
       .on_progress = [&](const LoaderProgress& p) { seen.push_back(p.taken); }});
  // Two batches wait, and the third is not read before one is taken.
  while (loader.progress().prepared < 2) std::this_thread::yield();
  EXPECT_EQ(loader.progress().taken, 0);
  EXPECT_LE(read.load(), 2);
  int n = 0;
  while (auto batch = loader.next()) {
    const Array& x = batch->at("x");
    EXPECT_EQ(x.addressable_shards()[3].value().shape(), (Shape{2, 4}));
    EXPECT_EQ(x.to_vector<float>()[0], static_cast<float>(n));
    EXPECT_TRUE(batch->at("label").is_fully_replicated());
    EXPECT_EQ(batch->at("label").addressable_shards().size(), 8U);
    ++n;
  }
  EXPECT_EQ(n, 5);
  EXPECT_EQ(loader.next(), std::nullopt);
  EXPECT_EQ(seen, (std::vector<std::int64_t>{1, 2, 3, 4, 5}));
  LoaderProgress p = loader.progress();
  EXPECT_EQ(p.prepared, 5);
  EXPECT_EQ(p.total, 5);
  EXPECT_EQ(p.bytes, 5 * (16 * 4 + 16) * 4);
}

TEST(Loader, ErrorsArriveWhereTheBatchWasDue) {
  EightDevices e;
  int i = 0;
  ShardedDataLoader loader([&]() -> std::optional<HostBatch> {
    if (i++ == 1) throw ValueError("the file ends here");
    return HostBatch{{"x", counted({8})}};
  });
  EXPECT_TRUE(loader.next());
  EXPECT_ERROR(ValueError, loader.next(), "the file ends here");
  EXPECT_FALSE(loader.next());
  EXPECT_ERROR(ValueError, ShardedDataLoader([] { return std::optional<HostBatch>(); }, {.prefetch = 0}), "prefetch",
               "0");
  EXPECT_ERROR(ValueError, ShardedDataLoader(ShardedDataLoader::Source()), "source");
  // One that is dropped while it is full ends its thread.
  ShardedDataLoader endless([] { return std::optional<HostBatch>(HostBatch{{"x", HostArray::scalar(1.0F)}}); });
  EXPECT_TRUE(endless.next());
}

TEST(Paths, PatternsPlaceWholeTrees) {
  EightDevices e;
  Mesh mesh = mesh_xy({2, 4});
  using Layer = std::map<std::string, Array>;
  std::map<std::string, std::vector<Layer>> model;
  for (int i = 0; i < 2; ++i) {
    model["layers"].push_back({{"wq", ones({8, 8})}, {"wo", ones({8, 8})}, {"scale", ones({8})}});
  }
  PathRules rules = {{R"(layers\[\d+\]\.wq)", P(none, "y")}, {R"(.*\.wo)", P("y", none)}, {R"(.*\.bias)", P("y")}};
  auto got = annotate_by_path(model, mesh, rules);
  EXPECT_EQ(op_sharding(got.tree["layers"][1]["wq"])->hlo_v2(),
            "{devices=[1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate}");
  EXPECT_EQ(op_sharding(got.tree["layers"][0]["wo"])->hlo_v2(),
            "{devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}");
  EXPECT_FALSE(is_annotated(got.tree["layers"][0]["scale"]));
  EXPECT_EQ(got.unmatched, (std::vector<std::string>{"layers[0].scale", "layers[1].scale"}));
  EXPECT_EQ(got.unused, (std::vector<std::string>{R"(.*\.bias)"}));
  auto shardings = shardings_by_path(model, mesh, rules);
  ASSERT_EQ(shardings.size(), 6U);  // scale, wo, wq of each layer
  EXPECT_EQ(shardings[0], nullptr);
  EXPECT_EQ(*shardings[2], *got.tree["layers"][0]["wq"].sharding());
  EXPECT_ERROR(ValueError, annotate_by_path(model, mesh, {{".*", P("x", none)}}), "layers[0].scale", ".*", "2", "1");
  EXPECT_ERROR(ValueError, match_paths({"a"}, {{"(", P()}}), "rules[0]", "(");
  // The first rule that matches is taken, and it matches whole names.
  auto m = match_paths({"wq", "xwq"}, {{"wq", P()}, {".*wq", P()}});
  EXPECT_EQ(m.rule, (std::vector<std::int64_t>{0, 1}));
}

}  // namespace
}  // namespace tessera::test
