// SPDX-License-Identifier: Apache-2.0
// Manual computations of texts as maps: what they exchange, and forms that JAX's own programs seldom have.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/strings.h"
#include "tessera/comm_plan.h"
#include "tessera/device.h"
#include "tessera/error.h"
#include "tessera/stablehlo.h"

namespace tessera {
namespace {

using Floats = std::vector<float>;

HostArray numbers(std::int64_t n) {
  Floats v;
  for (std::int64_t i = 0; i < n; ++i) v.push_back(static_cast<float>(i));
  return HostArray::from(v);
}

struct Ran {
  Floats out;
  std::string plan;
};
// The first result, what is exchanged, and that the text of the program is one that says the same.
Ran run(const std::string& text, const std::vector<HostArray>& args) {
  auto program = StablehloProgram::parse(text);
  ClientScope scope(Client::cpu({.devices = program.num_devices()}));
  auto placed = program.place(args);
  Ran r{program(placed)[0].host().astype(float32).to_vector<float>(), to_string(program.comm_plan(placed))};
  std::string written = program.as_text();
  auto again = StablehloProgram::parse(written);
  EXPECT_EQ(again.as_text(), written);
  EXPECT_EQ(again.run(args)[0].astype(float32).to_vector<float>(), r.out) << written;
  return r;
}

std::string module(const std::string& head, const std::string& body) {
  return "module @m attributes {mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32} {\n" + head + body +
         "\n}\n";
}

// A function of 8 numbers, one a device of a mesh ["x"=4, "y"=2]; `body` computes %r from %a, tensor<1xf32>.
std::string on_4x2(const std::string& body, const std::string& mesh = "<[\"x\"=4, \"y\"=2]>") {
  return module("  sdy.mesh @mesh = " + mesh + "\n", R"(
  func.func public @main(%arg0: tensor<8xf32>) -> tensor<8xf32> {
    %0 = sdy.manual_computation(%arg0) in_shardings=[<@mesh, [{"x", "y"}]>] out_shardings=[<@mesh, [{"x", "y"}]>] manual_axes={"x", "y"} (%a: tensor<1xf32>) {
)" + body + R"(
      sdy.return %r : tensor<1xf32>
    } : (tensor<8xf32>) -> tensor<8xf32>
    return %0 : tensor<8xf32>
  })");
}

std::string all_reduce_in(const std::string& groups, const std::string& how) {
  return str(
      R"(      %r = "stablehlo.all_reduce"(%a) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = )",
      groups, R"(, use_global_device_ids}> ({
      ^bb0(%p: tensor<f32>, %q: tensor<f32>):
        %s = stablehlo.)",
      how, R"( %p, %q : tensor<f32>
        stablehlo.return %s : tensor<f32>
      }) : (tensor<1xf32>) -> tensor<1xf32>
)");
}
std::string all_reduce(const std::string& groups, const std::string& how) {
  return all_reduce_in(str("dense<", groups, ">"), how);
}
// Of a mesh in the attribute itself, or "@mesh".
std::string along(const std::string& mesh, const std::string& axes) {
  return str("#stablehlo.replica_group_mesh_axes<mesh = ", mesh, ", axes = [", axes, "]>");
}

