// SPDX-License-Identifier: Apache-2.0
// Operations of modules along dimensions that are split: each device works on its own shards.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "base/strings.h"
#include "hlo/host/host_callbacks.h"
#include "tessera/comm_plan.h"
#include "tessera/device.h"
#include "tessera/stablehlo.h"

namespace tessera {
namespace {

using Floats = std::vector<float>;

HostArray waves(const Shape& shape) {
  Floats v;
  for (std::int64_t i = 0; i < size_of(shape); ++i) {
    v.push_back(std::sin(static_cast<float>(i * i)) + static_cast<float>(i % 3));
  }
  return HostArray::from(v, shape);
}

struct Ran {
  std::vector<Floats> out;
  std::int64_t bytes = 0;
};
Ran run(const std::string& body, const std::vector<HostArray>& args, int devices) {
  auto program = StablehloProgram::parse(
      str("module @m attributes {mhlo.num_partitions = ", devices,
          " : i32, mhlo.num_replicas = 1 : i32} {\nsdy.mesh @mesh = <[\"x\"=", devices, "]>\n", body, "\n}\n"));
  ClientScope scope(Client::cpu({.devices = devices}));
  auto placed = program.place(args);
  Ran r;
  for (const auto& a : program(placed)) r.out.push_back(a.host().astype(float32).to_vector<float>());
  r.bytes = program.comm_plan(placed).bytes_per_device();
  return r;
}

// Batches of matrices, one of them too short for all devices to get equally many.
TEST(HloSplits, LapackWorksOnItsDevicesOwnMatrices) {
  for (std::int64_t n : {8, 6}) {
    std::string a = str("tensor<", n, "x4x4xf32>"), v = str("tensor<", n, "x4xf32>"),
                w = str("tensor<", n, "x4x2xf32>");
    std::string shard = " {sdy.sharding = #sdy.sharding<@mesh, [{\"x\"}, {}, {}]>}";
    std::string factorize =
        str("func.func public @main(%a: ", a, shard, ") -> (", a, ", ", v,
            ") {\n%0:2 = stablehlo.custom_call @lapack_sgeqrf_ffi(%a) {mhlo.backend_config = {}} : (", a, ") -> (", a,
            ", ", v, ")\nreturn %0#0, %0#1 : ", a, ", ", v, "\n}");
    std::string solve = str(
        "func.func public @main(%d: ", v, ", %b: ", w, shard, ") -> ", w,
        " {\n%0:5 = stablehlo.custom_call @lapack_sgtsv_ffi(%d, %d, %d, %b) {mhlo.backend_config = {}} : (", v, ", ", v,
        ", ", v, ", ", w, ") -> (", v, ", ", v, ", ", v, ", ", w, ", tensor<", n, "xi32>)\nreturn %0#3 : ", w, "\n}");
    for (const auto& [text, args] : {std::pair{factorize, std::vector{waves({n, 4, 4})}},
                                     std::pair{solve, std::vector{waves({n, 4}), waves({n, 4, 2})}}}) {
      Ran one = run(text, args, 1), four = run(text, args, n == 8 ? 4 : 2);
      EXPECT_EQ(four.out, one.out) << text;
      EXPECT_EQ(four.bytes, 0) << text;
    }
  }
}

// Onto zeros each device scatters its own updates, and a result that is left unreduced is these parts.
TEST(HloSplits, UpdatesOfZerosAreScatteredApart) {
  auto text = [](const std::string& unreduced) {
    return str(R"(func.func public @main(%i: tensor<8x1xi32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>},
    %u: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> (tensor<3xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}])",
               unreduced, R"(>}) {
  %c = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<f32>) -> tensor<3xf32>
  %1 = sdy.sharding_constraint %0 <@mesh, [{}]> : tensor<3xf32>
  %2 = "stablehlo.scatter"(%1, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%p: tensor<f32>, %q: tensor<f32>):
    %s = stablehlo.add %p, %q : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<3xf32>, tensor<8x1xi32>, tensor<8xf32>) -> tensor<3xf32>
  return %2 : tensor<3xf32>
})");
  };
  std::vector<HostArray> args{HostArray::from(std::vector<std::int32_t>{0, 1, 1, 2, 0, 0, 2, 1}, {8, 1}),
                              HostArray::from(Floats{1, 2, 3, 4, 5, 6, 7, 8})};
  EXPECT_EQ(run(text(""), args, 4).out[0], (Floats{12, 13, 11}));
  auto program = StablehloProgram::parse(
      "module @m attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {\nsdy.mesh @mesh = "
      "<[\"x\"=4]>\n" +
      text(", unreduced={\"x\"}") + "\n}\n");
  ClientScope scope(Client::cpu({.devices = 4}));
  auto placed = program.place(args);
  EXPECT_EQ(program.comm_plan(placed).bytes_per_device(), 0);
  std::vector<Floats> parts;
  for (const auto& s : program(placed)[0].addressable_shards()) parts.push_back(s.data()->host().to_vector<float>());
  EXPECT_EQ(parts, (std::vector<Floats>{{1, 2, 0}, {0, 3, 4}, {11, 0, 0}, {0, 8, 7}}));
}

