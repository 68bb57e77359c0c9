// SPDX-License-Identifier: Apache-2.0
// Placement that texts ask for, forms that JAX's own printer does not choose, and bounds.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "tessera/device.h"
#include "tessera/error.h"
#include "tessera/sharding.h"
#include "tessera/stablehlo.h"

namespace tessera {
namespace {

HostArray numbers(std::int64_t n) {
  std::vector<float> v;
  for (std::int64_t i = 0; i < n; ++i) v.push_back(static_cast<float>(i));
  return HostArray::from(v);
}

// On devices as on the host: taken as they are, bits of another dtype would be read as the module's.
TEST(HloRun, ArgumentsThatAreNotOfTheModuleAreRefused) {
  ClientScope scope(Client::cpu({.devices = 2}));
  auto program = StablehloProgram::parse(R"(
module @m {
  func.func public @main(%arg0: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.add %arg0, %arg0 : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
})");
  const Array integers(HostArray::from<std::int32_t>({1, 2, 3, 4}));
  const Array good(numbers(4));
  EXPECT_THROW(program({integers}), TypeError);
  EXPECT_THROW(program.comm_plan({integers}), TypeError);
  EXPECT_THROW(program.device_text({integers}), TypeError);
  EXPECT_THROW(program({Array(numbers(8))}), ValueError);
  EXPECT_THROW(program({good, good}), ValueError);
  EXPECT_THROW(program.comm_plan({}), ValueError);
  EXPECT_THROW(program({Array()}), StateError);
  EXPECT_EQ(program({good})[0].to_vector<float>(), (std::vector<float>{0, 2, 4, 6}));
}

TEST(HloRun, DonatedArgumentsAreDeletedWhereTheOptionsSaySo) {
  ClientScope scope(Client::cpu({.devices = 2}));
  const char* text = R"(
module @m {
  func.func public @main(%arg0: tensor<4xf32> {tf.aliasing_output = 0 : i32}, %arg1: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.add %arg0, %arg1 : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
})";
  for (const bool donate : {false, true}) {
    auto program = StablehloProgram::parse(text, "m", {.donate = donate});
    const auto args = program.place({numbers(4), numbers(4)});
    EXPECT_EQ(program(args)[0].to_vector<float>(), (std::vector<float>{0, 2, 4, 6}));
    EXPECT_EQ(args[0].is_deleted(), donate);
    EXPECT_FALSE(args[1].is_deleted());
  }
}

TEST(HloRun, MeshesNameTheirDevicesInDifferentOrders) {
  auto program = StablehloProgram::parse(R"(
module @m attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @a = <["x"=4]>
  sdy.mesh @b = <["x"=4], device_ids=[3, 1, 0, 2]>
  func.func public @main(%arg0: tensor<8xf32> {sdy.sharding = #sdy.sharding<@b, [{"x"}]>})
      -> (tensor<8xf32> {sdy.sharding = #sdy.sharding<@a, [{"x"}]>}, tensor<8xf32> {sdy.sharding = #sdy.sharding<@b, [{"x"}]>}) {
    %0 = stablehlo.add %arg0, %arg0 : tensor<8xf32>
    return %0, %arg0 : tensor<8xf32>, tensor<8xf32>
  }
})");
  ClientScope scope(Client::cpu({.devices = 4}));
  auto args = program.place({numbers(8)});
  auto out = program(args);
  ASSERT_EQ(out.size(), 2U);
  auto first_device = [](const Array& a) { return a.sharding()->devices()[0].id(); };
  EXPECT_EQ(first_device(args[0]), 3);
  EXPECT_EQ(first_device(out[0]), 0);
  EXPECT_EQ(first_device(out[1]), 3);
  EXPECT_EQ(out[0].host().to_vector<float>(), (std::vector<float>{0, 2, 4, 6, 8, 10, 12, 14}));
  EXPECT_EQ(out[1].host().to_vector<float>(), numbers(8).to_vector<float>());
}

TEST(HloRun, GenericFormOfManualComputations) {
  auto program = StablehloProgram::parse(R"(
"builtin.module"() <{sym_name = "m"}> ({
  "sdy.mesh"() <{mesh = #sdy.mesh<["i"=4]>, sym_name = "mesh"}> : () -> ()
  "func.func"() <{function_type = (tensor<8xf32>) -> tensor<2xf32>, sym_name = "main"}> ({
  ^bb0(%arg0: tensor<8xf32>):
    %0 = "sdy.manual_computation"(%arg0) <{in_shardings = #sdy.sharding_per_value<[<@mesh, [{"i"}]>]>, manual_axes = #sdy<manual_axes{"i"}>, out_shardings = #sdy.sharding_per_value<[<@mesh, [{}]>]>}> ({
    ^bb0(%arg1: tensor<2xf32>):
      %1 = "stablehlo.all_reduce"(%arg1) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> ({
      ^bb0(%arg2: tensor<f32>, %arg3: tensor<f32>):
        %2 = "stablehlo.add"(%arg2, %arg3) : (tensor<f32>, tensor<f32>) -> tensor<f32>
        "stablehlo.return"(%2) : (tensor<f32>) -> ()
      }) : (tensor<2xf32>) -> tensor<2xf32>
      "sdy.return"(%1) : (tensor<2xf32>) -> ()
    }) : (tensor<8xf32>) -> tensor<2xf32>
    "func.return"(%0) : (tensor<2xf32>) -> ()
  }) : () -> ()
}) {mhlo.num_partitions = 4 : i32} : () -> ())");
  ClientScope scope(Client::cpu({.devices = 4}));
  EXPECT_EQ(program.run({numbers(8)})[0].to_vector<float>(), (std::vector<float>{12, 16}));
}

// Replicas get equal arguments, and the first one's results count.
std::string replicated(const std::string& groups, const std::string& channel) {
  return R"(
module @m attributes {mhlo.num_partitions = 2 : i32, mhlo.num_replicas = 3 : i32} {
  func.func @main() -> tensor<ui32> {
    %r = stablehlo.replica_id : tensor<ui32>
    %p = stablehlo.partition_id : tensor<ui32>
    %ten = stablehlo.constant dense<10> : tensor<ui32>
    %0 = stablehlo.multiply %r, %ten : tensor<ui32>
    %1 = stablehlo.add %0, %p : tensor<ui32>
    %2 = "stablehlo.all_reduce"(%1) ({
    ^bb0(%a: tensor<ui32>, %b: tensor<ui32>):
      %3 = stablehlo.add %a, %b : tensor<ui32>
      stablehlo.return %3 : tensor<ui32>
    }) {replica_groups = dense<)" +
         groups + channel + R"(} : (tensor<ui32>) -> tensor<ui32>
    return %2 : tensor<ui32>
  }
})";
}

std::int64_t sum_of(const std::string& text) {
  auto program = StablehloProgram::parse(text);
  ClientScope scope(Client::cpu({.devices = program.num_devices()}));
  return program.run({})[0].astype(DType::I64).to_vector<std::int64_t>()[0];
}

TEST(HloRun, GroupsOfReplicasAndPartitions) {
  const char* channel = ", channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>";
  // Replicas 0 and 2 of partition 0: 0 + 20.
  EXPECT_EQ(sum_of(replicated("[[0, 2], [1, -1]]> : tensor<2x2xi64>", "")), 20);
  // With a channel all partitions of these: (0 + 1) + (20 + 21).
  EXPECT_EQ(sum_of(replicated("[[0, 2], [1, -1]]> : tensor<2x2xi64>", channel)), 42);
  // Numbers of devices: 0 and 5 are (0, 0) and (2, 1).
  EXPECT_EQ(sum_of(replicated("[[0, 5], [1, 2], [3, 4]]> : tensor<3x2xi64>",
                              std::string(channel) + ", use_global_device_ids")),
            21);
}

TEST(HloRun, BoundsDevicesAndMemory) {
  EXPECT_THROW(StablehloProgram::parse("module attributes {mhlo.num_partitions = 4611686018427387904 : i64} {\n"
                                       "func.func @main() { return } }"),
               FormatError);
  // Each value stays below the bound, both sorted ones together do not.
  std::string sorted = R"(
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %p = stablehlo.compare GT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %p : tensor<i1>
    }) {dimension = 0 : i64} : (tensor<1000000xf32>) -> tensor<1000000xf32>
)";
  std::string text = R"(func.func @main() -> tensor<f32> {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.iota dim = 0 : tensor<1000000xf32>
    %1 = "stablehlo.sort"(%0) ({)" +
                     sorted + R"(    %2 = stablehlo.cosine %1 : tensor<1000000xf32>
    %3 = "stablehlo.sort"(%2) ({)" +
                     sorted + R"(    %4 = stablehlo.add %1, %3 : tensor<1000000xf32>
    %5 = stablehlo.reduce(%4 init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<1000000xf32>, tensor<f32>) -> tensor<f32>
    return %5 : tensor<f32>
  })";
  auto program = StablehloProgram::parse(text, "module", {.max_memory = 6'000'000});
  ClientScope scope(Client::cpu({.devices = 1, .memory_limit = 6'000'000}));
  EXPECT_THROW(program.run({})[0].to_vector<float>(), ResourceExhaustedError);
}

// What JAX writes for jnp.sort; its serialization moves the constants in front of the comparator.
std::string sort_by_total_order(std::int64_t n, const std::string& zero, const std::string& nan, bool inside = false) {
  std::string type = "tensor<" + std::to_string(n) + "xf32>";
  std::string constants = "  %zero = stablehlo.constant dense<" + zero +
                          "> : tensor<f32>\n  %nan = stablehlo.constant dense<" + nan + "> : tensor<f32>\n";
  return "func.func @main(%x: " + type + ") -> " + type + " {\n" + (inside ? "" : constants) +
         R"(  %0 = "stablehlo.sort"(%x) <{dimension = 0 : i64, is_stable = true}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
)" + (inside ? constants : "") +
         R"(
    %1 = stablehlo.compare EQ, %a, %zero, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %2 = stablehlo.select %1, %zero, %a : tensor<i1>, tensor<f32>
    %3 = stablehlo.compare NE, %a, %a, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %4 = stablehlo.select %3, %nan, %2 : tensor<i1>, tensor<f32>
    %5 = stablehlo.compare EQ, %b, %zero, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %6 = stablehlo.select %5, %zero, %b : tensor<i1>, tensor<f32>
    %7 = stablehlo.compare NE, %b, %b, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %8 = stablehlo.select %7, %nan, %6 : tensor<i1>, tensor<f32>
    %9 = stablehlo.compare LT, %4, %8, TOTALORDER : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %9 : tensor<i1>
  }) : ()" +
         type + ") -> " + type + "\n  return %0 : " + type + "\n}";
}