TEST(HloManual, GroupsByAxesOfAMesh) {
  const std::string x = "#stablehlo.axis_ref<name = \"x\">", y = "#stablehlo.axis_ref<name = \"y\">";
  auto sums = [](const std::string& groups) { return run(on_4x2(all_reduce_in(groups, "add")), {numbers(8)}); };
  Ran along_x = sums(along("@mesh", x));
  EXPECT_EQ(along_x.out, (Floats{12, 16, 12, 16, 12, 16, 12, 16}));
  EXPECT_NE(along_x.plan.find("all_reduce  x "), std::string::npos) << along_x.plan;
  EXPECT_EQ(sums(along("@mesh", y)).out, (Floats{1, 1, 5, 5, 9, 9, 13, 13}));
  EXPECT_EQ(sums(along("@mesh", x + ", " + y)).out, Floats(8, 28));
  EXPECT_EQ(sums(along("@mesh", "")).out, (Floats{0, 1, 2, 3, 4, 5, 6, 7}));
  // Halves of x: devices 0, 2, 4, 6 are its coordinates 0 to 3.
  auto part = [](const char* which) { return str("#stablehlo.axis_ref<name = \"x\", sub_axis_info = ", which, ">"); };
  EXPECT_EQ(sums(along("@mesh", part("(1)2"))).out, (Floats{4, 6, 8, 10, 4, 6, 8, 10}));
  EXPECT_EQ(sums(along("@mesh", part("(2)2"))).out, (Floats{2, 4, 2, 4, 10, 12, 10, 12}));
  EXPECT_EQ(sums(along("@mesh", part("(2)2") + ", " + part("(1)2"))).out, along_x.out);
  // A mesh that stands in the attribute, with its axes' kinds said and left out, and devices in another order.
  const std::string axes = "[#stablehlo.mesh_axis<name = \"a\", size = 2>, <name = \"b\", size = 4>]";
  const std::string a = "#stablehlo.axis_ref<name = \"a\">";
  EXPECT_EQ(sums(along(str("#stablehlo.mesh<axes=", axes, ">"), a)).out, (Floats{4, 6, 8, 10, 4, 6, 8, 10}));
  const std::string turned = "dense<[0, 2, 4, 6, 1, 3, 5, 7]> : tensor<8xi64>";
  EXPECT_EQ(sums(along(str("#stablehlo.mesh<axes=", axes, ", device_ids=", turned, ">"), a)).out,
            (Floats{1, 1, 5, 5, 9, 9, 13, 13}));
}

// An asynchronous collective gives what the synchronous one does; operands may come from outside.
TEST(HloManual, AsynchronousCollectives) {
  std::string body = all_reduce("[[0, 2, 4, 6], [1, 3, 5, 7]]> : tensor<2x4xi64", "add");
  Ran synchronous = run(on_4x2(body), {numbers(8)});
  body.replace(body.find("%r"), 2, "%sum");
  std::string start = str("      %f = \"stablehlo.async_start\"(%a) ({\n      ^bb0(%b: tensor<1xf32>):\n", body,
                          "        stablehlo.return %sum, %a : tensor<1xf32>, tensor<1xf32>\n",
                          "      }) : (tensor<1xf32>) -> !stablehlo.future<tensor<1xf32>, tensor<1xf32>>\n",
                          "      %other = stablehlo.negate %a : tensor<1xf32>\n");
  std::string done = str("      %s:2 = \"stablehlo.async_done\"(%f) : (!stablehlo.future<tensor<1xf32>, ",
                         "tensor<1xf32>>) -> (tensor<1xf32>, tensor<1xf32>)\n");
  std::string rest =
      "      %t = stablehlo.add %s#0, %other : tensor<1xf32>\n      %r = stablehlo.add %t, %s#1 : tensor<1xf32>\n";
  Ran later = run(on_4x2(start + done + rest), {numbers(8)});
  EXPECT_EQ(later.out, synchronous.out);
  EXPECT_NE(later.plan.find("all_reduce  x "), std::string::npos) << later.plan;
  std::string wrong = start + done + rest;
  wrong.replace(wrong.find("async_done\"(%f)"), 15, "async_done\"(%a)");
  EXPECT_THROW(StablehloProgram::parse(on_4x2(wrong)), Error);
}

