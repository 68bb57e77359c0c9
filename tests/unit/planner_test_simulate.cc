// SPDX-License-Identifier: Apache-2.0
// Simulated programs: the seconds of graphs small enough to add up by hand, and functions over abstract meshes.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

#include "hlo/module.h"
#include "ops/ops.h"
#include "planner/schedule.h"
#include "planner/simulate.h"
#include "support/spmd_sketch.h"
#include "tessera/simulate.h"
#include "tessera/tessera.h"

namespace tessera {
namespace {

ir::Type f32(Shape shape) { return {DType::F32, std::move(shape)}; }

ClusterModel machine(std::int64_t devices) {
  ClusterModel c;
  c.name = "test";
  c.device = {"test", {{DType::F32, 1000}}, 100, 1e6, 1 << 30};
  c.levels = {{"ring", ClusterLevel::Kind::Torus, {devices}, true, 0, 10}};
  return c;
}

TEST(Simulate, ProductsAndTheirSum) {
  const ir::MeshAxes mesh = test::mesh_of("data:4, model:2");
  ir::Builder b;
  ir::Value x = b.input(f32({64, 32}));
  ir::Value w = b.input(f32({32, 16}));
  b.set_loc({"model.cc", 42, nullptr});
  ir::Value y = ops::dot_general(x, w, {{1}, {0}, {}, {}});
  const ir::Module m = test::module(b, {y}, mesh, {"data, model", "model, -"}, {"data, -"});
  const Simulation s = planner::simulate(m, machine(8));
  const double product = 2.0 * 16 * 16 * 16 / 1000;
  // Two neighbours share both links of a line of two, one each way.
  const double sum = 2 * (16 * 16 * 4 / 2.0 / 10);
  EXPECT_NEAR(s.compute, product, 1e-9);
  EXPECT_NEAR(s.exposed, sum, 1e-9);
  EXPECT_NEAR(s.step, product + sum, 1e-9);
  EXPECT_NEAR(s.flop_utilization, product / s.step, 1e-12);
  EXPECT_EQ(s.devices, 8);
  EXPECT_EQ(s.collectives, 1);
  EXPECT_EQ(s.peak_memory(), (16 * 16 + 16 * 16 + 16 * 16) * 4 + 16 * 16 * 4);
  ASSERT_EQ(s.lines.size(), 1U);
  EXPECT_EQ(to_string(s.lines[0].loc), "model.cc:42");
  EXPECT_NE(to_string(s).find("model.cc:42"), std::string::npos) << to_string(s);
  EXPECT_THROW(planner::simulate(m, machine(4)), ValueError);
}

TEST(Simulate, ElementwiseOperationsAreFused) {
  const ir::MeshAxes mesh = test::mesh_of("x:2");
  ir::Builder b;
  ir::Value x = b.input(f32({64, 8}));
  ir::Value y = ops::tanh(ops::neg(ops::add(x, x)));
  const ir::Module m = test::module(b, {y, ops::reduce_sum(ops::mul(y, y), {{1}})}, mesh, {"x, -"}, {"x, -", "x"});
  std::int64_t unknown = 0;
  const planner::Schedule s = planner::schedule_of(*spmd::partition(spmd::prepared(m)), unknown);
  double bytes = 0;
  int launches = 0;
  for (const auto& t : s.tasks) {
    bytes += t.bytes;
    launches += t.launches ? 1 : 0;
  }
  // x is read and y written in one operation; y is read, and its sums written, in the next.
  EXPECT_EQ(bytes, 32 * 8 * 4 * 3 + 32 * 4);
  EXPECT_EQ(launches, 2);
  EXPECT_EQ(unknown, 0);
}

TEST(Simulate, WhatSeveralShiftsCopyIsReadOnce) {
  const ir::MeshAxes mesh = test::mesh_of("x:2");
  ir::Builder b;
  ir::Value x = b.input(f32({64, 8}));
  ir::Value zero = ops::scalar(b, 0, DType::F32);
  auto shifted = [&](std::int64_t by) { return ops::pad(x, zero, {by, 0}, {-by, 0}); };
  const ir::Module m = test::module(b, {shifted(1) + shifted(-1)}, mesh, {"x, -"}, {"x, -"});
  std::int64_t unknown = 0;
  const planner::Schedule s = planner::schedule_of(*spmd::partition(spmd::prepared(m)), unknown);
  double copied = 0;
  for (const auto& t : s.tasks) copied += t.copied;
  EXPECT_EQ(copied, 3 * 32 * 8 * 4 + 4) << "the shard and the filling, and two shards that are written";
}

// Eight devices of one process, which have two cores.
ClusterModel process() {
  ClusterModel c = machine(8);
  c.device = {"test", {{DType::F32, 1000}}, 100, 1e6, 1 << 30};
  c.levels = {{"memory", ClusterLevel::Kind::Memory, {8}, true, 0, 1e9}};
  c.overlaps = {};
  return c;
}
Simulation of_product(const ClusterModel& c, const std::string& rows) {
  const ir::MeshAxes mesh = test::mesh_of("x:4, y:2");
  ir::Builder b;
  ir::Value x = b.input(f32({64, 32}));
  ir::Value w = b.input(f32({32, 16}));
  ir::Value y = ops::dot_general(x, w, {{1}, {0}, {}, {}});
  return planner::simulate(test::module(b, {y}, mesh, {rows, "-, -"}, {rows}), c);
}

TEST(Simulate, WhatDevicesOfOneMemoryHoldAlikeIsComputedOnce) {
  const double all = 2.0 * 64 * 32 * 16 / (8 * 1000.0);  // at the rate of all devices together
  ClusterModel fast = process();
  fast.device.memory_bandwidth = 1e30;
  for (const char* split : {"x, -", "x.y, -", "-, -"}) EXPECT_NEAR(of_product(fast, split).step, all, 1e-9) << split;
  EXPECT_NEAR(of_product(machine(8), "-, -").step, 8 * all, 1e-9) << "elsewhere each computes all of it";
  ClusterModel cores = fast;
  cores.levels[0].cores = 2;
  cores.levels[0].spread = 0.25 * all;
  EXPECT_NEAR(of_product(cores, "x, -").step, 1.25 * all, 1e-9);
  cores.levels[0].spread = 2 * all;
  EXPECT_NEAR(of_product(cores, "x, -").step, 2 * all, 1e-9) << "one core is faster";
}

// What a function of elements takes whose sum along a split dimension divides it, in passes over its operand.
double passes(const std::function<Array(const Array&)>& f) {
  ClusterModel c = process();
  c.device.vector_flops = 1e30;
  const AbstractMesh mesh{{"x", 8}};
  const Shape shape{64, 4096};
  auto share = jit(
      [f](const Array& x) {
        const Array y = f(x);
        return y / sum(y, {.axis = Dims{1}, .keepdims = true});
      },
      {.in_shardings = {NamedSharding(mesh, P(none, "x"))}});
  const double pass = static_cast<double>(size_of(shape)) * 4 / 8 / c.device.memory_bandwidth;
  return simulate(share.lower(without_data({shape, float32})), c).step / pass;
}

TEST(Simulate, WhatCollectivesComeBetweenIsComputedAgainOrStored) {
  constexpr double kRows = 0.05;  // and what is summed
  EXPECT_NEAR(passes([](const Array& x) { return exp(x + 1.0); }), 3, kRows) << "read for the sum, read again, written";
  EXPECT_NEAR(passes([](const Array& x) { return log(x + 1.0); }), 4, kRows) << "written for the sum, and read";
}

// What it takes, in passes of the memory, to sort an array by rows and the result by columns, where a cache that is
// infinitely fast holds it all.
double two_sorts(std::int64_t stream_bytes) {
  ClusterModel c = process();
  c.device.caches = {{1 << 20, 1e30}};
  c.levels[0].stream_bytes = stream_bytes;
  const AbstractMesh mesh{{"x", 8}};
  const Shape shape{64, 4096};
  auto sorted =
      jit([](const Array& x) { return sort(sort(x, 1), 2); }, {.in_shardings = {NamedSharding(mesh, P("x"))}});
  const double pass = static_cast<double>(size_of(shape)) * 4 / 8 / c.device.memory_bandwidth;
  return simulate(sorted.lower(without_data({{8, 8, 4096}, float32})), c).step / pass;
}

TEST(Simulate, LargeResultsAreWrittenAroundTheCaches) {
  EXPECT_NEAR(two_sorts((1 << 20) + 1), 0, 1e-9);
  EXPECT_DOUBLE_EQ(two_sorts(1 << 20), two_sorts(1)) << "all shards together have so many bytes";
  EXPECT_DOUBLE_EQ(two_sorts(1), 3) << "written and read, and written; the argument stays where it was";
}

constexpr const char* kModule = R"(module @step {
  sdy.mesh @mesh = <["data"=2, "model"=2]>
  func.func public @main(%x: tensor<64x32xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>},
                         %w: tensor<32x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"model"}]>})
      -> (tensor<64x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) {
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<64x32xf32>, tensor<32x16xf32>) -> tensor<64x16xf32>
    return %0 : tensor<64x16xf32>
  }
})";

