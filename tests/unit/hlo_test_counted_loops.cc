// SPDX-License-Identifier: Apache-2.0
// Loops of StableHLO that count: how often the plan says that they communicate, and variables that never change.
#include <gtest/gtest.h>

#include <cmath>

#include "base/strings.h"
#include "tessera/comm_plan.h"
#include "tessera/device.h"
#include "tessera/stablehlo.h"

namespace tessera {
namespace {

struct Counter {
  std::string type = "i32", first = "0", limit = "10", step = "1";
  std::string test = "LT, %i, %limit";
  std::string next = "stablehlo.add %i, %step";
};

// x = sum(t x) / 8 in every round, for t that is split and x that is not.
std::string loop_text(const Counter& c) {
  std::string t = str("tensor<", c.type, ">");
  auto constant = [&](const char* name, const std::string& value) {
    return str("      %", name, " = stablehlo.constant dense<", value, "> : ", t, "\n");
  };
  return str(R"(
module @m attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%t: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}, %start: tensor<f32>, %n: )",
             t, R"() -> tensor<f32> {
)",
             constant("first", c.first), constant("many", c.limit), R"(
    %0:4 = stablehlo.while(%u = %t, %i = %first, %x = %start, %most = %many) : tensor<8xf32>, )",
             t, ", tensor<f32>, ", t, R"(
    cond {
)",
             constant("limit", c.limit), "      %1 = stablehlo.compare ", c.test, " : (", t, ", ", t, R"() -> tensor<i1>
      stablehlo.return %1 : tensor<i1>
    } do {
      %eighth = stablehlo.constant dense<0.125> : tensor<f32>
      %zero = stablehlo.constant dense<0.0> : tensor<f32>
)",
             constant("step", c.step), R"(
      %1 = stablehlo.multiply %x, %eighth : tensor<f32>
      %2 = stablehlo.broadcast_in_dim %1, dims = [] : (tensor<f32>) -> tensor<8xf32>
      %3 = stablehlo.multiply %u, %2 : tensor<8xf32>
      %4 = stablehlo.reduce(%3 init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<8xf32>, tensor<f32>) -> tensor<f32>
      %5 = )",
             c.next, " : ", t, R"(
      stablehlo.return %u, %5, %4, %most : tensor<8xf32>, )",
             t, ", tensor<f32>, ", t, R"(
    }
    return %0#2 : tensor<f32>
  }
})");
}

std::int64_t planned(const Counter& c, std::int64_t rounds) {
  ClientScope scope(Client::cpu({.devices = 4}));
  auto program = StablehloProgram::parse(loop_text(c));
  std::vector<float> t(8, 2.0f);
  auto number = HostArray::scalar<std::int32_t>(7).astype(c.type == "i32" ? DType::I32 : DType::I8);
  auto args = program.place({HostArray::from(t), HostArray::scalar(1.0f), number});
  EXPECT_EQ(program(args)[0].host().to_vector<float>()[0], std::exp2(static_cast<float>(rounds)));
  std::int64_t found = -2;
  for (const auto& s : program.comm_plan(args).steps()) {
    if (s.op == "all_reduce") found = s.times;
  }
  return found;
}

TEST(HloCountedLoops, ThePlanKnowsHowOftenTheyRun) {
  EXPECT_EQ(planned({}, 10), 10);
  EXPECT_EQ(planned({.first = "-3", .limit = "8", .step = "4"}, 3), 3);
  EXPECT_EQ(planned({.first = "-4", .limit = "8", .step = "4"}, 3), 3);
  EXPECT_EQ(planned({.test = "GT, %limit, %i", .next = "stablehlo.add %step, %i"}, 10), 10);
  EXPECT_EQ(planned({.first = "10"}, 0), 0);
  EXPECT_EQ(planned({.test = "LT, %i, %most"}, 10), 10);  // a variable that never changes
  EXPECT_EQ(planned({.type = "i8", .first = "0", .limit = "127", .step = "1"}, 127), 127);
}

