// SPDX-License-Identifier: Apache-2.0
// The communication plan and its budget.
#include <gtest/gtest.h>

#include "ops/ops.h"
#include "support/spmd_sketch.h"
#include "tessera/error.h"

namespace tessera {
namespace {

using ir::Builder;
using ir::Value;
using test::module;
using test::partitioned;

const ir::MeshAxes kMesh = test::mesh_of("data:4, model:2");
ir::Type f32(Shape shape) { return {DType::F32, std::move(shape)}; }

TEST(CommPlan, NamesAxesBytesAndTheLineThatIsTheCause) {
  Builder b;
  Value x = b.input(f32({64, 32}));
  Value w = b.input(f32({32, 16}));
  b.set_loc({"src/model.cc", 42, nullptr});
  Value y = ops::dot_general(x, w, {{1}, {0}, {}, {}});
  b.set_loc({"src/model.cc", 43, nullptr});
  Value z = ops::tanh(ops::neg(y));
  b.set_loc({"src/model.cc", 44, nullptr});
  Value s = ops::reshape(z, {1024});
  CommPlan plan = spmd::comm_plan(*partitioned(module(b, {s}, kMesh, {"data, model", "model, -"}, {"-"})));
  ASSERT_EQ(plan.steps().size(), 2u);
  const CommStep& sum = plan.steps()[0];
  EXPECT_EQ(sum.op, "all_reduce");
  EXPECT_EQ(sum.axes, std::vector<std::string>{"model"});
  EXPECT_EQ(sum.bytes_per_device, 64 / 4 * 16 * 4);  // 2 (n-1)/n of the shard, n = 2
  EXPECT_EQ(sum.times, 1);
  EXPECT_EQ(sum.value, "f32[64,16]");
  EXPECT_EQ(sum.equation, "dot_general");
  EXPECT_EQ(to_string(sum.loc), "model.cc:42") << "the product is the cause, not what first needs it";
  EXPECT_EQ(sum.reason, "completes the sum of dot_general");
  const CommStep& gather = plan.steps()[1];
  EXPECT_EQ(gather.op, "all_gather");
  EXPECT_EQ(gather.equation, "return");
  EXPECT_EQ(gather.reason, "output 0 needs [-]");
  EXPECT_EQ(plan.bytes_per_device(), 1024 + 3072);
  EXPECT_EQ(plan.count("all_gather"), 1);
  EXPECT_EQ(to_string(plan),
            "collective  axes   value       bytes/device  times  where                       why\n"
            "all_reduce  model  f32[64,16]          1024      1  dot_general at model.cc:42  completes the sum of "
            "dot_general\n"
            "all_gather  data   f32[1024]           3072      1  return                      output 0 needs [-]\n"
            "total: 4096 bytes per device in 2 steps\n");
}

TEST(CommPlan, LongCellsGoOnInTheNextLine) {
  CommStep joined{"all_reduce",
                  {"data"},
                  18210,
                  1,
                  "f32[144,32], f32[32], f32[128,10], f32[10]",
                  "dot_general at a.cc:48 (net), reduce_sum at a.cc:48 (net), reduce_sum",
                  {"a.cc", 72, nullptr},
                  "completes the sum of dot_general; completes the sum of reduce_sum; 4 such exchanges as one"};
  CommStep one{"all_to_all",
               {"model"},
               64,
               2,
               "f32[8]",
               "reshape",
               {"a.cc", 5, nullptr},
               "operand 0 of a_rather_long_name_of_an_op needs [data, -, -, -, model]"};
  EXPECT_EQ(to_string(CommPlan({joined, one})),
            "collective  axes   value                  bytes/device  times  where                          why\n"
            "all_reduce  data   f32[144,32], f32[32],         18210      1  dot_general at a.cc:48 (net),  "
            "completes the sum of dot_general;\n"
            "                   f32[128,10], f32[10]                        reduce_sum at a.cc:48 (net),   "
            "completes the sum of reduce_sum; 4 such exchanges as one\n"
            "                                                               reduce_sum at a.cc:72\n"
            "all_to_all  model  f32[8]                           64      2  reshape at a.cc:5              "
            "operand 0 of a_rather_long_name_of_an_op needs [data, -, -, -, model]\n"
            "total: 18338 bytes per device in 2 steps\n");
}

TEST(CommPlan, LeavesOutWhatIsFree) {
  Builder b;
  Value x = b.input(f32({64, 32}));
  CommPlan plan = spmd::comm_plan(*partitioned(module(b, {ops::tanh(x)}, kMesh, {"-, -"}, {"data, model"})));
  EXPECT_TRUE(plan.empty()) << to_string(plan);
  EXPECT_EQ(to_string(plan), "no communication\n");
}

TEST(CommPlan, UnknownTimesCountOnce) {
  CommStep once;
  once.bytes_per_device = 10;
  CommStep loop = once;
  loop.times = 7;
  CommStep unknown = once;
  unknown.times = -1;
  EXPECT_EQ(CommPlan({once, loop, unknown}).bytes_per_device(), 10 + 70 + 10);
  CommStep never = once;
  never.times = 0;
  EXPECT_EQ(CommPlan({never}).bytes_per_device(), 0);
}

TEST(CommBudget, TheSmallestInForceHolds) {
  EXPECT_EQ(CommBudget::current(), -1);
  {
    CommBudget outer(100);
    EXPECT_EQ(CommBudget::current(), 100);
    {
      CommBudget inner(200);
      EXPECT_EQ(CommBudget::current(), 100);
      CommBudget none(0);
      EXPECT_EQ(CommBudget::current(), 0);
    }
    EXPECT_EQ(CommBudget::current(), 100);
  }
  EXPECT_EQ(CommBudget::current(), -1);
  EXPECT_THROW(CommBudget(-1), ValueError);
}

}  // namespace
}  // namespace tessera
