// SPDX-License-Identifier: Apache-2.0
// Values that a module takes, gives or constrains unreduced: each device holds an addend, and the value is their sum.
#include <gtest/gtest.h>

#include <tuple>

#include "base/strings.h"
#include "tessera/device.h"
#include "tessera/error.h"
#include "tessera/stablehlo.h"

namespace tessera {
namespace {

using Floats = std::vector<float>;

HostArray counting(const Shape& shape) {
  Floats v;
  for (std::int64_t i = 0; i < size_of(shape); ++i) v.push_back(static_cast<float>(i + 1));
  return HostArray::from(v, shape);
}

// The first result; the text that is written of the program gives the same.
Floats run(const std::string& text, const std::vector<HostArray>& args) {
  auto program = StablehloProgram::parse(text);
  ClientScope scope(Client::cpu({.devices = program.num_devices()}));
  Floats out = program.run(args)[0].astype(float32).to_vector<float>();
  auto again = StablehloProgram::parse(program.as_text());
  EXPECT_EQ(again.run(args)[0].astype(float32).to_vector<float>(), out) << program.as_text();
  return out;
}

std::string module(const std::string& body, const std::string& head = "") {
  return "module @m attributes {mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32} {\n" + head + body +
         "\n}\n";
}

std::string all_reduce(const std::string& groups, const std::string& type) {
  return str(
      "%r = \"stablehlo.all_reduce\"(%a) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, "
      "replica_groups = dense<",
      groups, ">, use_global_device_ids}> ({\n^bb0(%p: tensor<f32>, %q: tensor<f32>):\n%s = stablehlo.add %p, %q : ",
      "tensor<f32>\nstablehlo.return %s : tensor<f32>\n}) : (", type, ") -> ", type, "\n");
}

// From tensor<8x4xf32> to the same, by a body over a mesh.
struct Map {
  std::string mesh, in, out, local, body, manual;
  std::string text(const std::string& head = "") const {
    return module(str("func.func public @main(%arg0: tensor<8x4xf32>) -> tensor<8x4xf32> {\n",
                      "%0 = sdy.manual_computation(%arg0) in_shardings=[<@mesh, ", in, ">] out_shardings=[<@mesh, ",
                      out, ">] manual_axes={", manual, "} (%a: ", local, ") {\n", body, "sdy.return %r : ", local,
                      "\n} : (tensor<8x4xf32>) -> tensor<8x4xf32>\nreturn %0 : tensor<8x4xf32>\n}"),
                  str(head, "sdy.mesh @mesh = ", mesh, "\n"));
  }
};

const HostArray& numbers() {
  static const HostArray values = counting({8, 4});
  return values;
}
const Floats& same() {
  static const Floats values = numbers().to_vector<float>();
  return values;
}

TEST(HloUnreduced, SumsInTheBodyCountAValueOnce) {
  Map all{"<[\"x\"=4, \"y\"=2]>", "[{}, {}], unreduced={\"x\"}", "[{}, {}]", "tensor<8x4xf32>", "", "\"x\", \"y\""};
  all.body = all_reduce("[[0, 2, 4, 6], [1, 3, 5, 7]]> : tensor<2x4xi64", "tensor<8x4xf32>");
  EXPECT_EQ(run(all.text(), {numbers()}), same());
  Map both = all;
  both.in = "[{}, {}], unreduced={\"x\", \"y\"}";
  both.body = all_reduce("[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64", "tensor<8x4xf32>");
  EXPECT_EQ(run(both.text(), {numbers()}), same());
  Map split{"<[\"x\"=4, \"y\"=2]>", "[{\"y\"}, {}], unreduced={\"x\"}", "[{\"y\"}, {}]", "tensor<4x4xf32>", "",
            "\"x\", \"y\""};
  split.body = all_reduce("[[0, 2, 4, 6], [1, 3, 5, 7]]> : tensor<2x4xi64", "tensor<4x4xf32>");
  EXPECT_EQ(run(split.text(), {numbers()}), same());
  Map scattered{"<[\"x\"=4, \"y\"=2]>", "[{}, {\"y\"}], unreduced={\"x\"}", "[{\"x\"}, {\"y\"}]", "tensor<8x2xf32>", "",
                "\"x\", \"y\""};
  std::string text = scattered.text();
  std::string scatter =
      "%r = \"stablehlo.reduce_scatter\"(%a) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, "
      "replica_groups = dense<[[0, 2, 4, 6], [1, 3, 5, 7]]> : tensor<2x4xi64>, scatter_dimension = 0 : i64, "
      "use_global_device_ids}> ({\n^bb0(%p: tensor<f32>, %q: tensor<f32>):\n%s = stablehlo.add %p, %q : tensor<f32>\n"
      "stablehlo.return %s : tensor<f32>\n}) : (tensor<8x2xf32>) -> tensor<2x2xf32>\n";
  text.replace(text.find("sdy.return %r : tensor<8x2xf32>"), 31, scatter + "sdy.return %r : tensor<2x2xf32>");
  EXPECT_EQ(run(text, {numbers()}), same());
}

// Every way to give the axes of three meshes to the dimensions, to the sum, or to nothing, on both sides.
TEST(HloUnreduced, EveryAssignmentOfAxes) {
  struct Case {
    std::vector<std::int64_t> sizes;
    std::string rest, head;
  };
  // The other mesh is none that the devices can be beside this one: all of them run the body.
  const std::string beside = "sdy.mesh @other = <[\"u\"=8]>\n";
  const std::string ids = ", device_ids=[7, 3, 1, 5, 0, 2, 6, 4]";
  int programs = 0;
  for (const Case& k : {Case{{8}, "", ""}, Case{{4, 2}, "", ""}, Case{{2, 2, 2}, "", ""}, Case{{4, 2}, ids, ""},
                        Case{{2, 2}, "", beside}, Case{{2, 2}, ", device_ids=[2, 0, 3, 1]", beside}}) {
    std::vector<std::string> axes, named;
    std::int64_t n = static_cast<std::int64_t>(k.sizes.size()), ways = 1;
    for (std::int64_t a = 0; a < n; ++a) {
      named.push_back(str("\"a", a, "\"=", k.sizes[static_cast<std::size_t>(a)]));
      axes.push_back(str("\"a", a, "\""));
      ways *= 4;
    }
    for (std::int64_t way = 0; way < ways; ++way) {
      std::vector<std::string> groups[4];
      Shape local{8, 4};
      for (std::int64_t a = 0, w = way; a < n; ++a, w /= 4) {
        auto at = static_cast<std::size_t>(a);
        groups[w % 4].push_back(axes[at]);
        if (w % 4 < 2) local[static_cast<std::size_t>(w % 4)] /= k.sizes[at];
      }
      if (local[1] == 0) continue;
      std::string sharding = str("[{", join(groups[0]), "}, {", join(groups[1]), "}]");
      if (!groups[2].empty()) sharding += str(", unreduced={", join(groups[2]), "}");
      std::string type = str("tensor<", local[0], "x", local[1], "xf32>");
      Map m{str("<[", join(named), "]", k.rest, ">"),       sharding,  sharding, type,
            str("%r = stablehlo.negate %a : ", type, "\n"), join(axes)};
      Floats want = same();
      for (auto& v : want) v = -v;
      EXPECT_EQ(run(m.text(k.head), {numbers()}), want) << m.text(k.head);
      ++programs;
    }
  }
  EXPECT_GT(programs, 120);
}

TEST(HloUnreduced, PartsOfAxesAndSomeAxes) {
  Map part{
      "<[\"x\"=8]>",     "[{\"x\":(1)2}, {}], unreduced={\"x\":(2)4}",    "[{\"x\":(1)2}, {}], unreduced={\"x\":(2)4}",
      "tensor<4x4xf32>", "%r = stablehlo.add %a, %a : tensor<4x4xf32>\n", "\"x\""};
  Floats twice = same();
  for (auto& v : twice) v *= 2;
  EXPECT_EQ(run(part.text(), {numbers()}), twice);
  // On fewer devices than the module's all of them run the body; only the part that is named is summed.
  Map apart = part;
  apart.mesh = "<[\"x\"=4]>";
  apart.in = apart.out = "[{\"x\":(1)2}, {}], unreduced={\"x\":(2)2}";
  EXPECT_EQ(run(apart.text(), {numbers()}), twice);
  // "y" is left to the partitioner: there the value is whole, whatever is said.
  Map some{"<[\"x\"=4, \"y\"=2]>",
           "[{}, {}], unreduced={\"x\", \"y\"}",
           "[{}, {}], unreduced={\"x\"}",
           "tensor<8x4xf32>",
           "%r = stablehlo.add %a, %a : tensor<8x4xf32>\n",
           "\"x\""};
  EXPECT_EQ(run(some.text(), {numbers()}), twice);
}

TEST(HloUnreduced, NestedComputations) {
  std::string text = module(R"(
  func.func public @main(%arg0: tensor<8xf32>) -> tensor<8xf32> {
    %0 = sdy.manual_computation(%arg0) in_shardings=[<@mesh, [{"x"}], unreduced={"y"}>] out_shardings=[<@mesh, [{"x"}]>] manual_axes={"x"} (%a: tensor<2xf32>) {
      %1 = sdy.manual_computation(%a) in_shardings=[<@mesh, [{}], unreduced={"y"}>] out_shardings=[<@mesh, [{}], unreduced={"y"}>] manual_axes={"y"} (%b: tensor<2xf32>) {
        %2 = stablehlo.add %b, %b : tensor<2xf32>
        sdy.return %2 : tensor<2xf32>
      } : (tensor<2xf32>) -> tensor<2xf32>
      sdy.return %1 : tensor<2xf32>
    } : (tensor<8xf32>) -> tensor<8xf32>
    return %0 : tensor<8xf32>
  })",
                            "sdy.mesh @mesh = <[\"x\"=4, \"y\"=2]>\n");
  EXPECT_EQ(run(text, {counting({8})}), (Floats{2, 4, 6, 8, 10, 12, 14, 16}));
}

TEST(HloUnreduced, OtherElementTypes) {
  for (const char* elem : {"i32", "ui8", "f64", "bf16", "i4", "f8E4M3FN", "complex<f32>"}) {
    std::string type = str("tensor<4x", elem, ">");
    std::string text =
        module(str("func.func public @main() -> ", type, " {\n%c = stablehlo.constant dense<",
                   std::string(elem).starts_with("c") ? "(3.0, 0.0)"
                   : elem[0] == 'i' || elem[0] == 'u' ? "3"
                                                      : "3.0",
                   "> : ", type,
                   "\n%0 = sdy.manual_computation(%c) in_shardings=[<@mesh, [{}], unreduced={\"x\"}>] "
                   "out_shardings=[<@mesh, [{}], unreduced={\"x\"}>] manual_axes={\"x\"} (%a: ",
                   type, ") {\nsdy.return %a : ", type, "\n} : (", type, ") -> ", type, "\nreturn %0 : ", type, "\n}"),
               "sdy.mesh @mesh = <[\"x\"=8]>\n");
    EXPECT_EQ(run(text, {}), (Floats{3, 3, 3, 3})) << text;
  }
}

// Addends that the body makes: their sum has the result's type.
TEST(HloUnreduced, SumsOfNarrowTypesAreRounded) {
  for (auto [elem, literal, want] : {std::tuple{"i4", "3", -8.0F}, std::tuple{"ui2", "3", 0.0F},
                                     std::tuple{"f8E4M3FN", "2.25", 18.0F}, std::tuple{"f4E2M1FN", "1.5", 6.0F}}) {
    for (const char* mesh :
         {"sdy.mesh @mesh = <[\"x\"=8]>\n", "sdy.mesh @mesh = <[\"x\"=8]>\nsdy.mesh @half = <[\"u\"=4]>\n"}) {
      std::string type = str("tensor<2x", elem, ">");
      std::string text =
          module(str("func.func public @main() -> ", type, " {\n%0 = sdy.manual_computation() in_shardings=[] ",
                     "out_shardings=[<@mesh, [{}], unreduced={\"x\"}>] manual_axes={\"x\"} () {\n",
                     "%c = stablehlo.constant dense<", literal, "> : ", type, "\nsdy.return %c : ", type,
                     "\n} : () -> ", type, "\nreturn %0 : ", type, "\n}"),
                 mesh);
      EXPECT_EQ(run(text, {}), (Floats{want, want})) << text;
    }
  }
}

TEST(HloUnreduced, ConstraintsArgumentsAndResults) {
  std::string text = module(R"(
  func.func public @main(%arg0: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}], unreduced={"y"}>}) -> (tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"y"}], unreduced={"x"}>}) {
    %0 = sdy.sharding_constraint %arg0 <@mesh, [{}, {}], unreduced={"x", "y"}> : tensor<8x4xf32>
    %1 = sdy.reshard %0 <@mesh, [{"y"}, {}], unreduced={"x"}> : tensor<8x4xf32>
    %2 = sdy.manual_computation(%1) in_shardings=[<@mesh, [{"y"}, {}], unreduced={"x"}>] out_shardings=[<@mesh, [{"y"}, {}], unreduced={"x"}>] manual_axes={"x", "y"} (%a: tensor<4x4xf32>) {
      sdy.return %a : tensor<4x4xf32>
    } : (tensor<8x4xf32>) -> tensor<8x4xf32>
    %3 = sdy.sharding_constraint %2 <@mesh, [{?}, {?}], unreduced={"x"}> : tensor<8x4xf32>
    return %3 : tensor<8x4xf32>
  })",
                            "sdy.mesh @mesh = <[\"x\"=4, \"y\"=2]>\n");
  EXPECT_EQ(run(text, {numbers()}), same());
  // A product whose sum is left for later, and then done.
  std::string product = module(R"(
  func.func public @main(%arg0: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}, %arg1: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> (tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) {
    %0 = stablehlo.dot_general %arg0, %arg1, contracting_dims = [1] x [0] : (tensor<8x8xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
    %1 = sdy.sharding_constraint %0 <@mesh, [{}, {}], unreduced={"x"}> : tensor<8x4xf32>
    %2 = sdy.sharding_constraint %1 <@mesh, [{"x"}, {}]> : tensor<8x4xf32>
    return %2 : tensor<8x4xf32>
  })",
                               "sdy.mesh @mesh = <[\"x\"=8]>\n");
  HostArray eye(float32, {8, 8});
  for (std::size_t i = 0; i < 64; ++i) eye.span<float>()[i] = i % 9 == 0 ? 1.0F : 0.0F;
  EXPECT_EQ(run(product, {eye, numbers()}), same());
}

