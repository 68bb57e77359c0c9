// SPDX-License-Identifier: Apache-2.0
// Exchanges that become one: how many there are, what they move, and that values are the same.
#include <gtest/gtest.h>

#include <random>

#include "base/strings.h"
#include "ir/op_def.h"
#include "ops/ops.h"
#include "ops/shared_attrs.h"
#include "support/random_graphs.h"
#include "support/spmd_simulator.h"
#include "support/spmd_sketch.h"

namespace tessera {
namespace {

using ir::Builder;
using ir::Value;
using ir::Values;

const ir::MeshAxes kMesh = test::mesh_of("x:4, y:2");
ir::Type f32(Shape shape) { return {DType::F32, std::move(shape)}; }

struct Plans {
  CommPlan joined, apart;
};

// Both plans, after the joined program has given the values of the whole one.
Plans plans(const ir::Module& m) {
  std::mt19937_64 rng(1);
  std::vector<HostArray> args;
  for (auto v : m.graph->inputs) args.push_back(test::random_array(rng, m.graph->type(v)));
  auto layouts = spmd::propagate(m);
  ir::GraphPtr joined = spmd::partition(m, layouts);
  ir::verify(*joined);
  auto got = test::run_partitioned(*joined, args);
  auto want = test::evaluate(*m.graph, args);
  for (std::size_t i = 0; i < want.size(); ++i)
    EXPECT_EQ(test::difference(got[i], want[i], 1e-5), "") << "output " << i;
  return {spmd::comm_plan(*joined), spmd::comm_plan(*spmd::partition_apart(m, layouts))};
}

TEST(JoinedExchanges, SmallSumsThatAreReadyTogetherAreOne) {
  Builder b;
  Value x = b.input(f32({64, 32}));
  b.set_loc({"model.cc", 10, nullptr});
  Value columns = ops::reduce_sum(x, {0});
  b.set_loc({"model.cc", 11, nullptr});
  Value all = ops::reduce_sum(x * x, {0, 1});
  b.set_loc({"model.cc", 12, nullptr});
  Value some = ops::reduce_sum(ops::reshape(x, {64, 8, 4}), {0, 2});
  Plans p = plans(test::module(b, {columns, all, some}, kMesh, {"x, -"}, {"-", "", "-"}));
  EXPECT_EQ(p.apart.count("all_reduce"), 3) << to_string(p.apart);
  ASSERT_EQ(p.joined.steps().size(), 1U) << to_string(p.joined);
  const CommStep& step = p.joined.steps()[0];
  EXPECT_EQ(step.bytes_per_device, (2 * 3 * 32 * 4) / 4 + (2 * 3 * 4) / 4 + (2 * 3 * 8 * 4) / 4);
  EXPECT_EQ(p.joined.bytes_per_device(), p.apart.bytes_per_device());
  EXPECT_EQ(step.value, "f32[32], f32[], f32[8]");
  EXPECT_EQ(str(step.equation, " at ", step.loc),
            "reduce_sum at model.cc:10, reduce_sum at model.cc:11, reduce_sum at model.cc:12");
  EXPECT_EQ(step.reason, "completes the sum of reduce_sum; 3 such exchanges as one");
}

TEST(JoinedExchanges, ASumThatDependsOnAnotherWaits) {
  Builder b;
  Value x = b.input(f32({64, 32}));
  Value mean = ops::reduce_sum(x, {0});
  Value centred = x - ops::broadcast_in_dim(mean, {64, 32}, {1});
  Value spread = ops::reduce_sum(centred * centred, {0});
  Plans p = plans(test::module(b, {mean, spread}, kMesh, {"x, -"}, {"-", "-"}));
  EXPECT_EQ(p.joined.count("all_reduce"), 2) << to_string(p.joined);
}

TEST(JoinedExchanges, LargeSumsAndOtherAxesStayApart) {
  Builder b;
  Value x = b.input(f32({8, 128, 128}));
  Value y = b.input(f32({64, 32}));
  Values out{ops::reduce_sum(x, {0}), ops::reduce_sum(x * x, {0}), ops::reduce_sum(y, {0})};
  Plans p = plans(test::module(b, out, kMesh, {"x, -, -", "y, -"}, {"-, -", "-, -", "-"}));
  EXPECT_EQ(p.joined.count("all_reduce"), 3) << to_string(p.joined);
}

TEST(JoinedExchanges, ShardsOfSeveralLayoutsAreSummedTogether) {
  Builder b;
  Value x = b.input(f32({64, 32}));
  Value w = b.input(f32({64, 16}));
  Values out{ops::reduce_sum(x, {0}), ops::reduce_sum(w, {0})};
  Plans p = plans(test::module(b, out, kMesh, {"x, y", "x, -"}, {"y", "-"}));
  EXPECT_EQ(p.joined.count("all_reduce"), 1) << to_string(p.joined);
  EXPECT_EQ(p.joined.bytes_per_device(), (2 * 3 * 16 * 4) / 4 + (2 * 3 * 16 * 4) / 4);
}

TEST(JoinedExchanges, SumsInsideALoopAreJoinedThere) {
  Builder b;
  Value x = b.input(f32({64, 32}));
  Value scale = b.input(f32({32}));
  Builder body;
  Value inner = body.input(f32({64, 32}));
  Value carried = body.input(f32({32}));
  Value scaled = ops::tanh(inner * ops::broadcast_in_dim(carried, {64, 32}, {1}));
  Value all = ops::broadcast_in_dim(ops::reduce_sum(scaled * scaled, {0, 1}), {32}, {});
  Value next = ops::tanh(ops::reduce_sum(scaled, {0})) * all;
  ops::Scan loop{body.finish_shared(Values{next}), 3, false, 1, 1};
  Values out = b.add(ops::def::scan, {x, scale}, ir::make_attrs(std::move(loop)));
  Plans p = plans(test::module(b, out, kMesh, {"x, -", "-"}, {"-"}));
  EXPECT_EQ(p.apart.count("all_reduce"), 2) << to_string(p.apart);
  ASSERT_EQ(p.joined.count("all_reduce"), 1) << to_string(p.joined);
  EXPECT_EQ(p.joined.steps()[0].times, 3);
}

Value slice(Value x, std::int64_t row, std::int64_t column) {
  return ops::slice(x, {row, column}, {row + x.shape()[0] - 2, column + x.shape()[1] - 2});
}

TEST(JoinedExchanges, SlicesOfOneArrayTakeEachEdgeOnce) {
  Builder b;
  Value x = b.input(f32({64, 64}));
  b.set_loc({"heat.cc", 7, nullptr});
  Value around = slice(x, 0, 1) + slice(x, 2, 1) + slice(x, 1, 0) + slice(x, 1, 2);
  b.set_loc({"heat.cc", 8, nullptr});
  Value inside = around - slice(x, 1, 1) * 4.0;
  Plans p = plans(test::module(b, {inside}, kMesh, {"x, y"}, {"x, y"}, {.uneven = true}));
  ASSERT_EQ(p.joined.count("halo_exchange"), 1) << to_string(p.joined);
  EXPECT_EQ(p.apart.count("halo_exchange"), 4) << to_string(p.apart);
  const CommStep& step = p.joined.steps()[0];
  // Two rows of 32 from below, a column of 15 from beside, and the corner between them.
  EXPECT_EQ(step.bytes_per_device, (2 * 32 + 15 + 1) * 4) << to_string(p.joined);
  EXPECT_EQ(str(step.equation, " at ", step.loc), "slice at heat.cc:7, slice at heat.cc:8");
}

TEST(JoinedExchanges, FillingsThatAreWrittenTwiceAreOne) {
  for (bool equal : {true, false}) {
    Builder b;
    Value x = b.input(f32({64, 32}));
    auto shifted = [&](std::int64_t by, double filling) {
      return ops::pad(x, ops::scalar(b, filling, DType::F32), {by, 0}, {-by, 0});
    };
    Value y = shifted(1, 0) + shifted(-1, equal ? 0 : 1);
    const Plans p = plans(test::module(b, {y}, kMesh, {"x, -"}, {"x, -"}));
    EXPECT_EQ(p.joined.count("halo_exchange"), equal ? 1 : 2) << to_string(p.joined);
  }
}

TEST(JoinedExchanges, EdgesOnBothSidesOfTwoShardsDoNotBecomeTheShard) {
  Builder b;
  Value x = b.input(f32({16, 64}));
  auto rolled = [&](std::int64_t by) {
    std::int64_t n = 64;
    std::int64_t at = (by + n) % n;
    return ops::concatenate(Values{ops::slice_in_dim(x, n - at, n, 1), ops::slice_in_dim(x, 0, n - at, 1)}, 1);
  };
  Value y = rolled(1) + rolled(-1) + rolled(2);
  Plans p = plans(test::module(b, {y}, kMesh, {"-, y"}, {"-, y"}));
  EXPECT_LE(p.joined.bytes_per_device(), 3 * 16 * 4) << to_string(p.joined);
  EXPECT_LE(p.joined.bytes_per_device(), p.apart.bytes_per_device());
}

// Eight neighbours in a grid, as programs of rolls write them: two shifts along the split rows, each three times.
TEST(JoinedExchanges, ShiftsThatAreWrittenTwiceAreOneResult) {
  Builder b;
  Value x = b.input(f32({64, 12}));
  auto roll = [&](Value v, std::int64_t by, std::int64_t d) {
    const std::int64_t n = v.shape()[static_cast<std::size_t>(d)];
    return ops::concatenate(Values{ops::slice_in_dim(v, n - by, n, d), ops::slice_in_dim(v, 0, n - by, d)}, d);
  };
  Values rows = {x, x};
  Value sum = roll(x, 1, 1) + roll(x, 11, 1) * 2.0;
  for (std::int64_t by : {1, 63}) {
    for (std::int64_t column : {0, 1, 11}) {
      rows.push_back(roll(x, by, 0));
      sum = sum + (column == 0 ? rows.back() : roll(rows.back(), column, 1)) * static_cast<double>(by + column);
    }
  }
  rows.push_back(sum);
  rows.erase(rows.begin(), rows.begin() + 2);
  const ir::Module m = test::module(b, rows, kMesh, {"x, -"}, std::vector<std::string>(rows.size(), "x, -"));
  Plans p = plans(m);
  EXPECT_EQ(p.joined.bytes_per_device(), 2 * 12 * 4) << to_string(p.joined);
  const ir::GraphPtr joined = spmd::partition(m, spmd::propagate(m));
  std::size_t results = 0;
  for (const ir::Eqn& e : joined->eqns) results += e.op->name() == "halo" ? e.out.size() : 0;
  EXPECT_EQ(results, 2U);
}

}  // namespace
}  // namespace tessera