TEST(Simulate, OtherSizesOfTheProgramsMesh) {
  const ir::Module own = planner::placed(hlo::import_module(kModule));
  EXPECT_EQ(planner::simulate(own, machine(64)).devices, 4);
  const ir::Module other =
      planner::placed(planner::with_mesh_sizes(hlo::import_module(kModule), {{"data", 8}, {"model", 4}}));
  const Simulation s = planner::simulate(other, machine(64));
  EXPECT_EQ(s.devices, 32);
  EXPECT_EQ(s.flops, 2.0 * 8 * 32 * 4);
  EXPECT_EQ(s.comm_plan.count("all_gather"), 1);
  EXPECT_THROW(planner::with_mesh_sizes(hlo::import_module(kModule), {{"pipe", 8}}), ValueError);
}

struct Layer {
  Array up, down;
};

TEST(Simulate, FunctionsOverAbstractMeshes) {
  const AbstractMesh mesh{{"data", 8192}, {"model", 8}};
  std::vector<ShardingArg> in;
  auto like = [&](Shape shape, const P& spec) {
    in.emplace_back(NamedSharding(mesh, spec));
    return without_data({std::move(shape), bfloat16});
  };
  std::vector<Layer> layers;
  for (int l = 0; l < 48; ++l) {
    Array up = like({4096, 16384}, P(none, "model"));
    layers.push_back({up, like({16384, 4096}, P("model", none))});
  }
  constexpr std::int64_t kRows = 16;  // on a device
  Array x = like({kRows * 131072, 4096}, P("data", none));
  auto step = jit(
      [](const std::vector<Layer>& p, const Array& batch) {
        return value_and_grad([](const std::vector<Layer>& q, const Array& b) {
          Array h = b;
          for (const auto& l : q) h = h + matmul(tanh(matmul(h, l.up)), l.down);
          return mean(h * h);
        })(p, batch);
      },
      {.in_shardings = in});
  const auto begin = std::chrono::steady_clock::now();
  const ir::Module module = hlo::import_module(step.lower(layers, x).as_text({.shardy = true}));
  const Simulation s = planner::simulate(planner::placed(planner::with_mesh_sizes(module, {{"data", 131072}})),
                                         ClusterModel::preset("h100-dgx", 131072));
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  std::printf("1,048,576 devices, 48 layers: %.2f s, %.0f MB\n%s", took.count(),
              static_cast<double>(usage.ru_maxrss) / 1024, to_string(s).c_str());
  EXPECT_EQ(s.devices, ClusterModel::kMostDevices);
  EXPECT_EQ(s.flops, kRows * (48 * 2 * 2.0 * 4096 * 2048 * 3 - 2.0 * 4096 * 2048));
  EXPECT_EQ(s.comm_plan.count("all_reduce"), 48 * 2 + 48 * 2);
  EXPECT_GT(s.exposed, 0);
  EXPECT_FALSE(s.lines.empty());
  const auto trace = nlohmann::json::parse(s.trace());
  EXPECT_GT(trace.at("traceEvents").size(), 48U);
}

TEST(Simulate, LoopsCountTheirRounds) {
  const AbstractMesh mesh{{"x", 4}};
  const std::vector<ShardingArg> in{NamedSharding(mesh, P()), NamedSharding(mesh, P("x"))};
  const Array w = without_data({{16, 64, 64}, float32});
  const Array x = without_data({{32, 64}, float32});
  auto looped = jit(
      [](const Array& w, const Array& x) {
        return scan([](const Array& h, const Array& layer) { return std::pair(matmul(h, layer), Array(0.0)); }, x, w)
            .first;
      },
      {.in_shardings = in});
  auto written = jit(
      [](const Array& w, const Array& x) {
        Array h = x;
        for (int i = 0; i < 16; ++i) h = matmul(h, at(w, {i}).get());
        return h;
      },
      {.in_shardings = in});
  const Simulation a = tessera::simulate(looped.lower(w, x), machine(4));
  const Simulation b = tessera::simulate(written.lower(w, x), machine(4));
  EXPECT_EQ(a.flops, b.flops);
  EXPECT_EQ(a.flops, 16 * 2.0 * 8 * 64 * 64);
}

}  // namespace
}  // namespace tessera
