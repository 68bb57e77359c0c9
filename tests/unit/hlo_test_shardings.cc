// SPDX-License-Identifier: Apache-2.0
// Shardings and meshes are advice, and are read strictly all the same: what is malformed, or fits neither the value nor
// the devices, is refused with its place in the text.
#include <gtest/gtest.h>

#include "base/strings.h"
#include "hlo/sharding/hlo_sharding.h"
#include "tessera/device.h"
#include "tessera/error.h"
#include "tessera/stablehlo.h"

namespace tessera {
namespace {

std::string module(const std::string& attributes, const std::string& head = "") {
  return str(
      "module @m attributes {mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32} {\n", head,
      "\nfunc.func public @main(%arg0: tensor<8x4xf32> {", attributes,
      "}) -> tensor<8x4xf32> {\n%0 = stablehlo.negate %arg0 : tensor<8x4xf32>\nreturn %0 : tensor<8x4xf32>\n}\n}\n");
}
std::string of_hlo(const std::string& sharding) { return module(str("mhlo.sharding = \"", sharding, "\"")); }
std::string of_sdy(const std::string& sharding) {
  return module(str("sdy.sharding = #sdy.sharding<", sharding, ">"),
                "sdy.mesh @mesh = <[\"x\"=4, \"y\"=2]>\nsdy.mesh @one = <[], device_ids=[3]>\nsdy.mesh @none = <[]>");
}
std::string of_mesh(const std::string& mesh) { return module("", str("sdy.mesh @mesh = <", mesh, ">")); }
std::string of_ops(const std::string& ops, const std::string& result = "%0") {
  return str("module @m attributes {mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32} {\n",
             "sdy.mesh @mesh = <[\"x\"=4, \"y\"=2]>\nsdy.mesh @other = <[\"u\"=8]>\n",
             "func.func public @main(%arg0: tensor<8x4xf32>) -> tensor<8x4xf32> {\n", ops, "\nreturn ", result,
             " : tensor<8x4xf32>\n}\n}\n");
}
std::string manual(const std::string& in, const std::string& out, const std::string& axes) {
  return of_ops(
      str("%0 = sdy.manual_computation(%arg0) in_shardings=[", in, "] out_shardings=[", out, "] manual_axes={", axes,
          "} (%a: tensor<2x4xf32>) {\nsdy.return %a : tensor<2x4xf32>\n} : ", "(tensor<8x4xf32>) -> tensor<8x4xf32>"));
}
std::string mark(const std::string& attributes) {
  return of_ops(
      str("%0 = stablehlo.custom_call @Sharding(%arg0) {", attributes, "} : (tensor<8x4xf32>) -> tensor<8x4xf32>"));
}

// The value is that of a program without shardings.
void accepted(const std::string& text) {
  ClientScope scope(Client::cpu({.devices = 8}));
  std::vector<float> v(32);
  for (std::size_t i = 0; i < v.size(); ++i) v[i] = static_cast<float>(i) - 3;
  try {
    auto out = StablehloProgram::parse(text).run({HostArray::from(v, {8, 4})})[0].to_vector<float>();
    for (std::size_t i = 0; i < v.size(); ++i) EXPECT_EQ(std::abs(out[i]), std::abs(v[i]));
  } catch (const Error& e) {
    ADD_FAILURE() << e.what() << "\n" << text;
  }
}
void refused(const std::string& text) {
  try {
    StablehloProgram::parse(text, "file");
    ADD_FAILURE() << "accepted:\n" << text;
  } catch (const FormatError& e) {
    EXPECT_GT(e.line(), 0);
    EXPECT_TRUE(std::string(e.what()).starts_with("file:")) << e.what();
  }
}

TEST(HloShardings, HloStringsThatAreRefused) {
  for (const char* bad : {
           "",
           "replicated",
           "{replicated",
           "{replicated}}",
           "{replicated}x",
           "{Replicated}",
           "{replicate}",
           "{replicated manual}",
           "{replicated last_tile_dim_replicate}",
           "{replicated device=0}",
           "{manual 1}",
           "{maximal}",
           "{maximal device=}",
           "{maximal device=-1}",
           "{maximal device=8}",
           "{maximal device=x}",
           "{device=0}",
           "{devices=[2,4]}",
           "{devices=[2,4]<=[8]",
           "{devices=[2,4]<=[8] trailing}",
           "{devices=[2,4]<=[8]} {replicated}",
           "{devices=[2,4<=[8]}",
           "{devices=2,4]<=[8]}",
           "{devices=[]<=[8]}",
           "{devices=[2,]<=[2]}",
           "{devices=[2,0]<=[8]}",
           "{devices=[2,-4]<=[8]}",
           "{devices=[2,2]<=[8]}",
           "{devices=[2,4]<=[9]}",
           "{devices=[2,4]<=[2,2]}",
           "{devices=[2,4]<=[]}",
           "{devices=[2,4]<=[8]T}",
           "{devices=[2,4]<=[4,2]T(1)}",
           "{devices=[2,4]<=[4,2]T(1,1)}",
           "{devices=[2,4]<=[4,2]T(0,2)}",
           "{devices=[2,4]<=[4,2]T(1,0,2)}",
           "{devices=[2,4]<=[4,2]T(-1,0)}",
           "{devices=[4,4]<=[16]}",
           "{devices=[2,2]<=[4]}",
           "{devices=[8]<=[8]}",
           "{devices=[2,2,2]<=[8]}",
           "{devices=[2,4]<=[8] last_tile_dim_replicate}",
           "{devices=[2,2,2]<=[8] last_tile_dim_replicate last_tile_dims={manual}}",
           "{devices=[2,2,2]<=[8] last_tile_dims={}}",
           "{devices=[2,2,2]<=[8] last_tile_dims={open}}",
           "{devices=[2,2,2]<=[8] last_tile_dims={manual, }}",
           "{devices=[2,2,2]<=[8] last_tile_dims={manual}",
           "{devices=[2,2,2]<=[8] last_tile_dims=manual}",
           "{devices=[8]<=[8] last_tile_dims={manual, replicated}}",
           "{devices=[2,4]0,1,2,3,4,5,6}",
           "{devices=[2,4]0,1,2,3,4,5,6,7,8}",
           "{devices=[2,4]0,1,2,3,4,5,6,6}",
           "{devices=[2,4]0,1,2,3,4,5,6,8}",
           "{devices=[2,4]0,1,2,3,4,5,6,-7}",
           "{devices=[2,4]0,1,2,3,4,5,6,}",
           "{devices=[2,4]0 1 2 3 4 5 6 7}",
           "{devices=[99999999999999999999,1]<=[8]}",
           "{devices=[4294967296,4294967296]<=[8]}",
           "{{replicated}",
           "{{replicated}, }",
           "{{replicated} {replicated}}",
           "{{replicated}, {replicated}}",
           "{{{replicated}}}",
           "{{devices=[8]<=[8]}}",
           "{replicated metadata={op_name=\\\"x\\\"}",
           "{replicated shard_as}",
           "{unknown device=1}",
           "\\08\\03\\1A\\02\\02\\04",
           "\\08\\63",
           "\\0F",
       }) {
    refused(of_hlo(bad));
  }
  refused(module("mhlo.sharding = 3 : i32"));
  refused(mark("mhlo.sharding = \"{devices=[2,4]<=[7]}\""));
  refused(mark("mhlo.sharding = \"{devices=[2,4]<=[8]}\", backend_config = \"unspecified_dims=[2]\""));
  refused(mark("mhlo.sharding = \"{devices=[2,4]<=[8]}\", backend_config = \"unspecified_dims=[0\""));
  refused(mark("mhlo.sharding = \"{devices=[2,4]<=[8]}\", backend_config = \"unspecified_dims=[-1]\""));
  refused(of_ops("%0 = stablehlo.negate %arg0 {mhlo.sharding = \"{devices=[2]<=[2]}\"} : tensor<8x4xf32>"));
}

TEST(HloShardings, HloStringsThatAreAccepted) {
  for (const char* good : {
           "{replicated}",
           "{manual}",
           "{unknown}",
           "{unreduced}",
           "{maximal device=0}",
           "{maximal device=7}",
           "{devices=[2,4]<=[8]}",
           "{devices=[8,1]<=[8]}",
           "{devices=[1,1,8]<=[8] last_tile_dim_replicate}",
           "{devices=[2,2,2]<=[8] last_tile_dim_replicate}",
           "{devices=[2,2,2]<=[8] last_tile_dims={replicated}}",
           "{devices=[2,2,2]<=[8] last_tile_dims={manual}}",
           "{devices=[2,2,2]<=[8] last_tile_dims={unreduced}}",
           "{devices=[2,1,2,2]<=[8] last_tile_dims={manual, replicated}}",
           "{devices=[2,1,2,2]<=[8] last_tile_dims={replicated,unreduced}}",
           "{devices=[2,4]<=[4,2]T(1,0)}",
           "{devices=[2,4]<=[2,2,2]T(2,1,0)}",
           "{devices=[2,4]<=[2,4]T(0,1)}",
           "{devices=[2,4]0,1,2,3,4,5,6,7}",
           "{devices=[2,4]0,7,1,6,2,5,3,4}",
           "{devices=[4,1,2]0,7,1,6,2,5,3,4 last_tile_dim_replicate}",
           " { devices = [ 2, 4 ] <= [ 8 ] } ",
           "{{replicated}}",
           "{{devices=[2,4]<=[8]}}",
           "{replicated shard_as 1}",
           "{devices=[2,4]<=[8] shard_like 3}",
           "{replicated metadata={op_name=\\\"a}b\\\"}}",
           "{replicated metadata={{op_name=\\\"a\\\"}, {op_name=\\\"b\\\"}}}",
           "\\08\\03\\1A\\02\\02\\04\\22\\08\\00\\01\\02\\03\\04\\05\\06\\07",
           "\\08\\03\\1A\\03\\02\\02\\02\\22\\08\\00\\01\\02\\03\\04\\05\\06\\070\\01",
           "\\08\\03\\1A\\02\\02\\04J\\01\\08R\\01\\00",
           "\\08\\04",
       }) {
    accepted(of_hlo(good));
  }
  accepted(mark("mhlo.sharding = \"{devices=[2,4]<=[8]}\", backend_config = \"unspecified_dims=[0,1]\""));
  accepted(mark("mhlo.sharding = \"{devices=[2,4]<=[8]}\", backend_config = \"\""));
  hlo::HloSharding s =
      hlo::parse_hlo_sharding(std::string("\x08\x03\x1a\x03\x02\x02\x02\x22\x08\0\1\2\3\4\5\6\7\x30\1", 19));
  EXPECT_EQ(s.tiled_rank(), 2U);
  EXPECT_EQ(s.tiles->text(), "{devices=[2,2,2]<=[8]}");
}

TEST(HloShardings, MeshesThatAreRefused) {
  for (const char* bad : {
           "[\"x\"=4, \"x\"=2]",
           "[\"x\"=0]",
           "[\"x\"=-4]",
           "[\"\"=4]",
           "[\"x\"=4,]",
           "[\"x\"=4",
           "[\"x\"]",
           "[x=4]",
           "[\"x\"=4.0]",
           "[\"x\"=99999999999999999999]",
           "[\"x\"=4294967296, \"y\"=4294967296]",
           "[\"x\"=4, \"y\"=2] trailing",
           "[\"x\"=4, \"y\"=2], device_ids=[]",
           "[\"x\"=4, \"y\"=2], device_ids=[0, 1, 2]",
           "[\"x\"=4, \"y\"=2], device_ids=[0, 1, 2, 3, 4, 5, 6, 7, 8]",
           "[\"x\"=4, \"y\"=2], device_ids=[0, 1, 2, 3, 4, 5, 6, 6]",
           "[\"x\"=4, \"y\"=2], device_ids=[0, 1, 2, 3, 4, 5, 6, 8]",
           "[\"x\"=4, \"y\"=2], device_ids=[-1, 1, 2, 3, 4, 5, 6, 7]",
           "[\"x\"=4, \"y\"=2], device_ids=[7, 6, 5, 4, 3, 2, 1, 0] trailing",
           "[\"x\"=4, \"y\"=2], device_ids=[7, 6, 5, 4, 3, 2, 1, 0,]",
           "[\"x\"=4, \"y\"=2], device_ids=7",
           "[\"x\"=4, \"y\"=2], devices=[7, 6, 5, 4, 3, 2, 1, 0]",
           "[\"x\"=2], device_ids=[6, 7]",
           "[], device_ids=[0, 1]",
           "[], device_ids=[-1]",
       }) {
    refused(of_mesh(bad));
  }
  refused(module("", "sdy.mesh @mesh = <[\"x\"=8]>\nsdy.mesh @mesh = <[\"y\"=8]>"));
  for (const char* bad : {"-1", "0", "1.5", "\"8\"", "99999999999999999999", "65537"}) {
    refused(str("module @m attributes {mhlo.num_partitions = ", bad,
                "} {\nfunc.func @main(%a: tensor<f32>) -> tensor<f32> {\nreturn %a : tensor<f32>\n}\n}"));
  }
}

TEST(HloShardings, MeshesThatAreAccepted) {
  for (const char* good : {
           "[\"x\"=4, \"y\"=2]",
           "[\"x\"=8, \"y\"=1]",
           "[\"x\"=2]",
           "[]",
           "[], device_ids=[5]",
           "[\"x\"=4, \"y\"=2], device_ids=[7, 3, 1, 5, 0, 2, 6, 4]",
           "[\"x\"=8], device_ids=[0, 1, 2, 3, 4, 5, 6, 7]",
           "[\"a axis\"=8]",
       }) {
    accepted(of_mesh(good));
  }
}

TEST(HloShardings, ShardyShardingsThatAreRefused) {
  for (const char* bad : {
           "",
           "@mesh",
           "@mesh, ",
           "@, [{}, {}]",
           "@nomesh, [{}, {}]",
           "@mesh, [{}]",
           "@mesh, [{}, {}, {}]",
           "@mesh, [{}, {}",
           "@mesh, [{}, {},]",
           "@mesh, [{} {}]",
           "@mesh, [{\"z\"}, {}]",
           "@mesh, [{x}, {}]",
           "@mesh, [{\"x\", \"x\"}, {}]",
           "@mesh, [{\"x\"}, {\"x\"}]",
           "@mesh, [{\"x\",}, {}]",
           "@mesh, [{?, \"x\"}, {}]",
           "@mesh, [{?, ?}, {}]",
           "@mesh, [{\"x\"}p, {}]",
           "@mesh, [{\"x\"}q1, {}]",
           "@mesh, [{\"x\"}p99999999999, {}]",
           "@mesh, [{\"x\":(1)}, {}]",
           "@mesh, [{\"x\":2}, {}]",
           "@mesh, [{\"x\":(0)2}, {}]",
           "@mesh, [{\"x\":(1)1}, {}]",
           "@mesh, [{\"x\":(1)3}, {}]",
           "@mesh, [{\"x\":(2)4}, {}]",
           "@mesh, [{\"x\":(1)4}, {}]",
           "@mesh, [{\"x\":(4)2}, {}]",
           "@mesh, [{\"x\":(-1)2}, {}]",
           "@mesh, [{\"x\":(9223372036854775807)2}, {}]",
           "@mesh, [{\"y\":(1)2}, {}]",
           "@mesh, [{\"x\":(1)2}, {\"x\":(1)2}]",
           "@mesh, [{\"x\"}, {\"x\":(1)2}]",
           "@mesh, [{\"x\"}, {}], replicated={\"x\"}",
           "@mesh, [{\"x\"}, {}], unreduced={\"x\"}",
           "@mesh, [{\"x\":(1)2}, {}], unreduced={\"x\"}",
           "@mesh, [{}, {}], replicated={\"x\"}, unreduced={\"x\"}",
           "@mesh, [{}, {}], replicated={\"z\"}",
           "@mesh, [{}, {}], unreduced={\"z\"}",
           "@mesh, [{}, {}], unreduced={\"x\", \"x\"}",
           "@mesh, [{}, {}], unreduced={\"x\"}, unreduced={\"y\"}",
           "@mesh, [{}, {}], unreduced=\"x\"",
           "@mesh, [{}, {}], reduced={\"x\"}",
           "@mesh, [{}, {}] trailing",
           "@none, [{\"x\"}, {}]",
           "mesh<[\"x\"=8], [{\"x\"}, {}]",
           "mesh<[\"x\"=8]>, [{\"y\"}, {}]",
           "mesh<[\"x\"=8], device_ids=[0, 0]>, [{\"x\"}, {}]",
       }) {
    refused(of_sdy(bad));
  }
  const char* ops[] = {
      "%0 = sdy.sharding_constraint %arg0 <@mesh, [{\"x\"}]> : tensor<8x4xf32>",
      "%0 = sdy.sharding_constraint %arg0 <@nomesh, [{\"x\"}, {}]> : tensor<8x4xf32>",
      "%0 = sdy.sharding_constraint %arg0 <@mesh, [{\"z\"}, {}]> : tensor<8x4xf32>",
      "%0 = sdy.reshard %arg0 <@mesh, [{\"x\"}, {\"x\"}]> : tensor<8x4xf32>",
      "%0 = stablehlo.negate %arg0 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{\"z\"}, {}]>]>} : "
      "tensor<8x4xf32>",
      "%0 = stablehlo.negate %arg0 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}]>]>} : tensor<8x4xf32>",
      "%0 = stablehlo.negate %arg0 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}, {}]>, <@mesh, [{}, {}]>]>} : "
      "tensor<8x4xf32>",
      "%0 = stablehlo.negate %arg0 {sdy.sharding = #sdy.other<[<@mesh, [{}, {}]>]>} : tensor<8x4xf32>",
  };
  for (const char* bad : ops) refused(of_ops(bad));
  const std::string in = "<@mesh, [{\"x\"}, {}]>";
  refused(manual(in, in, "\"x\", \"x\""));
  refused(manual(in, in, "\"z\""));
  refused(manual("<@mesh, [{\"x\"}]>", in, "\"x\""));
  refused(manual(in + ", " + in, in, "\"x\""));
  refused(manual("<@mesh, [{\"x\"}, {}], unreduced={\"x\"}>", in, "\"x\""));
  refused(manual(in, "<@other, [{\"u\"}, {}]>", "\"x\""));
  refused(manual(in, "<@nomesh, [{\"x\"}, {}]>", "\"x\""));
}

TEST(HloShardings, ShardyShardingsThatAreAccepted) {
  for (const char* good : {
           "@mesh, [{}, {}]",
           "@mesh, [{\"x\"}, {}]",
           "@mesh, [{\"x\"}, {\"y\"}]",
           "@mesh, [{\"x\", \"y\"}, {}]",
           "@mesh, [{\"y\", \"x\"}, {}]",
           "@mesh, [{?}, {?}]",
           "@mesh, [{\"x\", ?}, {?}]",
           "@mesh, [{\"x\"}p0, {?}p1]",
           "@mesh, [{\"x\", ?}p12, {}]",
           "@mesh, [{\"x\":(1)2}, {}]",
           "@mesh, [{\"x\":(2)2}, {\"x\":(1)2}]",
           "@mesh, [{\"x\":(1)2, \"y\"}, {}]",
           "@mesh, [{\"x\":(2)2}, {}], unreduced={\"x\":(1)2}",
           "@mesh, [{}, {}], replicated={\"x\"}",
           "@mesh, [{}, {}], unreduced={\"x\"}",
           "@mesh, [{\"y\"}, {}], replicated={\"x\":(1)2}, unreduced={\"x\":(2)2}",
           "@one, [{}, {}]",
           "@none, [{}, {}]",
           "@\"mesh\", [{\"x\"}, {}]",
           "mesh<[\"u\"=8]>, [{\"u\"}, {}]",
           " @mesh ,[ { \"x\" } , { } ] ",
       }) {
    accepted(of_sdy(good));
  }
  accepted(of_ops("%0 = sdy.sharding_constraint %arg0 <@mesh, [{\"x\"}, {?}]> : tensor<8x4xf32>"));
  accepted(
      of_ops("%0 = stablehlo.negate %arg0 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{\"x\"}, {}]>]>} : "
             "tensor<8x4xf32>"));
  const std::string in = "<@mesh, [{\"x\"}, {}]>";
  accepted(manual(in, in, "\"x\""));
  accepted(manual(in, in, "\"x\", \"y\""));
}

}  // namespace
}  // namespace tessera