TEST(HloManual, GroupsByAxesThatAreNotThere) {
  const std::string x = "#stablehlo.axis_ref<name = \"x\">";
  auto message = [](const std::string& groups) -> std::string {
    try {
      run(on_4x2(all_reduce_in(groups, "add")), {numbers(8)});
    } catch (const Error& e) {
      return e.what();
    }
    return "no error";
  };
  auto has = [&](const std::string& groups, const std::string& what) {
    EXPECT_NE(message(groups).find(what), std::string::npos) << message(groups);
  };
  has(along("@other", x), "there is no mesh @other");
  has(along("@mesh", "#stablehlo.axis_ref<name = \"z\">"), "the mesh has no axis \"z\"");
  has(along("@mesh", x + ", " + x), "an axis is named twice");
  has(along("@mesh", "#stablehlo.axis_ref<name = \"x\", sub_axis_info = (1)3>"), "an axis of 4 has no part (1)3");
  has(along("@mesh", "0 : i64"), "expected #stablehlo.axis_ref<…>");
  has(along("#stablehlo.mesh<axes=[<name = \"a\", size = 0>]>", ""), "a bad size of a mesh axis");
  has(along("#stablehlo.mesh<axes=[<name = \"a\", size = 2>], device_ids=dense<0> : tensor<1xi64>>", ""),
      "device_ids has 1 entries for a mesh of 2");
}

TEST(HloManual, GroupsBecomeAxes) {
  Ran along_x = run(on_4x2(all_reduce("[[0, 2, 4, 6], [1, 3, 5, 7]]> : tensor<2x4xi64", "add")), {numbers(8)});
  EXPECT_EQ(along_x.out, (Floats{12, 16, 12, 16, 12, 16, 12, 16}));
  EXPECT_NE(along_x.plan.find("all_reduce  x "), std::string::npos) << along_x.plan;
  Ran along_y = run(on_4x2(all_reduce("[[6, 7], [0, 1], [2, 3], [5, 4]]> : tensor<4x2xi64", "maximum")), {numbers(8)});
  EXPECT_EQ(along_y.out, (Floats{1, 1, 3, 3, 5, 5, 7, 7}));
  EXPECT_NE(along_y.plan.find("all_reduce  y "), std::string::npos) << along_y.plan;
  Ran in_groups =
      run(on_4x2(all_reduce("[[0, 3], [1, 2], [4, 7], [5, 6]]> : tensor<4x2xi64", "minimum")), {numbers(8)});
  EXPECT_EQ(in_groups.out, (Floats{0, 1, 1, 0, 4, 5, 5, 4}));
}

TEST(HloManual, GroupsOfDifferentSizesAndOtherReducers) {
  const char* uneven = "[[0, 3, 5], [1, 2, -1], [6, 7, -1]]> : tensor<3x3xi64";  // 4 is alone
  EXPECT_EQ(run(on_4x2(all_reduce(uneven, "add")), {numbers(8)}).out, (Floats{8, 3, 3, 8, 4, 8, 13, 13}));
  EXPECT_EQ(run(on_4x2(all_reduce(uneven, "multiply")), {numbers(8)}).out, (Floats{0, 2, 2, 0, 4, 0, 42, 42}));
  EXPECT_EQ(run(on_4x2(all_reduce(uneven, "maximum")), {numbers(8)}).out, (Floats{5, 2, 2, 5, 4, 5, 7, 7}));
  EXPECT_EQ(run(on_4x2(all_reduce("[[0, 1], [2, 3], [4, 5], [6, 7]]> : tensor<4x2xi64", "multiply")), {numbers(8)}).out,
            (Floats{0, 0, 6, 6, 20, 20, 42, 42}));
}

TEST(HloManual, PermutationsAndBroadcasts) {
  auto permute = [](const std::string& pairs) {
    return on_4x2(
        R"(      %r = "stablehlo.collective_permute"(%a) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, source_target_pairs = dense<)" +
        pairs + ">}> : (tensor<1xf32>) -> tensor<1xf32>");
  };
  auto along = run(permute("[[0, 1], [2, 3], [4, 5], [6, 7]]> : tensor<4x2xi64"), {numbers(8)});
  EXPECT_EQ(along.out, (Floats{0, 0, 0, 2, 0, 4, 0, 6}));
  EXPECT_NE(along.plan.find("collective_permute  y "), std::string::npos) << along.plan;
  EXPECT_EQ(run(permute("[[0, 5], [7, 1]]> : tensor<2x2xi64"), {numbers(8)}).out, (Floats{0, 7, 0, 0, 0, 0, 0, 0}));
  auto broadcast = [](const std::string& groups) {
    return on_4x2(
        R"(      %r = "stablehlo.collective_broadcast"(%a) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<)" +
        groups + ">}> : (tensor<1xf32>) -> tensor<1xf32>");
  };
  EXPECT_EQ(run(broadcast("[[1, 0], [3, 2], [5, 4], [7, 6]]> : tensor<4x2xi64"), {numbers(8)}).out,
            (Floats{1, 1, 3, 3, 5, 5, 7, 7}));
  EXPECT_EQ(run(broadcast("[[6, 0, 1]]> : tensor<1x3xi64"), {numbers(8)}).out, (Floats{6, 6, 0, 0, 0, 0, 6, 0}));
}