TEST(HloCountedLoops, AndDoesNotGuess) {
  EXPECT_EQ(planned({.test = "LT, %i, %n"}, 7), -1);       // a limit that an argument gives
  EXPECT_EQ(planned({.test = "LE, %i, %limit"}, 11), -1);  // another comparison
  EXPECT_EQ(planned({.first = "1", .step = "2", .next = "stablehlo.multiply %i, %step"}, 4), -1);  // 1, 2, 4, 8
  EXPECT_EQ(planned({.first = "10", .limit = "0", .step = "-1", .test = "GT, %i, %limit"}, 10), -1);
  EXPECT_EQ(planned({.step = "5", .next = "stablehlo.add %step, %step"}, 1), -1);  // not the counter
  // 0, 100, and then a number below the limit again: -56, 44, -112, -12, 88, -68, 32, -124, -24, 76, -80, 20, 120.
  EXPECT_EQ(planned({.type = "i8", .first = "0", .limit = "120", .step = "100"}, 14), -1);
}

TEST(HloCountedLoops, VariablesThatNeverChangeAreGatheredOnce) {
  ClientScope scope(Client::cpu({.devices = 4}));
  auto program = StablehloProgram::parse(R"(
module @m attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%t: tensor<64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}, %rows: tensor<64x1xi32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>})
      -> (tensor<64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}, tensor<64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) {
    %first = stablehlo.constant dense<0> : tensor<i32>
    %zero = stablehlo.constant dense<0.0> : tensor<64xf32>
    %0:4 = stablehlo.while(%u = %t, %i = %first, %places = %rows, %sum = %zero) : tensor<64xf32>, tensor<i32>, tensor<64x1xi32>, tensor<64xf32>
    cond {
      %limit = stablehlo.constant dense<5> : tensor<i32>
      %1 = stablehlo.compare LT, %i, %limit : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %1 : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %1 = stablehlo.broadcast_in_dim %i, dims = [] : (tensor<i32>) -> tensor<64x1xi32>
      %2 = stablehlo.add %places, %1 : tensor<64x1xi32>
      %3 = "stablehlo.gather"(%u, %2) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1>}> : (tensor<64xf32>, tensor<64x1xi32>) -> tensor<64xf32>
      %4 = stablehlo.add %sum, %3 : tensor<64xf32>
      %5 = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %u, %5, %places, %4 : tensor<64xf32>, tensor<i32>, tensor<64x1xi32>, tensor<64xf32>
    }
    return %0#3, %0#0 : tensor<64xf32>, tensor<64xf32>
  }
})");
  std::vector<float> table(64);
  std::vector<std::int32_t> rows(64);
  std::vector<float> want(64);
  for (std::size_t k = 0; k < 64; ++k) table[k] = static_cast<float>(k * k);
  for (std::size_t k = 0; k < 64; ++k) {
    rows[k] = static_cast<std::int32_t>((k * 11) % 60);
    for (std::size_t i = 0; i < 5; ++i) want[k] += table[static_cast<std::size_t>(rows[k]) + i];
  }
  auto args = program.place({HostArray::from(table), HostArray::from(rows, {64, 1})});
  auto out = program(args);
  EXPECT_EQ(out[0].host().to_vector<float>(), want);
  EXPECT_EQ(out[1].host().to_vector<float>(), table);
  CommPlan plan = program.comm_plan(args);
  EXPECT_EQ(plan.bytes_per_device(), 3 * 16 * 4) << to_string(plan);
  // What is written is the same loop.
  std::string again = program.as_text();
  EXPECT_EQ(StablehloProgram::parse(again).as_text(), again);
  EXPECT_EQ(StablehloProgram::parse(again).comm_plan(args).bytes_per_device(), 3 * 16 * 4);
}

TEST(HloCountedLoops, LoopsInWhichNothingChangesStayLoops) {
  auto program = StablehloProgram::parse(R"(
module @m {
  func.func public @main(%x: tensor<2xf32>) -> tensor<2xf32> {
    %0 = stablehlo.while(%u = %x) : tensor<2xf32>
    cond {
      %false = stablehlo.constant dense<false> : tensor<i1>
      stablehlo.return %false : tensor<i1>
    } do {
      stablehlo.return %u : tensor<2xf32>
    }
    return %0 : tensor<2xf32>
  }
})");
  ClientScope scope(Client::cpu({.devices = 1}));
  EXPECT_EQ(program.run({HostArray::from(std::vector<float>{1, 2})})[0].to_vector<float>(), (std::vector<float>{1, 2}));
}

}  // namespace
}  // namespace tessera
