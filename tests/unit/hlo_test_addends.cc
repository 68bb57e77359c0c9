// SPDX-License-Identifier: Apache-2.0
// Unreduced arguments and results of modules are addends, one per device: what JAX's lowered programs take and give.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/unit/hlo_addends.h"

namespace tessera::test {
namespace {

const char* const kDot = R"(
  func.func public @main(%arg0: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}, %arg1: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> (tensor<8x4xf32> {jax.result_info = "result", sdy.sharding = #sdy.sharding<@mesh, [{}, {}], unreduced={"x"}>}) {
    %0 = stablehlo.dot_general %arg0, %arg1, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<8x8xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
    %1 = sdy.sharding_constraint %0 <@mesh, [{}, {}], unreduced={"x"}> : tensor<8x4xf32>
    return %1 : tensor<8x4xf32>
  })";

TEST(HloAddends, AProductLeavesItsSumUndone) {
  Called c(module(kDot));
  Array out = c.result();
  HostArray value = value_of_shards(out);
  HostArray want(float32, {8, 4});
  for (std::int64_t i = 0; i < 8; ++i) {
    for (std::int64_t j = 0; j < 4; ++j) {
      float sum = 0;
      for (std::int64_t k = 0; k < 8; ++k)
        sum += c.whole[0].span<float>()[i * 8 + k] * c.whole[1].span<float>()[k * 4 + j];
      want.span<float>()[i * 4 + j] = sum;
    }
  }
  expect_equal(value, want);
  expect_equal(c.plain(), want);
  // Each device has the product of its own columns and rows.
  Floats first = out.addressable_shards()[0].value().host().to_vector<float>();
  float own = 0;
  for (std::int64_t k = 0; k < 2; ++k) own += c.whole[0].span<float>()[k] * c.whole[1].span<float>()[k * 4];
  EXPECT_EQ(first[0], own);
  EXPECT_EQ(Called(module(kDot)).collectives(), 0);
  EXPECT_THROW(out.host(), StateError);
}

std::string of_one(const std::string& in, const std::string& out, const std::string& body,
                   const std::string& result = "tensor<8xf32>") {
  return module(str("  func.func public @main(%arg0: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, ", in,
                    ">}) -> (", result, " {sdy.sharding = #sdy.sharding<@mesh, ", out, ">}) {\n", body, "\n  }"));
}

TEST(HloAddends, ReshardsBothWays) {
  struct Case {
    std::string from, to;
    std::int64_t collectives;
  };
  const std::string whole = "[{}]", x = "[{\"x\"}]", y = "[{\"y\"}]", sum = "[{}], unreduced={\"x\"}",
                    both = "[{}], unreduced={\"x\", \"y\"}", split = "[{\"y\"}], unreduced={\"x\"}";
  for (const Case& k :
       {Case{whole, sum, 0}, Case{sum, whole, 1}, Case{sum, x, 1}, Case{sum, sum, 0}, Case{sum, both, 0},
        Case{both, sum, 1}, Case{both, whole, 1}, Case{x, sum, 0}, Case{x, both, 0}, Case{split, sum, 1},
        Case{sum, split, 0}, Case{split, y, 1}, Case{y, split, 0}, Case{x, split, -1}}) {
    std::string text = of_one(k.from, k.to,
                              str("    %0 = sdy.sharding_constraint %arg0 <@mesh, ", k.to, "> : tensor<8xf32>\n",
                                  "    return %0 : tensor<8xf32>"));
    Called c(text);
    expect_equal(value_of_shards(c.result()), c.whole[0]);
    expect_equal(c.plain(), c.whole[0]);
    if (k.collectives >= 0) {
      EXPECT_EQ(Called(text).collectives(), k.collectives) << k.from << " to " << k.to;
    }
    // Without the constraint the result's sharding says the same.
    Called d(of_one(k.from, k.to, "    return %arg0 : tensor<8xf32>"));
    expect_equal(value_of_shards(d.result()), d.whole[0]);
  }
}

TEST(HloAddends, LinearCodePassesThem) {
  const std::string sum = "[{}], unreduced={\"x\"}";
  std::string add = of_one(
      sum, sum,
      str("    %0 = stablehlo.add %arg0, %arg0 : tensor<8xf32>\n", "    %1 = sdy.sharding_constraint %0 <@mesh, ", sum,
          "> : tensor<8xf32>\n", "    return %1 : tensor<8xf32>"));
  Called c(add);
  HostArray twice = c.program.run({counting({8})})[0];
  expect_equal(value_of_shards(c.result()), twice);
  EXPECT_EQ(Called(add).collectives(), 0);
  // What is larger than the operand too: whoever reads it takes it as a sum.
  std::string wide =
      of_one(sum, "[{}, {}], unreduced={\"x\"}",
             "    %0 = stablehlo.broadcast_in_dim %arg0, dims = [1] : (tensor<8xf32>) -> tensor<4x8xf32>\n"
             "    %1 = sdy.sharding_constraint %0 <@mesh, [{}, {}], unreduced={\"x\"}> : tensor<4x8xf32>\n"
             "    return %1 : tensor<4x8xf32>",
             "tensor<4x8xf32>");
  Called w(wide);
  expect_equal(value_of_shards(w.result()), w.plain());
  EXPECT_EQ(Called(wide).collectives(), 0);
  // What is not linear sums first.
  Called s(of_one(sum, sum, "    %0 = stablehlo.multiply %arg0, %arg0 : tensor<8xf32>\n    return %0 : tensor<8xf32>"));
  expect_equal(value_of_shards(s.result()), s.plain());
}

TEST(HloAddends, AReducedFactorKeepsTheSum) {
  std::string text = module(R"(
  func.func public @main(%arg0: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}, %arg1: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}], unreduced={"x"}>}) -> (tensor<8xf32> {jax.result_info = "result", sdy.sharding = #sdy.sharding<@mesh, [{}], unreduced={"x"}>}) {
    %0 = stablehlo.multiply %arg0, %arg1 : tensor<8xf32>
    %1 = sdy.sharding_constraint %0 <@mesh, [{}], unreduced={"x"}> : tensor<8xf32>
    return %1 : tensor<8xf32>
  })");
  Called c(text);
  expect_equal(value_of_shards(c.result()), c.plain());
  EXPECT_EQ(Called(text).collectives(), 0);
}