// Devices have their numbers from the text, wherever they stand in the mesh.
TEST(HloManual, NumbersOfDevicesInAnotherOrder) {
  std::string id = R"(      %i = stablehlo.partition_id : tensor<ui32>
      %f = stablehlo.convert %i : (tensor<ui32>) -> tensor<f32>
      %r = stablehlo.reshape %f : (tensor<f32>) -> tensor<1xf32>)";
  EXPECT_EQ(run(on_4x2(id), {numbers(8)}).out, numbers(8).to_vector<float>());
  std::string mesh = "<[\"x\"=4, \"y\"=2], device_ids=[7, 3, 1, 5, 0, 2, 6, 4]>";
  EXPECT_EQ(run(on_4x2(id, mesh), {numbers(8)}).out, (Floats{7, 3, 1, 5, 0, 2, 6, 4}));
  // Devices 7 and 3 hold elements 0 and 1.
  EXPECT_EQ(
      run(on_4x2(all_reduce("[[7, 3], [0, 2], [1, 5], [4, 6]]> : tensor<4x2xi64", "add"), mesh), {numbers(8)}).out,
      (Floats{1, 1, 5, 5, 9, 9, 13, 13}));
}

TEST(HloManual, PartsOfAxes) {
  auto text = module("  sdy.mesh @mesh = <[\"x\"=8]>\n", R"(
  func.func public @main(%arg0: tensor<4x2xf32>) -> tensor<2xf32> {
    %0 = sdy.manual_computation(%arg0) in_shardings=[<@mesh, [{"x":(2)4}, {"x":(1)2}]>] out_shardings=[<@mesh, [{"x":(1)2}], unreduced={"x":(2)4}>] manual_axes={"x"} (%a: tensor<1x1xf32>) {
      %r = stablehlo.reshape %a : (tensor<1x1xf32>) -> tensor<1xf32>
      sdy.return %r : tensor<1xf32>
    } : (tensor<4x2xf32>) -> tensor<2xf32>
    return %0 : tensor<2xf32>
  })");
  EXPECT_EQ(run(text, {numbers(8).reshape({4, 2})}).out, (Floats{12, 16}));
}

// A mesh whose cuts do not nest with those of another, and one of fewer devices: every device runs the body.
TEST(HloManual, MeshesThatTheDevicesCannotBe) {
  std::string text = R"(
module @m attributes {mhlo.num_partitions = 6 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @a = <["x"=2, "y"=3]>
  sdy.mesh @b = <["u"=3, "v"=2]>
  sdy.mesh @c = <["w"=2]>
  func.func public @main(%arg0: tensor<6xf32>) -> tensor<6xf32> {
    %0 = sdy.manual_computation(%arg0) in_shardings=[<@a, [{"x", "y"}]>] out_shardings=[<@a, [{"x", "y"}]>] manual_axes={"x", "y"} (%a: tensor<1xf32>) {
      %1 = stablehlo.add %a, %a : tensor<1xf32>
      sdy.return %1 : tensor<1xf32>
    } : (tensor<6xf32>) -> tensor<6xf32>
    %2 = sdy.manual_computation(%0) in_shardings=[<@b, [{"v"}]>] out_shardings=[<@b, [{"v"}]>] manual_axes={"v"} (%a: tensor<3xf32>) {
      %3 = "stablehlo.collective_permute"(%a) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, source_target_pairs = dense<[[0, 1], [1, 0], [2, 3], [3, 2], [4, 5], [5, 4]]> : tensor<6x2xi64>}> : (tensor<3xf32>) -> tensor<3xf32>
      sdy.return %3 : tensor<3xf32>
    } : (tensor<6xf32>) -> tensor<6xf32>
    %4 = sdy.manual_computation(%2) in_shardings=[<@c, [{"w"}]>] out_shardings=[<@c, [{"w"}]>] manual_axes={"w"} (%a: tensor<3xf32>) {
      %5 = stablehlo.partition_id : tensor<ui32>
      %6 = stablehlo.convert %5 : (tensor<ui32>) -> tensor<f32>
      %7 = stablehlo.broadcast_in_dim %6, dims = [] : (tensor<f32>) -> tensor<3xf32>
      %8 = stablehlo.add %a, %7 : tensor<3xf32>
      sdy.return %8 : tensor<3xf32>
    } : (tensor<6xf32>) -> tensor<6xf32>
    return %4 : tensor<6xf32>
  }
})";
  EXPECT_EQ(run(text, {numbers(6)}).out, (Floats{6, 8, 10, 1, 3, 5}));
  std::string larger = text;
  larger.replace(larger.find("\"w\"=2"), 5, "\"w\"=9");
  EXPECT_THROW(StablehloProgram::parse(larger), FormatError);
}