TEST(HloUnreduced, HloShardingsOfArgumentsAndMarks) {
  const std::string whole = "{unreduced}", split = "{devices=[4,1,2]<=[8] last_tile_dims={unreduced}}";
  for (const auto& [in, mark, out] : {std::tuple{whole, split, whole}, std::tuple{split, whole, split}}) {
    std::string text = module(str("func.func public @main(%arg0: tensor<8x4xf32> {mhlo.sharding = \"", in,
                                  "\"}) -> (tensor<8x4xf32> {mhlo.sharding = \"", out,
                                  "\"}) {\n%0 = stablehlo.custom_call @Sharding(%arg0) {mhlo.sharding = \"", mark,
                                  "\"} : (tensor<8x4xf32>) -> tensor<8x4xf32>\nreturn %0 : tensor<8x4xf32>\n}"));
    EXPECT_EQ(run(text, {numbers()}), same()) << text;
    std::string written = StablehloProgram::parse(text).as_text();
    EXPECT_NE(written.find("unreduced={"), std::string::npos) << written;
  }
}

TEST(HloUnreduced, AxesThatAreManualAlreadyAreRefused) {
  Map m{"<[\"x\"=8]>",
        "[{}, {}]",
        "[{}, {}]",
        "tensor<8x4xf32>",
        "%r = sdy.sharding_constraint %a <@mesh, [{}, {}], unreduced={\"x\"}> : tensor<8x4xf32>\n",
        "\"x\""};
  try {
    StablehloProgram::parse(m.text());
    FAIL();
  } catch (const FormatError& e) {
    std::string what = e.what();
    EXPECT_NE(what.find("sdy.sharding_constraint: unreduced over axis \"x\", which is manual here"), std::string::npos)
        << what;
    EXPECT_EQ(e.line(), 5);
  }
}

