// SPDX-License-Identifier: Apache-2.0
// Prices of collectives, beside formulas and bounds, and steps of schedules.
#include <gtest/gtest.h>

#include <cmath>
#include <memory>

#include "planner/collective_cost.h"
#include "planner/schedule.h"
#include "tessera/error.h"

namespace tessera::planner {
namespace {

ClusterModel machine(std::vector<ClusterLevel> levels) {
  ClusterModel c;
  c.name = "test";
  c.device = {"test", {{DType::F32, 1000}}, 100, 10, 1000};
  c.levels = std::move(levels);
  c.check();
  return c;
}
ClusterLevel torus(Dims sizes, bool wrap = true) {
  return {"torus", ClusterLevel::Kind::Torus, std::move(sizes), wrap, 1, 4};
}
ClusterLevel port(std::int64_t n, double bandwidth = 8, bool trees = true) {
  return {"switch", ClusterLevel::Kind::Switch, {n}, true, 1, bandwidth, 1, trees};
}
double seconds(const ClusterModel& c, Collective kind, double bytes, const Dims& mesh, const Dims& axes) {
  return cost_of(c, kind, bytes, spans_of(c, mesh, axes)).seconds;
}

TEST(Spans, OfAxesOverLevelsAndDimensions) {
  const ClusterModel c = machine({torus({4, 8}), port(16)});
  EXPECT_EQ(spans_of(c, {16, 32}, {1}), (std::vector<Span>{{0, 1, 8, 1, true}, {0, 0, 4, 1, true}}));
  EXPECT_EQ(spans_of(c, {16, 32}, {0}), (std::vector<Span>{{1, 0, 16, 1, false}}));
  EXPECT_EQ(spans_of(c, {4, 4, 4, 8}, {1}), (std::vector<Span>{{1, 0, 4, 1, false}}));
  EXPECT_EQ(spans_of(c, {4, 4, 4, 8}, {0}), (std::vector<Span>{{1, 0, 4, 4, false}}));
  EXPECT_EQ(spans_of(c, {128, 4}, {1}), (std::vector<Span>{{0, 1, 4, 1, false}})) << "half a ring is a line";
  EXPECT_EQ(spans_of(c, {64, 2, 4}, {1}), (std::vector<Span>{{0, 1, 2, 4, false}}));
  EXPECT_EQ(spans_of(c, {64, 2, 4}, {1, 2}), (std::vector<Span>{{0, 1, 8, 1, true}})) << "two axes that are one ring";
  EXPECT_EQ(spans_of(c, {3, 8}, {0}), (std::vector<Span>{{0, 0, 3, 1, false}}));
  EXPECT_EQ(spans_of(c, {40, 12}, {1}), (std::vector<Span>{{0, 0, 12, 1, false}})) << "no product of extents";
  EXPECT_TRUE(spans_of(c, {1, 8}, {0}).empty());
  EXPECT_THROW(spans_of(c, {513}, {0}), ValueError);
}

TEST(CollectiveCost, FormulasOfOneLevel) {
  const ClusterModel ring = machine({torus({8})});
  // Both directions of a ring: seven eighths over two links, and four steps.
  EXPECT_DOUBLE_EQ(seconds(ring, Collective::AllGather, 64, {8}, {0}), 4 + 56 / 8.0);
  EXPECT_DOUBLE_EQ(seconds(ring, Collective::AllReduce, 64, {8}, {0}), 2 * (4 + 56 / 8.0));
  EXPECT_DOUBLE_EQ(seconds(ring, Collective::AllToAll, 64, {8}, {0}), 4 + 64 * 8 / 8.0 / 4);
  EXPECT_DOUBLE_EQ(seconds(ring, Collective::Permute, 64, {8}, {0}), 1 + 64 / 4.0);
  const ClusterModel line = machine({torus({8}, false)});
  EXPECT_DOUBLE_EQ(seconds(line, Collective::ReduceScatter, 64, {8}, {0}), 7 + 56 / 4.0);
  const ClusterModel crossbar = machine({port(8)});
  EXPECT_DOUBLE_EQ(seconds(crossbar, Collective::AllGather, 64, {8}, {0}), 3 + 56 / 8.0);
  EXPECT_DOUBLE_EQ(seconds(crossbar, Collective::AllToAll, 64, {8}, {0}), 7 + 56 / 8.0);
  const ClusterModel rings = machine({port(8, 8, false)});
  EXPECT_DOUBLE_EQ(seconds(rings, Collective::AllReduce, 64, {8}, {0}), 2 * (7 + 56 / 8.0));
  ClusterModel direct = machine({port(8)});
  direct.levels[0].direct = true;
  EXPECT_DOUBLE_EQ(seconds(direct, Collective::AllGather, 64, {8}, {0}), 1 + 56 / 8.0);
  EXPECT_DOUBLE_EQ(seconds(direct, Collective::AllToAll, 64, {8}, {0}), 1 + 56 / 8.0);
  EXPECT_DOUBLE_EQ(seconds(direct, Collective::Permute, 64, {8}, {0}), 1 + 64 / 8.0);
  EXPECT_DOUBLE_EQ(seconds(direct, Collective::AllReduce, 64, {8}, {0}), 2 * (1 + 56 / 8.0));
  EXPECT_DOUBLE_EQ(seconds(direct, Collective::AllReduce, 1, {8}, {0}), 1 + 7 / 8.0) << "all of it to everybody";
  ClusterModel bus = machine({port(8)});
  bus.levels[0].kind = ClusterLevel::Kind::Shared;
  EXPECT_DOUBLE_EQ(seconds(bus, Collective::AllGather, 64, {8}, {0}), 7 + 56.0) << "an eighth of the medium each";
}

// A byte a second of each of eight members, which share a memory.
ClusterModel shared_memory() { return machine({{"memory", ClusterLevel::Kind::Memory, {8}, true, 1, 8}, port(4, 16)}); }

TEST(CollectiveCost, InOneMemoryBuffersAreReadAndWrittenOnce) {
  const ClusterModel c = shared_memory();
  EXPECT_DOUBLE_EQ(seconds(c, Collective::AllReduce, 64, {8}, {0}), 1 + 64 + 8.0) << "the sum is one buffer";
  EXPECT_DOUBLE_EQ(seconds(c, Collective::ReduceScatter, 64, {8}, {0}), 1 + 64 + 8.0);
  EXPECT_DOUBLE_EQ(seconds(c, Collective::AllGather, 64, {8}, {0}), 1 + 8 + 8.0);
  EXPECT_DOUBLE_EQ(seconds(c, Collective::AllToAll, 64, {8}, {0}), 1 + 64 + 64.0);
  EXPECT_DOUBLE_EQ(seconds(c, Collective::Permute, 64, {8}, {0}), 1) << "buffers change hands";
  EXPECT_DOUBLE_EQ(cost_of(c, Collective::Permute, 4, spans_of(c, {8}, {0}), {1, 128}).seconds, 1 + 128.0)
      << "a part of one is copied";
  EXPECT_DOUBLE_EQ(cost_of(c, Collective::AllReduce, 64, spans_of(c, {4, 2}, {0}), {0.5, 0}).seconds,
                   1 + 0.5 * (64 + 16.0))
      << "two devices hold each operand";
  EXPECT_DOUBLE_EQ(seconds(c, Collective::AllReduce, 64, {32}, {0}), 1 + 72 + 2 * (2 + 0.75 * 8 / 2.0))
      << "other processes get shards";
  ClusterModel cached = c;
  cached.device.caches = {{64, 4}};
  EXPECT_DOUBLE_EQ(seconds(cached, Collective::AllToAll, 32, {8}, {0}), 1 + 64 / 4.0);
  EXPECT_DOUBLE_EQ(seconds(cached, Collective::AllToAll, 64, {8}, {0}), 1 + 128.0);
  auto later = [&](double since) {
    return cost_of(cached, Collective::AllToAll, 32, spans_of(c, {8}, {0}), {1, 0, since}).seconds;
  };
  EXPECT_DOUBLE_EQ(later(64), 1 + 64 / 4.0);
  EXPECT_DOUBLE_EQ(later(65), 1 + 64.0) << "other values have taken the operands' place in the cache";
  cached.device.memory_bandwidth = 0.5;
  EXPECT_DOUBLE_EQ(later(65), 1 + 128.0);
}

TEST(CollectiveCost, TreesForFewBytes) {
  const ClusterModel c = machine({port(6)});  // six: halving does not apply
  const auto spans = spans_of(c, {6}, {0});
  EXPECT_EQ(cost_of(c, Collective::AllReduce, 1, spans).algorithm, "tree");
  EXPECT_EQ(cost_of(c, Collective::AllReduce, 1e6, spans).algorithm, "ring");
  EXPECT_DOUBLE_EQ(cost_of(c, Collective::AllReduce, 8, spans).seconds, 2 * 3 + 2.0);
}

TEST(CollectiveCost, OuterLevelsCarryShardsOnly) {
  // A member's port of the outer level is shared by its eight devices.
  const ClusterModel c = machine({port(8), port(4, 16)});
  const double inner = 3 + 56 / 8.0;
  const double outer = 2 + (3.0 / 4) * 8 / 2;
  EXPECT_DOUBLE_EQ(seconds(c, Collective::AllGather, 64, {32}, {0}), inner + outer);
  EXPECT_DOUBLE_EQ(seconds(c, Collective::AllReduce, 64, {32}, {0}), 2 * (inner + outer));
  EXPECT_EQ(cost_of(c, Collective::AllReduce, 64, spans_of(c, {32}, {0})).levels, 3U);
}

// No collective beats what its busiest device must receive through all links that it has.
TEST(CollectiveCost, NeverBelowItsBound) {
  for (const auto& name : ClusterModel::presets()) {
    const ClusterModel c = ClusterModel::preset(name, 4);
    double fastest = 0;
    for (const auto& l : c.levels) fastest += l.bandwidth * (l.kind == ClusterLevel::Kind::Torus ? 2.0 : 1.0);
    const std::int64_t n = c.num_devices();
    for (double bytes : {1e3, 1e6, 1e9}) {
      for (const Dims& mesh : {Dims{n}, Dims{4, n / 4}, Dims{n / 2, 2}}) {
        for (std::size_t a = 0; a < mesh.size(); ++a) {
          const auto axis = static_cast<std::int64_t>(a);
          const auto parts = static_cast<double>(mesh[a]);
          const double gather = seconds(c, Collective::AllGather, bytes, mesh, {axis});
          EXPECT_GE(gather, (parts - 1) / parts * bytes / fastest) << name;
          EXPECT_LE(gather, seconds(c, Collective::AllReduce, bytes, mesh, {axis})) << name;
          EXPECT_LE(seconds(c, Collective::AllGather, bytes / 2, mesh, {axis}), gather) << name;
        }
      }
    }
  }
}

Task compute(double products) {
  Task t;
  t.name = "product";
  t.products = products;
  t.loc = {"model.cc", 1, nullptr};
  return t;
}
Task gather(double bytes, std::vector<std::int32_t> after = {}) {
  Task t;
  t.name = "all_gather";
  t.is_collective = true;
  t.collective = Collective::AllGather;
  t.bytes = bytes;
  t.axes = {0};
  t.after = std::move(after);
  t.loc = {"model.cc", 2, nullptr};
  return t;
}
const ClusterModel& ring8() {
  static const ClusterModel c = machine({torus({8})});
  return c;
}
constexpr double kGather64 = 4 + 56 / 8.0;

TEST(TimelineRun, CollectivesRunBesideComputation) {
  Schedule s;
  s.tasks = {gather(64), compute(5000), compute(1000)};
  s.tasks[2].after = {0};
  const Timeline t = run(s, ring8(), {8});
  EXPECT_DOUBLE_EQ(t.seconds, kGather64 + 1) << "five of its eleven seconds are hidden";
  EXPECT_DOUBLE_EQ(t.compute, 6);
  EXPECT_DOUBLE_EQ(t.exposed, kGather64 - 5);
  EXPECT_DOUBLE_EQ(t.communication, kGather64);
  ASSERT_EQ(t.lines.size(), 2U);
  EXPECT_EQ(t.lines[0].first.line, 1U);
  EXPECT_DOUBLE_EQ(t.lines[1].second.exposed, kGather64 - 5);
}

TEST(TimelineRun, OthersLetTheDeviceWait) {
  ClusterModel c = ring8();
  c.overlaps = {};
  Schedule s;
  s.tasks = {compute(5000), gather(64), compute(1000)};
  const Timeline t = run(s, c, {8});
  EXPECT_DOUBLE_EQ(t.seconds, 5 + kGather64 + 1);
  EXPECT_DOUBLE_EQ(t.exposed, kGather64);
}

TEST(TimelineRun, LinksCarryOneCollectiveAfterTheOther) {
  Schedule s;
  s.tasks = {gather(64), gather(64)};
  EXPECT_DOUBLE_EQ(run(s, ring8(), {8}).seconds, 2 * kGather64);
}

TEST(TimelineRun, RooflineAndLaunch) {
  ClusterModel c = ring8();
  c.device.launch = 0.25;
  Schedule s;
  s.tasks = {compute(5000)};
  s.tasks[0].bytes = 70;  // seven seconds of memory against five of arithmetic
  EXPECT_DOUBLE_EQ(run(s, c, {8}).seconds, 7.25);
}

// A loop takes what its rounds, written out, take.
TEST(TimelineRun, LoopsAreTheirRounds) {
  for (double bytes : {8.0, 64.0, 200.0}) {
    for (std::int64_t times : {1, 2, 3, 50}) {
      Schedule body;
      body.tasks = {gather(bytes), compute(3000)};
      body.tasks[1].after = {0};
      body.tasks[1].after_round = true;
      body.carried = {1};
      Schedule loop;
      Task t;
      t.name = "loop";
      t.times = times;
      t.body = std::make_shared<Schedule>(body);
      loop.tasks = {t};
      Schedule written;
      for (std::int32_t i = 0; i < times; ++i) {
        written.tasks.push_back(gather(bytes));
        written.tasks.push_back(compute(3000));
        written.tasks.back().after = {2 * i};
      }
      const Timeline a = run(loop, ring8(), {8});
      const Timeline b = run(written, ring8(), {8});
      EXPECT_NEAR(a.seconds, b.seconds, 1e-9 * b.seconds) << bytes << " bytes, " << times << " rounds";
      EXPECT_NEAR(a.compute, b.compute, 1e-9 * b.compute);
      EXPECT_NEAR(a.exposed, b.exposed, 1e-9 * b.seconds);
      EXPECT_EQ(a.collectives, b.collectives);
    }
  }
}

}  // namespace
}  // namespace tessera::planner