// Tiles over a list of devices that is no grid.
TEST(HloManual, TilesOverAnyListOfDevices) {
  auto text = module("", R"(
  func.func public @main(%arg0: tensor<8xf32>) -> tensor<8xf32> {
    %0 = stablehlo.custom_call @Sharding(%arg0) {mhlo.sharding = "{devices=[8]0,1,2,3,4,5,7,6}"} : (tensor<8xf32>) -> tensor<8xf32>
    %a = stablehlo.custom_call @SPMDFullToShardShape(%0) {mhlo.sharding = "{manual}"} : (tensor<8xf32>) -> tensor<1xf32>
)" + all_reduce("[[0, 1, 2, 3], [4, 5, 6, 7]]> : tensor<2x4xi64", "add") +
                             R"(
    %i = stablehlo.partition_id : tensor<ui32>
    %f = stablehlo.convert %i : (tensor<ui32>) -> tensor<f32>
    %g = stablehlo.reshape %f : (tensor<f32>) -> tensor<1xf32>
    %h = stablehlo.add %r, %g : tensor<1xf32>
    %1 = stablehlo.custom_call @Sharding(%h) {mhlo.sharding = "{manual}"} : (tensor<1xf32>) -> tensor<1xf32>
    %2 = stablehlo.custom_call @SPMDShardToFullShape(%1) {mhlo.sharding = "{devices=[8]0,1,2,3,4,5,7,6}"} : (tensor<1xf32>) -> tensor<8xf32>
    return %2 : tensor<8xf32>
  })");
  EXPECT_EQ(run(text, {numbers(8)}).out, (Floats{6, 7, 8, 9, 26, 27, 29, 28}));
}

TEST(HloManual, RaggedExchange) {
  // Device d sends element i of its 8 to row d of device i.
  auto text = module("  sdy.mesh @mesh = <[\"x\"=8]>\n", R"(
  func.func public @main(%arg0: tensor<64xf32>) -> tensor<64xf32> {
    %0 = sdy.manual_computation(%arg0) in_shardings=[<@mesh, [{"x"}]>] out_shardings=[<@mesh, [{"x"}]>] manual_axes={"x"} (%a: tensor<8xf32>) {
      %z = stablehlo.constant dense<0.0> : tensor<8xf32>
      %o = stablehlo.iota dim = 0 : tensor<8xi32>
      %n = stablehlo.constant dense<1> : tensor<8xi32>
      %i = stablehlo.partition_id : tensor<ui32>
      %c = stablehlo.convert %i : (tensor<ui32>) -> tensor<i32>
      %w = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<8xi32>
      %r = stablehlo.custom_call @ragged_all_to_all(%a, %z, %o, %n, %w, %n) {api_version = 4 : i32, backend_config = {channel_id = 1 : i64, replica_groups = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>}} : (tensor<8xf32>, tensor<8xf32>, tensor<8xi32>, tensor<8xi32>, tensor<8xi32>, tensor<8xi32>) -> tensor<8xf32>
      sdy.return %r : tensor<8xf32>
    } : (tensor<64xf32>) -> tensor<64xf32>
    return %0 : tensor<64xf32>
  })");
  Ran r = run(text, {numbers(64)});
  for (std::size_t d = 0; d < 8; ++d) {
    for (std::size_t s = 0; s < 8; ++s) EXPECT_EQ(r.out[d * 8 + s], static_cast<float>(s * 8 + d));
  }
  EXPECT_NE(r.plan.find("ragged_all_to_all"), std::string::npos) << r.plan;
  EXPECT_NE(r.plan.find("asked for by ragged_all_to_all\n"), std::string::npos) << r.plan;
}