TEST(HloRun, ComparatorsAreKeysWhereverTheirConstantsAre) {
  const std::string nan = "0x7FC00000";
  std::vector<float> x(100'000);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * 7919 % 100'003) - 5e4F;
  std::vector<float> want = x;
  std::sort(want.begin(), want.end());
  for (bool inside : {false, true}) {  // pairs of elements would take 40 GB
    std::string text = sort_by_total_order(100'000, "0.0", nan, inside);
    auto program = StablehloProgram::parse(text, "module", {.max_memory = 6'000'000});
    ClientScope scope(Client::cpu({.devices = 1, .memory_limit = 6'000'000}));
    EXPECT_EQ(program.run({HostArray::from(x)})[0].to_vector<float>(), want);
  }
}

// The same comparator with other constants is another one: NaN counts as 1 there, or 3 as NaN.
TEST(HloRun, ComparatorsWithOtherConstantsAreWhatTheyCompute) {
  std::string text = sort_by_total_order(5, "0.0", "1.0");
  std::vector<float> x = {4, NAN, 0.5F, 2, -1};
  std::vector<float> sorted = StablehloProgram::parse(text).run({HostArray::from(x)})[0].to_vector<float>();
  EXPECT_EQ(std::vector<float>(sorted.begin(), sorted.begin() + 2), (std::vector<float>{-1, 0.5F}));
  EXPECT_TRUE(std::isnan(sorted[2]));
  EXPECT_EQ(std::vector<float>(sorted.begin() + 3, sorted.end()), (std::vector<float>{2, 4}));
  std::string negative = sort_by_total_order(3, "0.0", "0xFFC00000");
  std::vector<float> first =
      StablehloProgram::parse(negative).run({HostArray::from<float>({4, NAN, 2})})[0].to_vector<float>();
  EXPECT_TRUE(std::isnan(first[0]));
  EXPECT_EQ(std::vector<float>(first.begin() + 1, first.end()), (std::vector<float>{2, 4}));
  std::string swapped = sort_by_total_order(4, "3.0", "0x7FC00000");
  for (std::size_t at; (at = swapped.find("select %1, %zero")) != std::string::npos;)
    swapped.replace(at, 16, "select %1, %nan ");
  for (std::size_t at; (at = swapped.find("select %5, %zero")) != std::string::npos;)
    swapped.replace(at, 16, "select %5, %nan ");
  std::vector<float> threes =
      StablehloProgram::parse(swapped).run({HostArray::from<float>({3, 9, -2, 1})})[0].to_vector<float>();
  EXPECT_EQ(threes, (std::vector<float>{-2, 1, 9, 3}));  // 3 counts as NaN
}

}  // namespace
}  // namespace tessera