// Addends of bf16 that are asked for as addends of f32: nothing is exchanged in between.
TEST(HloSplits, WiderAddendsAreAddends) {
  std::string text = R"(func.func public @main(%a: tensor<2x8xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>},
    %b: tensor<8x2xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> tensor<2x2xf32> {
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<2x8xbf16>, tensor<8x2xbf16>) -> tensor<2x2xbf16>
  %1 = stablehlo.convert %0 : (tensor<2x2xbf16>) -> tensor<2x2xf32>
  %2 = sdy.sharding_constraint %1 <@mesh, [{}, {}], unreduced={"x"}> : tensor<2x2xf32>
  %3 = sdy.sharding_constraint %2 <@mesh, [{}, {}]> : tensor<2x2xf32>
  return %3 : tensor<2x2xf32>
})";
  std::vector<HostArray> args{HostArray::from(Floats(16, 1)).reshape({2, 8}).astype(bfloat16),
                              HostArray::from(Floats(16, 2)).reshape({8, 2}).astype(bfloat16)};
  Ran r = run(text, args, 4);
  EXPECT_EQ(r.out[0], (Floats{16, 16, 16, 16}));
  EXPECT_EQ(r.bytes, 24);  // all-reduce of four f32 over four devices
}

// What nobody reads is computed where the program says so, and read again from the text that is written.
// jnp.roll(jnp.roll(x, 1, 1), 0, 0), as JAX writes it: what adds nothing moves nothing.
TEST(HloSplits, EmptyOperandsOfAConcatenationMoveNothing) {
  const std::string body = R"(
func.func public @main(%x: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> tensor<16x8xf32> {
  %0 = stablehlo.slice %x [0:16, 7:8] : (tensor<16x8xf32>) -> tensor<16x1xf32>
  %1 = stablehlo.slice %x [0:16, 0:7] : (tensor<16x8xf32>) -> tensor<16x7xf32>
  %2 = stablehlo.concatenate %0, %1, dim = 1 : (tensor<16x1xf32>, tensor<16x7xf32>) -> tensor<16x8xf32>
  %3 = stablehlo.slice %2 [0:0, 0:8] : (tensor<16x8xf32>) -> tensor<0x8xf32>
  %4 = stablehlo.concatenate %3, %2, %3, dim = 0 : (tensor<0x8xf32>, tensor<16x8xf32>, tensor<0x8xf32>) -> tensor<16x8xf32>
  return %4 : tensor<16x8xf32>
})";
  Ran one = run(body, {waves({16, 8})}, 1), four = run(body, {waves({16, 8})}, 4);
  EXPECT_EQ(four.out, one.out);
  EXPECT_EQ(four.bytes, 0);
}

TEST(HloSplits, SinksKeepTheirOperands) {
  auto text = [](const char* sink) {
    return str("func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> {\n%0 = stablehlo.sine %a : tensor<2xf32>\n", sink,
               "return %a : tensor<2xf32>\n}\n");
  };
  std::string kept = StablehloProgram::parse(
                         text("stablehlo.custom_call @dce_sink(%0) {has_side_effect = true} : (tensor<2xf32>) -> ()\n"))
                         .as_text();
  EXPECT_NE(kept.find("stablehlo.sine"), std::string::npos) << kept;
  EXPECT_EQ(StablehloProgram::parse(kept).as_text(), kept);
  EXPECT_EQ(StablehloProgram::parse(kept).run({waves({2})})[0].to_vector<float>(), waves({2}).to_vector<float>());
  EXPECT_EQ(StablehloProgram::parse(text("")).as_text().find("stablehlo.sine"), std::string::npos);
}

// A function of the host that asks for shards is called by each device with its own, as they are split.
TEST(HloSplits, PartitionedCallbacksSeeShards) {
  std::multiset<Floats> seen;
  hlo::set_host_callbacks([&](const hlo::HostCall& call) -> ops::HostFunction {
    EXPECT_EQ(call.number, 7);
    return [&](const std::vector<HostArray>& in) {
      seen.insert(in[0].astype(float32).to_vector<float>());
      return std::vector<HostArray>{};
    };
  });
  for (const char* target : {"xla_ffi_partitioned_python_cpu_callback", "xla_ffi_python_cpu_callback"}) {
    seen.clear();
    std::string text =
        str("func.func public @main(%a: tensor<2x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {\"x\"}]>}) ",
            "-> tensor<2x4xf32> {\nstablehlo.custom_call @", target,
            "(%a) {has_side_effect = true, mhlo.backend_config = {index = 7 : ui64}} : ",
            "(tensor<2x4xf32>) -> ()\nreturn %a : tensor<2x4xf32>\n}");
    Ran r = run(text, {HostArray::from(Floats{0, 1, 2, 3, 4, 5, 6, 7}, {2, 4})}, 2);
    bool whole = std::string_view(target).find("partitioned") == std::string_view::npos;
    EXPECT_EQ(seen, (whole ? std::multiset<Floats>{{0, 1, 2, 3, 4, 5, 6, 7}}
                           : std::multiset<Floats>{{0, 1, 4, 5}, {2, 3, 6, 7}}));
    EXPECT_EQ(r.bytes, whole ? 16 : 0);
  }
  hlo::set_host_callbacks(nullptr);
}

}  // namespace
}  // namespace tessera