// Tiles over a grid become maps over its axes.
TEST(HloManual, GspmdMarksBecomeAxesOfAGrid) {
  auto text = module("", R"(
  func.func public @main(%arg0: tensor<8x4xf32>) -> tensor<2x4xf32> {
    %0 = stablehlo.custom_call @Sharding(%arg0) {mhlo.sharding = "{devices=[4,2]<=[8]}"} : (tensor<8x4xf32>) -> tensor<8x4xf32>
    %a = stablehlo.custom_call @SPMDFullToShardShape(%0) {mhlo.sharding = "{manual}"} : (tensor<8x4xf32>) -> tensor<2x2xf32>
    %r = "stablehlo.all_reduce"(%a) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 2, 4, 6], [1, 3, 5, 7]]> : tensor<2x4xi64>, use_global_device_ids}> ({
      ^bb0(%p: tensor<f32>, %q: tensor<f32>):
        %s = stablehlo.add %p, %q : tensor<f32>
        stablehlo.return %s : tensor<f32>
      }) : (tensor<2x2xf32>) -> tensor<2x2xf32>
    %1 = stablehlo.custom_call @Sharding(%r) {mhlo.sharding = "{manual}"} : (tensor<2x2xf32>) -> tensor<2x2xf32>
    %2 = stablehlo.custom_call @SPMDShardToFullShape(%1) {mhlo.sharding = "{devices=[1,2,4]<=[4,2]T(1,0) last_tile_dim_replicate}"} : (tensor<2x2xf32>) -> tensor<2x4xf32>
    return %2 : tensor<2x4xf32>
  })");
  Ran r = run(text, {numbers(32).reshape({8, 4})});
  EXPECT_EQ(r.out, (Floats{48, 52, 56, 60, 64, 68, 72, 76}));
  EXPECT_NE(r.plan.find("all_reduce  d0 "), std::string::npos) << r.plan;
  EXPECT_EQ(std::count(r.plan.begin(), r.plan.end(), '\n'), 3) << r.plan;  // and nothing else
}