const std::string kSum =
    "%1 = \"stablehlo.all_reduce\"(%arg1) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, "
    "replica_groups = dense<[[0, 2, 4, 6], [1, 3, 5, 7]]> : tensor<2x4xi64>, use_global_device_ids}> ({\n"
    "^bb0(%arg2: tensor<f32>, %arg3: tensor<f32>):\n%2 = stablehlo.add %arg2, %arg3 : tensor<f32>\n"
    "stablehlo.return %2 : tensor<f32>\n}) : (tensor<8xf32>) -> tensor<8xf32>\nsdy.return %1 : tensor<8xf32>\n";

std::string map(const std::string& in, const std::string& out, const std::string& local, const std::string& body,
                const std::string& result = "tensor<8xf32>", const std::string& before = "") {
  return of_one(
      in, out,
      str(before, "    %0 = sdy.manual_computation(", before.empty() ? "%arg0" : "%c", ") in_shardings=[<@mesh, ", in,
          ">] out_shardings=[<@mesh, ", out, ">] manual_axes={\"x\", \"y\"} (%arg1: ", local, ") {\n", body,
          "    } : (tensor<8xf32>) -> ", result, "\n    return %0 : ", result),
      result);
}

TEST(HloAddends, EnterAndLeaveManualComputations) {
  const std::string sum = "[{}], unreduced={\"x\"}";
  // One sum, that of the body.
  std::string psum = map(sum, "[{}]", "tensor<8xf32>", kSum);
  Called c(psum);
  expect_equal(value_of_shards(c.result()), c.whole[0]);
  EXPECT_EQ(Called(psum).collectives(), 1);
  // As they are.
  std::string same = map(sum, sum, "tensor<8xf32>", "sdy.return %arg1 : tensor<8xf32>\n");
  Called d(same);
  std::vector<Array> args = d.arguments();
  Array out = d.program(args)[0];
  for (std::size_t i = 0; i < 8; ++i) {
    expect_equal(out.addressable_shards()[i].value().host(), args[0].addressable_shards()[i].value().host());
  }
  EXPECT_EQ(Called(same).collectives(), 0);
  // pcast(x, 'x', to='unreduced') of a split value.
  std::string cast = map("[{\"x\"}]", sum, "tensor<2xf32>", "sdy.return %arg1 : tensor<2xf32>\n", "tensor<2xf32>");
  Called e(cast);
  Floats sums = value_of_shards(e.result()).to_vector<float>();
  Floats v = e.whole[0].to_vector<float>();
  EXPECT_EQ(sums, (Floats{v[0] + v[2] + v[4] + v[6], v[1] + v[3] + v[5] + v[7]}));
  EXPECT_EQ(Called(cast).collectives(), 0);
  // A value that is equal on all devices: each of them is an addend, as in a map that does not check types.
  Called f(map("[{}]", sum, "tensor<8xf32>", "sdy.return %arg1 : tensor<8xf32>\n"));
  Floats four = value_of_shards(f.result()).to_vector<float>();
  for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(four[i], 4 * f.whole[0].span<float>()[i]);
  // And back, taken as it is.
  Called g(map(sum, "[{\"x\"}]", "tensor<8xf32>", "sdy.return %arg1 : tensor<8xf32>\n", "tensor<32xf32>"));
  args = g.arguments();
  Floats own = g.program(args)[0].host().to_vector<float>();
  for (std::size_t k = 0; k < 4; ++k) {
    Floats at = args[0].addressable_shards()[2 * k].value().host().to_vector<float>();
    EXPECT_TRUE(std::equal(at.begin(), at.end(), own.begin() + static_cast<std::ptrdiff_t>(8 * k)));
  }
}