// HLO's form: the sharding before the mark says along which devices the operand is a sum.
TEST(HloUnreduced, MarksOfTheOlderForm) {
  auto text = [](const std::string& in, const std::string& manual, const std::string& out, const std::string& local) {
    return module(str(R"(
  func.func public @main(%arg0: tensor<8x4xf32>) -> tensor<8x4xf32> {
    %0 = stablehlo.custom_call @Sharding(%arg0) {mhlo.sharding = ")",
                      in, R"("} : (tensor<8x4xf32>) -> tensor<8x4xf32>
    %1 = stablehlo.custom_call @SPMDFullToShardShape(%0) {mhlo.sharding = ")",
                      manual, "\"} : (tensor<8x4xf32>) -> tensor<", local, R"(xf32>
    %2 = stablehlo.add %1, %1 : tensor<)",
                      local, R"(xf32>
    %3 = stablehlo.custom_call @Sharding(%2) {mhlo.sharding = ")",
                      manual, "\"} : (tensor<", local, "xf32>) -> tensor<", local, R"(xf32>
    %4 = stablehlo.custom_call @SPMDShardToFullShape(%3) {mhlo.sharding = ")",
                      out, "\"} : (tensor<", local, R"(xf32>) -> tensor<8x4xf32>
    return %4 : tensor<8x4xf32>
  })"));
  };
  Floats twice = same();
  for (auto& v : twice) v *= 2;
  const std::string one = "{devices=[1,1,8]<=[8] last_tile_dims={unreduced}}";
  const std::string split = "{devices=[2,1,4]<=[8] last_tile_dims={unreduced}}";
  const std::string some = "{devices=[2,1,2,2]<=[8] last_tile_dims={unreduced, replicated}}";
  const std::string turned = "{devices=[2,1,4]<=[4,2]T(1,0) last_tile_dims={unreduced}}";
  const std::string list = "{devices=[2,1,4]0,7,2,5,1,6,3,4 last_tile_dims={unreduced}}";
  const std::string odd = "{devices=[2,1,2,2]0,7,2,5,1,6,3,4 last_tile_dims={replicated, unreduced}}";
  EXPECT_EQ(run(text(one, "{manual}", one, "8x4"), {numbers()}), twice);
  EXPECT_EQ(run(text("{unreduced}", "{manual}", "{unreduced}", "8x4"), {numbers()}), twice);
  EXPECT_EQ(run(text("{unreduced}", "{manual}", one, "8x4"), {numbers()}), twice);
  for (const auto& s : {split, some, turned, list, odd}) {
    EXPECT_EQ(run(text(s, "{manual}", s, "4x4"), {numbers()}), twice) << s;
  }
  // Manual along the first four devices of each pair only; the value is whole along the others.
  const std::string half = "{devices=[1,1,4,2]<=[8] last_tile_dims={manual, replicated}}";
  const std::string both = "{devices=[1,1,4,2]<=[8] last_tile_dims={unreduced, replicated}}";
  EXPECT_EQ(run(text(both, half, both, "8x4"), {numbers()}), twice);
}

}  // namespace
}  // namespace tessera