// HLO's shardings say where arguments, results and values lie, as Shardy's do.
TEST(HloManual, HloShardingsPlaceValues) {
  auto program = StablehloProgram::parse(module("", R"(
  func.func public @main(%arg0: tensor<8x4xf32> {mhlo.sharding = "{devices=[4,1,2]<=[8] last_tile_dim_replicate}"}) -> (tensor<8x4xf32> {mhlo.sharding = "{devices=[1,2,4]<=[4,2]T(1,0) last_tile_dim_replicate}"}) {
    %0 = stablehlo.add %arg0, %arg0 : tensor<8x4xf32>
    %1 = stablehlo.custom_call @Sharding(%0) {backend_config = "unspecified_dims=[1]", mhlo.sharding = "{devices=[8,1]<=[8]}"} : (tensor<8x4xf32>) -> tensor<8x4xf32>
    %2 = stablehlo.tanh %1 : tensor<8x4xf32>
    return %2 : tensor<8x4xf32>
  })"));
  ClientScope scope(Client::cpu({.devices = 8}));
  auto args = program.place({numbers(32).reshape({8, 4})});
  EXPECT_EQ(args[0].sharding()->shard_shape(args[0].shape()), (Shape{2, 4}));
  Array out = program(args)[0];
  EXPECT_EQ(out.sharding()->shard_shape(out.shape()), (Shape{8, 2}));
  EXPECT_NEAR(out.host().to_vector<float>()[1], std::tanh(2.F), 1e-6);
  std::string text = program.as_text();
  EXPECT_NE(text.find("[{\"d0\"}, {}]"), std::string::npos) << text;
  EXPECT_NE(text.find("sdy.sharding_constraint"), std::string::npos) << text;
}

TEST(HloManual, MembersOfAShardingGroupLieAlike) {
  std::string text = module("  sdy.mesh @mesh = <[\"x\"=4, \"y\"=2]>\n", R"(
  func.func public @main(%arg0: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> (tensor<8xf32>, tensor<8xf32>) {
    %0 = stablehlo.iota dim = 0 : tensor<8xf32>
    %1 = stablehlo.iota dim = 0 : tensor<8xf32>
    sdy.sharding_group %0 group_id=3 : tensor<8xf32>
    sdy.sharding_group %arg0 group_id=3 : tensor<8xf32>
    return %0, %1 : tensor<8xf32>, tensor<8xf32>
  })");
  auto program = StablehloProgram::parse(text);
  ClientScope scope(Client::cpu({.devices = 8}));
  auto out = program(program.place({numbers(8)}));
  EXPECT_EQ(out[0].sharding()->shard_shape({8}), (Shape{2}));
  EXPECT_EQ(out[1].sharding()->shard_shape({8}), (Shape{8}));
  EXPECT_EQ(out[0].host().to_vector<float>(), numbers(8).to_vector<float>());
  EXPECT_EQ(StablehloProgram::parse(program.as_text()).as_text(), program.as_text());
  EXPECT_NE(program.as_text().find("group_id=3"), std::string::npos) << program.as_text();
}

// Shardings that no member is given: that of %2 comes from a product, in one group with a value of a loop's body.
TEST(HloManual, MembersTakeWhatPropagationFinds) {
  auto program = StablehloProgram::parse(module("  sdy.mesh @mesh = <[\"x\"=4, \"y\"=2]>\n", R"(
  func.func public @main(%arg0: tensor<8x2xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>}) -> (tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>) {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %n = stablehlo.constant dense<2> : tensor<i32>
    %0 = stablehlo.transpose %arg0, dims = [1, 0] : (tensor<8x2xf32>) -> tensor<2x8xf32>
    %2 = stablehlo.dot_general %arg0, %0, contracting_dims = [1] x [0] : (tensor<8x2xf32>, tensor<2x8xf32>) -> tensor<8x8xf32>
    %3 = stablehlo.iota dim = 0 : tensor<8x8xf32>
    %4 = stablehlo.iota dim = 1 : tensor<8x8xf32>
    %5:2 = stablehlo.while(%i = %c, %v = %3) : tensor<i32>, tensor<8x8xf32>
     cond {
      %6 = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %6 : tensor<i1>
    } do {
      %6 = stablehlo.add %i, %one : tensor<i32>
      sdy.sharding_group %v group_id=0 : tensor<8x8xf32>
      %7 = stablehlo.add %v, %v : tensor<8x8xf32>
      stablehlo.return %6, %7 : tensor<i32>, tensor<8x8xf32>
    }
    sdy.sharding_group %2 group_id=0 : tensor<8x8xf32>
    return %2, %5#1, %4 : tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>
  })"));
  ClientScope scope(Client::cpu({.devices = 8}));
  auto out = program(program.place({numbers(16).reshape({8, 2})}));
  EXPECT_EQ(out[0].sharding()->shard_shape({8, 8}), (Shape{2, 8}));
  EXPECT_EQ(out[1].sharding()->shard_shape({8, 8}), (Shape{2, 8}));
  EXPECT_EQ(out[2].sharding()->shard_shape({8, 8}), (Shape{8, 8}));
  EXPECT_EQ(out[1].host().to_vector<float>()[63], 28);
}

// What is asked of a value stands in the module, and moves nothing.
TEST(HloManual, InspectedShardingsAreWrittenAndRead) {
  Ran r = run(module("  sdy.mesh @mesh = <[\"x\"=4, \"y\"=2]>\n", R"(
  func.func public @main(%arg0: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> tensor<8xf32> {
    %0 = stablehlo.add %arg0, %arg0 : tensor<8xf32>
    %1 = stablehlo.custom_call @InspectSharding(%0) {backend_config = "tessera:7", has_side_effect = true} : (tensor<8xf32>) -> tensor<8xf32>
    return %0 : tensor<8xf32>
  })"),
              {numbers(8)});
  EXPECT_EQ(r.out[7], 14);
  EXPECT_EQ(r.plan.find("all_gather"), std::string::npos) << r.plan;
  auto with = [](const std::string& config) {
    return StablehloProgram::parse(module("", str(R"(
  func.func public @main(%arg0: tensor<8xf32>) -> tensor<8xf32> {
    %1 = stablehlo.custom_call @InspectSharding(%arg0) {backend_config = ")",
                                                  config, R"("} : (tensor<8xf32>) -> tensor<8xf32>
    return %1 : tensor<8xf32>
  })")));
  };
  EXPECT_NO_THROW(with("\\10\\20\\7F"));  // an address of another process
  EXPECT_THROW(with("tessera:"), FormatError);
  EXPECT_THROW(with("tessera:7x"), FormatError);
}

// A call that nobody knows is refused, also where it gives nothing: it may be there for what it does. What prints is
// left out where there is nobody to print.
TEST(HloManual, UnknownCustomCallsAreRefused) {
  auto with = [](const std::string& call) {
    return StablehloProgram::parse(module("", str(R"(
  func.func public @main(%arg0: tensor<8xf32>) -> tensor<8xf32> {
    )",
                                                  call, R"(
    return %arg0 : tensor<8xf32>
  })")));
  };
  const std::string effect = "(%arg0) {has_side_effect = true} : (tensor<8xf32>) -> ";
  EXPECT_THROW(with("%0 = stablehlo.custom_call @launch" + effect + "tensor<8xf32>"), UnimplementedError);
  EXPECT_THROW(with("stablehlo.custom_call @launch" + effect + "()"), UnimplementedError);
  EXPECT_NO_THROW(with("stablehlo.custom_call @xla_ffi_python_cpu_callback" + effect + "()"));
}

// Sums that the plan shows as one exchange are one operation of the per-device program.
TEST(HloManual, JoinedSumsAreWrittenAsOne) {
  auto program = StablehloProgram::parse(module("  sdy.mesh @mesh = <[\"x\"=8]>\n", R"(
  func.func public @main(%arg0: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> (tensor<4xf32>, tensor<f32>) {
    %c = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%arg0 init: %c) applies stablehlo.add across dimensions = [0] : (tensor<8x4xf32>, tensor<f32>) -> tensor<4xf32>
    %1 = stablehlo.reduce(%arg0 init: %c) applies stablehlo.add across dimensions = [0, 1] : (tensor<8x4xf32>, tensor<f32>) -> tensor<f32>
    return %0, %1 : tensor<4xf32>, tensor<f32>
  })"));
  ClientScope scope(Client::cpu({.devices = 8}));
  auto args = program.place({numbers(32).reshape({8, 4})});
  ASSERT_EQ(program.comm_plan(args).steps().size(), 1U);
  std::string text = program.device_text(args);
  auto at = text.find("stablehlo.all_reduce");
  ASSERT_NE(at, std::string::npos) << text;
  EXPECT_EQ(text.find("stablehlo.all_reduce", at + 1), std::string::npos) << text;
  auto out = StablehloProgram::parse(text).run({numbers(4).reshape({1, 4})});  // the same shard on every device
  EXPECT_EQ(out[0].to_vector<float>(), (Floats{0, 8, 16, 24}));
  EXPECT_EQ(out[1].to_vector<float>(), (Floats{48}));
}

}  // namespace
}  // namespace tessera
