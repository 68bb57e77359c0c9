// SPDX-License-Identifier: Apache-2.0
// jit(f, {.in_shardings = automatic(cluster)}): what is found, what runs with it, and what is refused.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "support/meshes.h"
#include "support/planned_programs.h"
#include "tessera/simulate.h"
#include "tessera/tessera.h"

namespace tessera {
namespace {

struct Mlp {
  Array up, down;
};

Array loss(const std::vector<Mlp>& p, const Array& x) {
  Array h = x;
  for (const auto& l : p) h = h + matmul(tanh(matmul(h, l.up)), l.down);
  return mean(h * h);
}
std::pair<Array, std::vector<Mlp>> step(const std::vector<Mlp>& p, const Array& x) {
  auto [value, g] = value_and_grad(loss)(p, x);
  return {value, tree_map([](const Array& w, const Array& d) { return w - 0.1 * d; }, p, g)};
}

std::vector<Mlp> layers(std::int64_t width, std::int64_t hidden, std::size_t count) {
  std::vector<Mlp> out;
  for (std::size_t l = 0; l < count; ++l) {
    const auto seed = static_cast<std::int64_t>(2 * l);
    out.push_back({0.1 * random::normal(random::key(seed), {width, hidden}),
                   0.1 * random::normal(random::key(seed + 1), {hidden, width})});
  }
  return out;
}
std::vector<Mlp> like(std::int64_t width, std::int64_t hidden, std::size_t count) {
  return {count, {without_data({{width, hidden}, float32}), without_data({{hidden, width}, float32})}};
}

double difference(const Array& a, const Array& b) { return max(abs(a - b)).item<float>(); }

class Automatic : public ::testing::Test {
 protected:
  test::EightDevices eight;
  ClusterModel node = test::slow_node();
};

TEST_F(Automatic, RunsWithTheValuesOfOneDevice) {
  const auto p = layers(256, 512, 2);
  const Array x = random::normal(random::key(9), {4096, 256});
  auto f = jit(step, {.in_shardings = automatic(node)});
  const auto [value, next] = f(p, x);
  const auto [expected, wanted] = jit(step)(p, x);
  EXPECT_NEAR(value.item<float>(), expected.item<float>(), 1e-5 * std::abs(expected.item<float>()));
  for (std::size_t l = 0; l < p.size(); ++l) {
    EXPECT_LT(difference(device_put(next[l].up, wanted[l].up.sharding()), wanted[l].up), 1e-6);
    EXPECT_LT(difference(device_put(next[l].down, wanted[l].down.sharding()), wanted[l].down), 1e-6);
  }
  EXPECT_EQ(value.sharding()->num_devices(), 8);
  const auto lowered = f.lower(p, x);
  const ShardingPlan& plan = lowered.sharding_plan();
  EXPECT_EQ(plan.mesh.size(), 8);
  ASSERT_EQ(plan.arguments.size(), 5U);
  EXPECT_EQ(plan.arguments[4]->shard_shape({4096, 256})[0], 512) << plan.text;  // so many rows: split by these
  EXPECT_LT(plan.step, plan.replicated_step);
  EXPECT_LE(plan.peak_memory, plan.memory_limit);
  ASSERT_FALSE(plan.decisions.empty());
  for (const auto& d : plan.decisions) {
    ASSERT_FALSE(d.rejected.empty()) << d.taken.what;
    EXPECT_GE(d.rejected[0].step, plan.step) << d.taken.what;
  }
  EXPECT_EQ(plan.other_meshes.size(), 2U);
  EXPECT_TRUE(test::has(to_string(plan), {"decisions", "rather than", "annotations", "sdy.sharding", "argument 4"}));
  EXPECT_EQ(f.stats().traces, 1);
  EXPECT_EQ(f.stats().lowerings, 1);
  // Another lowering of the same kind of call searches no more.
  const auto again = f.lower(p, x);
  EXPECT_EQ(&again.sharding_plan(), &plan);
}

TEST_F(Automatic, TracingSearchesNothing) {
  auto f = jit(step, {.name = "step", .in_shardings = automatic(node, 1)});  // which nothing fits into
  const auto traced = f.trace(like(256, 512, 1), without_data({{64, 256}, float32}));
  EXPECT_NE(traced.text().find("dot_general"), std::string::npos);
  EXPECT_ERROR(ValueError, traced.lower(), "step", "memory_limit is 1 bytes", "the least peak that was found is",
               "planner_more_test_automatic.cc");
}

TEST_F(Automatic, AGivenMeshHasTheAxes) {
  const Mesh mesh = make_mesh({2, 4}, {"data", "model"});
  const auto p = layers(256, 512, 1);
  const Array x = random::normal(random::key(9), {512, 256});
  auto f = jit(step, {.in_shardings = automatic(node, {.mesh = mesh})});
  const auto lowered = f.lower(p, x);
  EXPECT_EQ(lowered.sharding_plan().mesh, mesh.abstract_mesh());
  EXPECT_TRUE(lowered.sharding_plan().other_meshes.empty());
  const auto [value, next] = f(p, x);
  EXPECT_EQ(value.sharding()->num_devices(), 8);
  EXPECT_NEAR(value.item<float>(), jit(step)(p, x).first.item<float>(), 1e-4);
}

TEST_F(Automatic, ShardsWhatDoesNotFit) {
  const auto p = like(2048, 8192, 2);
  const Array x = without_data({{4096, 2048}, float32});
  const auto roomy = jit(step, {.in_shardings = automatic(node)}).lower(p, x).sharding_plan();
  const std::int64_t limit = roomy.replicated_memory / 5;
  const auto tight = jit(step, {.in_shardings = automatic(node, limit)}).lower(p, x).sharding_plan();
  EXPECT_GT(roomy.replicated_memory, limit);
  EXPECT_LE(tight.peak_memory, limit);
  EXPECT_EQ(tight.memory_limit, limit);
}

TEST_F(Automatic, MachinesThatAreNotThere) {
  const ClusterModel many = ClusterModel::preset("h100-dgx", 4);
  const Array x = without_data({{65536, 512}, float32});
  auto f = jit(step, {.name = "step", .in_shardings = automatic(many)});
  const auto lowered = f.lower(like(512, 1024, 1), x);
  const ShardingPlan& plan = lowered.sharding_plan();
  EXPECT_EQ(plan.mesh.size(), 32);
  EXPECT_NEAR(lowered.simulate(many).step, plan.step, 1e-12);
  EXPECT_EQ(lowered.simulate(many).peak_memory(), plan.peak_memory);
  EXPECT_ERROR(ValueError, f(layers(512, 1024, 1), zeros({65536, 512})), "step", "abstract mesh of 32");
  // Some of the machine's devices.
  auto some = jit(step, {.in_shardings = automatic(many, {.devices = 8})});
  EXPECT_EQ(some.lower(like(512, 1024, 1), x).sharding_plan().mesh.size(), 8);
}

TEST_F(Automatic, CommittedArraysStayOrAreRefused) {
  auto f = jit([](const Array& x) { return tanh(x) * 2.0; }, {.name = "f", .in_shardings = automatic(node)});
  const Array x = random::normal(random::key(1), {1024, 64});
  const ShardingPtr found = f.lower(x).sharding_plan().arguments[0];
  EXPECT_FALSE(found->is_fully_replicated());
  EXPECT_EQ(f(device_put(x, found)).sharding()->num_devices(), 8);
  const Array elsewhere = device_put(x, NamedSharding(eight.L8(), P()));
  EXPECT_ERROR(ValueError, f(elsewhere), "f: ", "in_shardings wants", "device_put");
}

TEST_F(Automatic, InsideOtherTransformations) {
  const auto p = layers(64, 128, 1);
  const Array x = random::normal(random::key(9), {512, 64});
  auto f = jit(loss, {.in_shardings = automatic(node)});
  const auto g = grad([&](const std::vector<Mlp>& q, const Array& b) { return f(q, b); })(p, x);
  const auto wanted = grad(loss)(p, x);
  EXPECT_LT(difference(device_put(g[0].up, wanted[0].up.sharding()), wanted[0].up), 1e-6);
  // What the function captures lies where it lies.
  const Array scale = full({64}, 3.0F);
  auto scaled = jit([&](const Array& b) { return sum(b * scale); }, {.in_shardings = automatic(node)});
  EXPECT_NEAR(scaled(x).item<float>(), sum(x * 3.0).item<float>(), 1e-2);
}

TEST_F(Automatic, Refusals) {
  const Array x = without_data({{64, 64}, float32});
  const Mesh mesh = eight.L8();
  auto placed = jit([&](const Array& a) { return with_sharding_constraint(a * 2, NamedSharding(mesh, P("x"))); },
                    {.in_shardings = automatic(node)});
  EXPECT_ERROR(UnimplementedError, placed.lower(x), "sharding_constraint", "planner_more_test_automatic.cc");
  EXPECT_ERROR(ValueError, automatic(node, -1), "memory_limit is -1", "at least 0");
  EXPECT_ERROR(ValueError, automatic(node, {.threads = 0}), "threads is 0", "at least 1");
  EXPECT_ERROR(ValueError, automatic(node, {.devices = 9}), "devices is 9", "has 8 devices");
  EXPECT_ERROR(ValueError, automatic(node, {.mesh = AbstractMesh{{"x", 16}}}), "mesh has 16", "has 8 devices");
  const MeshOptions typed{.axis_types = {AxisType::Explicit}};
  EXPECT_ERROR(ValueError, automatic(node, {.mesh = AbstractMesh({{"x", 8}}, typed)}), "not Auto");
  ClusterModel broken = node;
  broken.device.memory = 0;
  EXPECT_ERROR(ValueError, automatic(broken), "automatic: the cluster", "memory");
  auto written = jit([](const Array& a) { return a * 2; }, {.name = "written"});
  EXPECT_ERROR(StateError, written.lower(x).sharding_plan(), "written", "automatic(cluster)");
}

TEST_F(Automatic, LoweredProgramsTellTheirCostByLine) {
  const AbstractMesh mesh{{"x", 8}};
  auto f = jit([](const Array& w, const Array& x) { return matmul(x, w); },
               {.in_shardings = {NamedSharding(mesh, P("x", none)), NamedSharding(mesh, P(none, "x"))}});
  const auto lowered = f.lower(without_data({{1024, 512}, float32}), without_data({{256, 1024}, float32}));
  const Simulation s = lowered.simulate(node);
  EXPECT_EQ(s.flops, 2.0 * 256 * 1024 / 8 * 512);
  EXPECT_GT(s.exposed, 0);
  ASSERT_FALSE(s.lines.empty());
  EXPECT_NE(to_string(s.lines[0].loc).find("planner_more_test_automatic.cc"), std::string::npos);
  EXPECT_EQ(simulate(lowered, node).step, s.step);
  const Simulation text = simulate_module(lowered.as_text({.shardy = true}), node);
  EXPECT_EQ(text.step, s.step);
  EXPECT_EQ(text.peak_memory(), s.peak_memory());
  ClusterModel pair = node;
  pair.levels[0].sizes = {2};
  pair.levels.resize(1);
  EXPECT_ERROR(ValueError, lowered.simulate(pair), "8");
}

}  // namespace
}  // namespace tessera