TEST(HloAddends, AProductEntersAMapWithoutASum) {
  std::string text = module(str(R"(
  func.func public @main(%arg0: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}, %arg4: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> (tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}) {
    %3 = stablehlo.dot_general %arg0, %arg4, contracting_dims = [1] x [0] : (tensor<8x8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %4 = sdy.sharding_constraint %3 <@mesh, [{}], unreduced={"x"}> : tensor<8xf32>
    %0 = sdy.manual_computation(%4) in_shardings=[<@mesh, [{}], unreduced={"x"}>] out_shardings=[<@mesh, [{}]>] manual_axes={"x", "y"} (%arg1: tensor<8xf32>) {
)",
                                kSum, "    } : (tensor<8xf32>) -> tensor<8xf32>\n    return %0 : tensor<8xf32>\n  }"));
  Called c(text);
  expect_equal(value_of_shards(c.result()), c.plain());
  Called d(text);
  CommPlan plan = d.program.comm_plan(d.arguments());
  ASSERT_EQ(plan.steps().size(), 1U) << to_string(plan);
}

// The gradient of a weight that is reduced: addends leave the map.
TEST(HloAddends, GradientOfAReducedWeight) {
  Called c(module(R"(
  func.func public @main(%arg0: tensor<32xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> (tensor<8xf32> {jax.result_info = "result", sdy.sharding = #sdy.sharding<@mesh, [{}], unreduced={"x"}>}) {
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %0 = sdy.sharding_constraint %cst <@mesh, []> : tensor<f32>
    %1 = sdy.manual_computation(%0, %arg0) in_shardings=[<@mesh, []>, <@mesh, [{"x"}]>] out_shardings=[<@mesh, [{}], unreduced={"x"}>] manual_axes={"x", "y"} (%arg1: tensor<f32>, %arg2: tensor<8xf32>) {
      %2 = stablehlo.broadcast_in_dim %arg1, dims = [] : (tensor<f32>) -> tensor<8xf32>
      %3 = stablehlo.multiply %2, %arg2 : tensor<8xf32>
      sdy.return %3 : tensor<8xf32>
    } : (tensor<f32>, tensor<32xf32>) -> tensor<8xf32>
    return %1 : tensor<8xf32>
  })"));
  Array out = c.result();
  for (std::size_t d = 0; d < 8; ++d) {
    Floats got = out.addressable_shards()[d].value().host().to_vector<float>();
    for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(got[i], c.whole[0].span<float>()[d / 2 * 8 + i]);
  }
}

// A cotangent that is whole becomes a sum, and is summed in a map (the gradient of pcast to reduced).
TEST(HloAddends, AWholeValueBecomesASum) {
  Called c(of_one("[{}]", "[{}]",
                  str("    %3 = sdy.sharding_constraint %arg0 <@mesh, [{}], unreduced={\"x\"}> : tensor<8xf32>\n",
                      "    %0 = sdy.manual_computation(%3) in_shardings=[<@mesh, [{}], unreduced={\"x\"}>] "
                      "out_shardings=[<@mesh, [{}]>] manual_axes={\"x\", \"y\"} (%arg1: tensor<8xf32>) {\n",
                      kSum, "    } : (tensor<8xf32>) -> tensor<8xf32>\n    return %0 : tensor<8xf32>")));
  expect_equal(value_of_shards(c.result()), c.whole[0]);
}

// Gradients of minibatches are added up in a loop, and summed over devices once, after it.
TEST(HloAddends, LoopVariablesStaySums) {
  std::string text = module(R"(
  func.func public @main(%arg0: tensor<4x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, %arg1: tensor<3x8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}, {}]>}) -> (tensor<4x4xf32> {jax.result_info = "result", sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}) {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<4x4xf32>
    %1 = sdy.sharding_constraint %0 <@mesh, [{}, {}]> : tensor<4x4xf32>
    %2 = sdy.sharding_constraint %1 <@mesh, [{}, {}], unreduced={"x"}> : tensor<4x4xf32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %3:3 = stablehlo.while(%iterArg = %arg1, %iterArg_0 = %c, %iterArg_1 = %2) : tensor<3x8x4xf32>, tensor<i32>, tensor<4x4xf32>
    cond {
      %c_2 = stablehlo.constant dense<3> : tensor<i32>
      %11 = sdy.sharding_constraint %iterArg_0 <@mesh, []> : tensor<i32>
      %12 = sdy.sharding_constraint %c_2 <@mesh, []> : tensor<i32>
      %13 = stablehlo.compare LT, %11, %12, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %13 : tensor<i1>
    } do {
      %11 = func.call @dynamic_index_in_dim(%iterArg, %iterArg_0) : (tensor<3x8x4xf32>, tensor<i32>) -> tensor<8x4xf32>
      %12 = func.call @closed_call(%iterArg_1, %11) : (tensor<4x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
      %c_2 = stablehlo.constant dense<1> : tensor<i32>
      %13 = sdy.sharding_constraint %iterArg_0 <@mesh, []> : tensor<i32>
      %14 = sdy.sharding_constraint %c_2 <@mesh, []> : tensor<i32>
      %15 = stablehlo.add %13, %14 : tensor<i32>
      %16 = sdy.sharding_constraint %15 <@mesh, []> : tensor<i32>
      stablehlo.return %iterArg, %16, %12 : tensor<3x8x4xf32>, tensor<i32>, tensor<4x4xf32>
    }
    %4 = sdy.sharding_constraint %3#1 <@mesh, []> : tensor<i32>
    %5 = sdy.sharding_constraint %3#2 <@mesh, [{}, {}], unreduced={"x"}> : tensor<4x4xf32>
    %6 = sdy.sharding_constraint %5 <@mesh, [{}, {}], unreduced={"x"}> : tensor<4x4xf32>
    %7 = sdy.sharding_constraint %arg0 <@mesh, [{}, {}]> : tensor<4x4xf32>
    %8 = sdy.sharding_constraint %6 <@mesh, [{}, {}]> : tensor<4x4xf32>
    %9 = stablehlo.subtract %7, %8 : tensor<4x4xf32>
    %10 = sdy.sharding_constraint %9 <@mesh, [{}, {}]> : tensor<4x4xf32>
    return %10 : tensor<4x4xf32>
  }
  func.func private @dynamic_index_in_dim(%arg0: tensor<3x8x4xf32>, %arg1: tensor<i32>) -> tensor<8x4xf32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.dynamic_slice %arg0, %arg1, %c, %c_0, sizes = [1, 8, 4] : (tensor<3x8x4xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x8x4xf32>
    %1 = sdy.sharding_constraint %0 <@mesh, [{}, {"x"}, {}]> : tensor<1x8x4xf32>
    %2 = stablehlo.reshape %1 : (tensor<1x8x4xf32>) -> tensor<8x4xf32>
    %3 = sdy.sharding_constraint %2 <@mesh, [{"x"}, {}]> : tensor<8x4xf32>
    return %3 : tensor<8x4xf32>
  }
  func.func private @closed_call(%arg0: tensor<4x4xf32>, %arg1: tensor<8x4xf32>) -> tensor<4x4xf32> {
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %0 = sdy.sharding_constraint %cst <@mesh, []> : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<8x4xf32>
    %2 = sdy.sharding_constraint %1 <@mesh, [{"x"}, {}]> : tensor<8x4xf32>
    %3 = stablehlo.dot_general %2, %arg1, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
    %4 = sdy.sharding_constraint %3 <@mesh, [{}, {}], unreduced={"x"}> : tensor<4x4xf32>
    %5 = stablehlo.transpose %4, dims = [1, 0] : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %6 = sdy.sharding_constraint %5 <@mesh, [{}, {}], unreduced={"x"}> : tensor<4x4xf32>
    %7 = stablehlo.add %arg0, %6 : tensor<4x4xf32>
    %8 = sdy.sharding_constraint %7 <@mesh, [{}, {}], unreduced={"x"}> : tensor<4x4xf32>
    return %8 : tensor<4x4xf32>
  })",
                            R"(<["x"=8]>)");
  Called c(text);
  expect_equal(value_of_shards(c.result()), c.plain());
  Floats want = c.whole[0].to_vector<float>();
  for (std::int64_t i = 0; i < 4; ++i) {
    float sum = 0;
    for (std::int64_t k = 0; k < 24; ++k) sum += c.whole[1].span<float>()[k * 4 + i];
    for (std::int64_t j = 0; j < 4; ++j) want[static_cast<std::size_t>(i * 4 + j)] -= sum;
  }
  EXPECT_EQ(c.plain().to_vector<float>(), want);
  CommPlan plan = c.program.comm_plan(c.arguments());
  EXPECT_EQ(plan.steps().size(), 1U) << to_string(plan);
  EXPECT_EQ(plan.count("all_reduce"), 1) << to_string(plan);
}

TEST(HloAddends, DevicesInAnotherOrder) {
  const std::string sum = "[{}], unreduced={\"x\"}";
  std::string text = of_one(
      sum, sum,
      str("    %0 = stablehlo.add %arg0, %arg0 : tensor<8xf32>\n", "    %1 = sdy.sharding_constraint %0 <@mesh, ", sum,
          "> : tensor<8xf32>\n", "    return %1 : tensor<8xf32>"));
  const std::string mesh = R"(<["x"=4, "y"=2]>)";
  text.replace(text.find(mesh), mesh.size(), R"(<["x"=4, "y"=2], device_ids=[7, 3, 1, 5, 0, 2, 6, 4]>)");
  Called c(text);
  std::vector<Array> args = c.arguments();
  Array out = c.program(args)[0];
  for (std::size_t d = 0; d < 8; ++d) {
    Floats in = args[0].addressable_shards()[d].value().host().to_vector<float>();
    for (auto& x : in) x *= 2;
    EXPECT_EQ(out.addressable_shards()[d].value().host().to_vector<float>(), in);
    EXPECT_EQ(out.addressable_shards()[d].device(), args[0].addressable_shards()[d].device());
  }
}

TEST(HloAddends, HloShardings) {
  for (const char* s : {"{unreduced}", "{devices=[4,1,2]<=[8] last_tile_dims={unreduced}}",
                        "{devices=[2,1,4]<=[4,2]T(1,0) last_tile_dims={unreduced}}",
                        "{devices=[2,1,2,2]<=[8] last_tile_dims={unreduced, replicated}}"}) {
    std::string text = str("module @m attributes {mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32} {\n",
                           "func.func public @main(%arg0: tensor<8x4xf32> {mhlo.sharding = \"", s,
                           "\"}) -> (tensor<8x4xf32> {mhlo.sharding = \"", s,
                           "\"}) {\n%0 = stablehlo.add %arg0, %arg0 : tensor<8x4xf32>\n"
                           "%1 = stablehlo.custom_call @Sharding(%0) {mhlo.sharding = \"",
                           s, "\"} : (tensor<8x4xf32>) -> tensor<8x4xf32>\nreturn %1 : tensor<8x4xf32>\n}\n}\n");
    Called c(text);
    expect_equal(value_of_shards(c.result()), c.plain());
    EXPECT_EQ(Called(text).collectives(), 0) << s;
  }
  Called odd(
      "module @m attributes {mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32} {\n"
      "func.func public @main(%arg0: tensor<8x4xf32> {mhlo.sharding = \"{devices=[2,1,4]0,7,2,5,1,6,3,4 "
      "last_tile_dims={unreduced}}\"}) -> tensor<8x4xf32> {\nreturn %arg0 : tensor<8x4xf32>\n}\n}\n");
  EXPECT_THROW(odd.arguments(), UnimplementedError);
}

TEST(HloAddends, ShardyReshardsBetweenSums) {
  for (const char* op : {"sdy.replicated_to_unreduced {\"x\"} %arg0 out_sharding=<@mesh, [{}], unreduced={\"x\"}>",
                         "sdy.sharding_constraint %arg0 <@mesh, [{}], unreduced={\"x\"}>"}) {
    std::string text = of_one("[{}]", "[{}], unreduced={\"x\"}",
                              str("    %0 = ", op, " : tensor<8xf32>\n    return %0 : tensor<8xf32>"));
    Called c(text);
    Array out = c.result();
    // The first position along the axis keeps the value, as JAX's reshard.
    for (std::size_t d = 0; d < 8; ++d) {
      Floats got = out.addressable_shards()[d].value().host().to_vector<float>();
      EXPECT_EQ(got, d < 2 ? c.whole[0].to_vector<float>() : Floats(8, 0.0F)) << op;
    }
  }
  std::string text = of_one("[{\"x\"}]", "[{}], unreduced={\"x\"}",
                            "    %0 = sdy.sharded_to_unreduced [{\"x\"}] %arg0 out_sharding=<@mesh, [{}], "
                            "unreduced={\"x\"}> : tensor<8xf32>\n    return %0 : tensor<8xf32>");
  Called c(text);
  Array out = c.result();
  // Every device keeps its own block.
  for (std::size_t d = 0; d < 8; ++d) {
    Floats want(8, 0.0F);
    for (std::size_t i = d / 2 * 2; i < d / 2 * 2 + 2; ++i) want[i] = c.whole[0].span<float>()[i];
    EXPECT_EQ(out.addressable_shards()[d].value().host().to_vector<float>(), want);
  }
  EXPECT_EQ(Called(text).collectives(), 0);
}

TEST(HloAddends, WrittenAndReadAgain) {
  for (const std::string& text : {module(kDot), map("[{}], unreduced={\"x\"}", "[{}], unreduced={\"x\"}",
                                                    "tensor<8xf32>", "sdy.return %arg1 : tensor<8xf32>\n")}) {
    Called c(text);
    Array out = c.result();
    std::string written = c.program.as_text();
    Called again(written);
    Array same = again.result();
    for (std::size_t d = 0; d < 8; ++d) {
      expect_equal(same.addressable_shards()[d].value().host(), out.addressable_shards()[d].value().host());
    }
    EXPECT_EQ(StablehloProgram::parse(written).as_text(), written);
  }
}

}  // namespace
}  // namespace tessera::test
