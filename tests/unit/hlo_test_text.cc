// SPDX-License-Identifier: Apache-2.0
// Meshes, shardings, constraints and manual regions in the text of traced functions.
#include <gtest/gtest.h>

#include "support/meshes.h"
#include "support/spec_report.h"
#include "tessera/stablehlo.h"
#include "tessera/tessera.h"

namespace tessera::test {
namespace {

struct HloText : ::testing::Test {
  EightDevices e;
  Mesh a = make_mesh({4, 2}, {"x", "y"});
  Mesh b = make_mesh({2, 2, 2}, {"x", "y", "z"});
  HostArray numbers = [] {
    HostArray h(int32, {8, 2});
    auto v = h.span<std::int32_t>();
    for (std::size_t i = 0; i < v.size(); ++i) v[i] = static_cast<std::int32_t>(i);
    return h;
  }();
  Array on(const Mesh& mesh, const PartitionSpec& spec) { return device_put(numbers, NamedSharding(mesh, spec)); }
};

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }
Array twice(const Array& v) { return v * 2; }

TEST_F(HloText, MeshLines) {
  TESSERA_SPEC("M71");
  EXPECT_TRUE(has(jit(twice).lower(on(a, P("x"))).as_text(), "  sdy.mesh @mesh = <[\"x\"=4, \"y\"=2]>\n"));
  EXPECT_TRUE(has(jit(twice).lower(on(b, P("x"))).as_text(), "  sdy.mesh @mesh = <[\"x\"=2, \"y\"=2, \"z\"=2]>\n"));
  Mesh flat = make_mesh({8, 1}, {"x", "y"});
  EXPECT_TRUE(has(jit(twice).lower(on(flat, P("x"))).as_text(), "  sdy.mesh @mesh = <[\"x\"=8, \"y\"=1]>\n"));
  auto sum = jit([](Array v, Array w) { return v + w; });
  std::string both = sum.lower(on(a, P("x")), on(b, P("x", "y"))).as_text();
  EXPECT_TRUE(
      has(both, "  sdy.mesh @mesh = <[\"x\"=4, \"y\"=2]>\n  sdy.mesh @mesh_0 = <[\"x\"=2, \"y\"=2, \"z\"=2]>\n"))
      << both;
  EXPECT_TRUE(has(both, "%arg1: tensor<8x2xi32> {sdy.sharding = #sdy.sharding<@mesh_0, [{\"x\"}, {\"y\"}]>}")) << both;
}

TEST_F(HloText, ArgumentsAndResults) {
  TESSERA_SPEC("M72");
  auto argument = [&](const Mesh& mesh, const PartitionSpec& spec) {
    Array v = device_put(zeros({8, 8}, int32), NamedSharding(mesh, spec));
    std::string text = jit(twice, {.out_shardings = {NamedSharding(mesh, spec)}}).lower(v).as_text();
    auto from = text.find("#sdy.sharding<@mesh, ") + 21, to = text.find('>', from);
    std::string dims = text.substr(from, to - from);
    EXPECT_TRUE(has(text.substr(to), "#sdy.sharding<@mesh, " + dims + ">")) << text;
    return dims;
  };
  EXPECT_EQ(argument(a, P("x", "y")), "[{\"x\"}, {\"y\"}]");
  EXPECT_EQ(argument(a, P("x")), "[{\"x\"}, {}]");
  EXPECT_EQ(argument(a, P(none, "y")), "[{}, {\"y\"}]");
  EXPECT_EQ(argument(a, P(axes("x", "y"))), "[{\"x\", \"y\"}, {}]");
  EXPECT_EQ(argument(a, P(axes("y", "x"))), "[{\"y\", \"x\"}, {}]");
  EXPECT_EQ(argument(a, P("y", "x")), "[{\"y\"}, {\"x\"}]");
  EXPECT_EQ(argument(a, P()), "[{}, {}]");
  EXPECT_EQ(argument(b, P(axes("x", "z"), "y")), "[{\"x\", \"z\"}, {\"y\"}]");
  EXPECT_THROW(jit(twice, {.in_shardings = {NamedSharding(a, P("x", "y", none))}}).lower(zeros({8, 2})), ValueError);
}

TEST_F(HloText, AWholeModule) {
  TESSERA_SPEC("M73");
  auto f = jit(twice, {.out_shardings = {NamedSharding(a, P("x", "y"))}});
  EXPECT_EQ(
      f.lower(on(a, P("x", "y"))).as_text(),
      "module @jit attributes {mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32} {\n"
      "  sdy.mesh @mesh = <[\"x\"=4, \"y\"=2]>\n"
      "  func.func public @main(%arg0: tensor<8x2xi32> {sdy.sharding = #sdy.sharding<@mesh, [{\"x\"}, {\"y\"}]>}) "
      "-> (tensor<8x2xi32> {jax.result_info = \"result\", sdy.sharding = #sdy.sharding<@mesh, [{\"x\"}, "
      "{\"y\"}]>}) {\n"
      "    %c = stablehlo.constant dense<2> : tensor<i32>\n"
      "    %0 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<8x2xi32>\n"
      "    %1 = stablehlo.multiply %arg0, %0 : tensor<8x2xi32>\n"
      "    return %1 : tensor<8x2xi32>\n"
      "  }\n"
      "}\n");
  auto program = StablehloProgram::parse(f.lower(on(a, P("x", "y"))).as_text());
  EXPECT_EQ(program.run({numbers})[0].to_vector<std::int32_t>()[15], 30);
}

TEST_F(HloText, WhatIsNotSaid) {
  TESSERA_SPEC("M74");
  EXPECT_TRUE(
      has(jit(twice).lower(on(a, P("x", "y"))).as_text(), "-> (tensor<8x2xi32> {jax.result_info = \"result\"}) {"));
  std::string plain = jit(twice).lower(Array(numbers)).as_text();
  EXPECT_FALSE(has(plain, "sdy")) << plain;
  EXPECT_TRUE(has(plain, "mhlo.num_partitions = 1 : i32")) << plain;
}

TEST_F(HloText, Constraints) {
  TESSERA_SPEC("M75", "T74");
  auto f = jit([&](Array v) { return with_sharding_constraint(v, NamedSharding(a, P("x", unconstrained))); });
  std::string text = f.lower(on(a, P("x", "y"))).as_text();
  EXPECT_TRUE(has(text, "    %0 = sdy.sharding_constraint %arg0 <@mesh, [{\"x\"}, {?}]> : tensor<8x2xi32>\n")) << text;
  std::string old = f.lower(on(a, P("x", "y"))).as_text({.shardy = false});
  EXPECT_TRUE(has(old,
                  "%0 = stablehlo.custom_call @Sharding(%arg0) {backend_config = \"unspecified_dims=[1]\", "
                  "mhlo.sharding = \"{devices=[4,1,2]<=[8] last_tile_dim_replicate}\"}"))
      << old;
  // An annotation in the manner of PyTorch/XLA, behind the product.
  Mesh torch = make_mesh({2, 4}, {"x", "y"});
  auto marked = jit([&](Array v) { return mark_sharding(v * 2, torch, P("x", "y")); });
  Array x = device_put(zeros({8, 8}), NamedSharding(torch, P("x", "y")));
  std::string call = marked.lower(x).as_text({.shardy = false});
  EXPECT_TRUE(has(call, "%arg0: tensor<8x8xf32> {mhlo.sharding = \"{devices=[2,4]<=[8]}\"}")) << call;
  auto product = call.find("stablehlo.multiply"), constraint = call.find("custom_call @Sharding");
  EXPECT_LT(product, constraint) << call;
  EXPECT_TRUE(has(call.substr(constraint), "mhlo.sharding = \"{devices=[2,4]<=[8]}\"")) << call;
  EXPECT_TRUE(has(marked.lower(x).as_text(), "sdy.sharding_constraint %1 <@mesh, [{\"x\"}, {\"y\"}]>"));
}

TEST_F(HloText, ManualRegions) {
  TESSERA_SPEC("M76");
  auto f = jit(shard_map(twice, a, P("x", "y"), P("x", "y")));
  std::string text = f.lower(on(a, P("x", "y"))).as_text();
  EXPECT_TRUE(
      has(text,
          "%0 = sdy.manual_computation(%arg0) in_shardings=[<@mesh, [{\"x\"}, {\"y\"}]>] "
          "out_shardings=[<@mesh, [{\"x\"}, {\"y\"}]>] manual_axes={\"x\", \"y\"} (%arg1: tensor<2x1xi32>) {\n"))
      << text;
  EXPECT_TRUE(has(text, "      sdy.return %")) << text;
  EXPECT_TRUE(has(text, "    } : (tensor<8x2xi32>) -> tensor<8x2xi32>\n")) << text;
  std::string old = f.lower(on(a, P("x", "y"))).as_text({.shardy = false});
  EXPECT_TRUE(has(old,
                  "@SPMDFullToShardShape(%0) {backend_config = \"\", mhlo.sharding = \"{manual}\"} : "
                  "(tensor<8x2xi32>) -> tensor<2x1xi32>"))
      << old;
  EXPECT_TRUE(has(old, "@SPMDShardToFullShape(")) << old;
}

TEST_F(HloText, RegionsInTheMiddleOfAFunction) {
  TESSERA_SPEC("T89");
  Mesh mesh = make_mesh({2, 4}, {"x", "y"});
  auto f = jit([&](Array v) {
    Array block = enable_manual_sharding(v, P("x", "y"), mesh);
    return disable_manual_sharding(block + block, P("x", "y"), {8, 8}, mesh);
  });
  Array x = device_put(zeros({8, 8}));
  std::string old = f.trace(x).as_text({.shardy = false});
  auto enter = old.find("@SPMDFullToShardShape"), inside = old.find("stablehlo.add %"),
       leave = old.find("@SPMDShardToFullShape");
  ASSERT_TRUE(leave != std::string::npos) << old;
  EXPECT_LT(enter, inside) << old;
  EXPECT_LT(inside, leave) << old;
  EXPECT_TRUE(has(old.substr(enter), "mhlo.sharding = \"{manual}\"} : (tensor<8x8xf32>) -> tensor<4x2xf32>")) << old;
  EXPECT_TRUE(
      has(old.substr(leave), "mhlo.sharding = \"{devices=[2,4]<=[8]}\"} : (tensor<4x2xf32>) -> tensor<8x8xf32>"))
      << old;
  EXPECT_TRUE(has(f.trace(x).as_text(), "sdy.manual_computation("));
}

TEST_F(HloText, DevicesDoNotMatter) {
  TESSERA_SPEC("M77");
  AbstractMesh two{{"x", 2}};
  auto f = jit([&](Array v) { return with_sharding_constraint(v * 2, NamedSharding(two, P("x"))); });
  auto over = [&](std::vector<Device> devices) {
    Mesh mesh(DeviceArray(devices), {"x"});
    return f.lower(device_put(zeros({8}, int32), NamedSharding(mesh, P()))).as_text();
  };
  auto all = e.client.devices();
  std::string text = over({all[0], all[1]});
  EXPECT_EQ(text, over({all[2], all[3]}));
  EXPECT_EQ(text, over({all[1], all[0]}));
  EXPECT_TRUE(has(text, "mhlo.num_partitions = 2 : i32")) << text;
  std::vector<Device> turned(all.rbegin(), all.rend());
  Mesh permuted(DeviceArray(turned, {4, 2}), {"x", "y"});
  EXPECT_EQ(jit(twice).lower(on(a, P("x", "y"))).as_text(), jit(twice).lower(on(permuted, P("x", "y"))).as_text());
}

TEST_F(HloText, Stages) {
  TESSERA_SPEC("M78");
  auto f = jit([](Array v) { return sum(v * 2, {.axis = Dims{0}}); });
  auto traced = f.trace(on(a, P("x", "y")));
  EXPECT_TRUE(has(traced.text(), "reduce_sum"));
  EXPECT_EQ(f.stats().lowerings, 0);
  std::string before = traced.as_text();
  auto lowered = traced.lower();
  EXPECT_EQ(f.stats().lowerings, 1);
  EXPECT_EQ(lowered.as_text(), before);
  EXPECT_TRUE(has(before, "stablehlo.reduce")) << before;
  EXPECT_TRUE(has(lowered.text(), "reshard")) << lowered.text();
  EXPECT_EQ(f.stats().compiles, 0);
  auto compiled = lowered.compile();
  EXPECT_EQ(f.stats().compiles, 1);
  EXPECT_EQ(compiled(on(a, P("x", "y"))).to_vector<std::int32_t>()[0], 112);
  // A stage that fails tells its own error.
  auto misplaced = jit(twice, {.in_shardings = {NamedSharding(a, P("y"))}});
  EXPECT_THROW(misplaced.lower(on(a, P("x"))), ValueError);
}

TEST_F(HloText, ThePartitionerIsASwitch) {
  TESSERA_SPEC("M79");
  EXPECT_TRUE(config().use_shardy);
  EXPECT_TRUE(has(jit(twice).lower(on(a, P("x"))).as_text(), "sdy.mesh"));
  ConfigScope off(&Config::use_shardy, false);
  auto argument = [&](const Mesh& mesh, const PartitionSpec& spec) {
    std::string text = jit(twice).lower(device_put(zeros({8, 8}), NamedSharding(mesh, spec))).as_text();
    EXPECT_FALSE(has(text, "sdy")) << text;
    auto from = text.find("mhlo.sharding = \"") + 17;
    return text.substr(from, text.find('"', from) - from);
  };
  EXPECT_EQ(argument(a, P("x", "y")), "{devices=[4,2]<=[8]}");
  EXPECT_EQ(argument(a, P("y")), "{devices=[2,1,4]<=[4,2]T(1,0) last_tile_dim_replicate}");
  EXPECT_EQ(argument(a, P(none, axes("y", "x"))), "{devices=[1,8]<=[4,2]T(1,0)}");
  EXPECT_EQ(argument(a, P()), "{replicated}");
  EXPECT_EQ(argument(b, P("y", "x")), "{devices=[2,2,2]<=[2,2,2]T(1,0,2) last_tile_dim_replicate}");
  EXPECT_EQ(argument(b, P(axes("z", "x"), "y")), "{devices=[4,2]<=[4,2]T(1,0)}");
}

TEST_F(HloText, AbstractMeshesNeedNoDevices) {
  AbstractMesh large{{"x", 1024}, {"y", 64}};
  NamedSharding s(large, P("x", "y"));
  auto f = jit(twice, {.in_shardings = {s}, .out_shardings = {s}});
  auto lowered = f.lower(zeros({2048, 64}));
  EXPECT_TRUE(has(lowered.as_text(), "sdy.mesh @mesh = <[\"x\"=1024, \"y\"=64]>")) << lowered.as_text();
  EXPECT_TRUE(has(lowered.as_text(), "mhlo.num_partitions = 65536 : i32"));
  EXPECT_TRUE(has(lowered.text(), "= mul a b")) << lowered.text();
  EXPECT_EQ(lowered.comm_plan().bytes_per_device(), 0);
  EXPECT_THROW(lowered.compile(), ValueError);
  auto mapped = jit(shard_map([](Array v) { return psum(v, "x"); }, large, P("x", "y"), P(none, "y")));
  EXPECT_TRUE(has(mapped.lower(zeros({1024, 64})).as_text(), "(%arg1: tensor<1x1xf32>)"));
  // One sum over 1,024 positions, planned for devices that are not there.
  CommPlan plan = mapped.lower(zeros({1024, 64})).comm_plan();
  ASSERT_EQ(plan.steps().size(), 1U) << to_string(plan);
  EXPECT_EQ(plan.steps()[0].op, "all_reduce");
}

}  // namespace
}  // namespace tessera::test
