// SPDX-License-Identifier: Apache-2.0
// Programs that were read are written and read again: the same values, and a text that no longer changes.
#include <gtest/gtest.h>

#include "base/strings.h"
#include "tessera/device.h"
#include "tessera/io.h"
#include "tessera/stablehlo.h"
#include "tessera/tessera.h"
#include "tests/support/paths.h"
#include "tests/support/series.h"
#include "tests/support/text_programs.h"

namespace tessera {
namespace {

struct Case {
  std::string name, program;
  std::vector<HostArray> args;
};

std::vector<Case> cases_of(const std::string& family) {
  auto all = load_npz(test::source_path("tests/hlo/" + family + ".npz"));
  std::vector<Case> out;
  int number = 0;
  for (const auto& [key, value] : all) {
    if (!key.ends_with("/program") || number++ % test::case_stride() != 0) continue;
    Case c;
    c.name = key.substr(0, key.size() - 8);
    c.program.assign(static_cast<const char*>(value.data()), static_cast<std::size_t>(value.size()));
    for (int i = 0; all.contains(str(c.name, "/arg", i)); ++i) c.args.push_back(all[str(c.name, "/arg", i)]);
    out.push_back(std::move(c));
  }
  return out;
}

std::vector<HostArray> as_read(const StablehloProgram& p, std::vector<HostArray> args) {
  for (std::size_t i = 0; i < args.size(); ++i) args[i] = args[i].astype(p.inputs()[i].dtype);
  return args;
}
std::vector<HostArray> run(const StablehloProgram& p, const std::vector<HostArray>& args) {
  return p.run(as_read(p, args));
}

class HloExport : public testing::TestWithParam<const char*> {};

TEST_P(HloExport, WrittenProgramsComputeTheSame) {
  int written = 0;
  for (const auto& c : cases_of(GetParam())) {
    StablehloProgram first = StablehloProgram::parse(c.program, c.name);
    bool narrow = false;
    for (const auto& p : first.inputs()) narrow = narrow || p.narrow;
    for (const auto& p : first.outputs()) narrow = narrow || p.narrow;
    if (narrow) continue;  // written in the wider types that hold them
    std::string text = first.as_text();
    ClientScope scope(Client::cpu({.devices = first.num_devices()}));
    StablehloProgram second = StablehloProgram::parse(text, c.name);
    auto want = run(first, c.args), got = run(second, c.args);
    ASSERT_EQ(got.size(), want.size()) << c.name;
    for (std::size_t i = 0; i < got.size(); ++i) {
      ASSERT_EQ(got[i].dtype(), want[i].dtype()) << c.name;
      ASSERT_EQ(got[i].shape(), want[i].shape()) << c.name;
      HostArray g = got[i].astype(DType::C128), w = want[i].astype(DType::C128);
      double tolerance = want[i].dtype() == DType::BF16 || want[i].dtype() == DType::F16 ? 3e-2 : 1e-4;
      for (std::int64_t k = 0; k < g.size(); ++k) {
        auto x = g.span<complex128_t>()[static_cast<std::size_t>(k)],
             y = w.span<complex128_t>()[static_cast<std::size_t>(k)];
        if (x == y || !std::isfinite(std::abs(y))) continue;
        ASSERT_LE(std::abs(x - y), tolerance * (1 + std::abs(y))) << c.name << " out" << i << " element " << k;
      }
    }
    bool half = text.find("bf16") != std::string::npos || text.find("f16>") != std::string::npos;
    test::keep({str("again.", c.name), text, as_read(first, c.args), want, half ? 3e-2 : 2e-4});
    ++written;
  }
  EXPECT_GT(written, 0);
}
INSTANTIATE_TEST_SUITE_P(Families, HloExport,
                         testing::Values("control", "elementwise", "indexing", "linalg", "nn", "products", "reductions",
                                         "shapes", "sharding"),
                         [](const auto& info) { return std::string(info.param); });

class HloFixedPoint : public testing::TestWithParam<const char*> {};

TEST_P(HloFixedPoint, WhatWasWrittenIsReadAndWrittenTheSame) {
  int same = 0;
  for (const auto& c : cases_of(GetParam())) {
    std::string written = StablehloProgram::parse(c.program, c.name).as_text();
    EXPECT_EQ(StablehloProgram::parse(written, c.name).as_text(), written) << c.name;
    ++same;
  }
  EXPECT_GT(same, 0);
}
INSTANTIATE_TEST_SUITE_P(Families, HloFixedPoint,
                         testing::Values("control", "elementwise", "forms", "indexing", "linalg", "nn", "products",
                                         "randoms", "reductions", "shapes", "sharding"),
                         [](const auto& info) { return std::string(info.param); });

TEST(HloExport, AnExampleInFull) {
  std::string text =
      "func.func @main(%arg0: tensor<2x3xf32>) -> tensor<3xf32> {\n"
      "  %c = stablehlo.constant dense<0.0> : tensor<f32>\n"
      "  %0 = stablehlo.reduce(%arg0 init: %c) applies stablehlo.add across dimensions = [0] : (tensor<2x3xf32>, "
      "tensor<f32>) -> tensor<3xf32>\n"
      "  return %0 : tensor<3xf32>\n}\n";
  std::string written = StablehloProgram::parse(text).as_text();
  EXPECT_EQ(
      written,
      "module @module attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {\n"
      "  func.func public @main(%arg0: tensor<2x3xf32>) -> (tensor<3xf32> {jax.result_info = \"result\"}) {\n"
      "    %c = stablehlo.constant dense<0.000000e+00> : tensor<f32>\n"
      "    %0 = stablehlo.reduce(%arg0 init: %c) applies stablehlo.add across dimensions = [0] : (tensor<2x3xf32>, "
      "tensor<f32>) -> tensor<3xf32>\n"
      "    return %0 : tensor<3xf32>\n"
      "  }\n"
      "}\n");
  // Names are given in order, so that writing what was written changes nothing.
  EXPECT_EQ(StablehloProgram::parse(written).as_text(), written);
}

// XLA reads a routine's operands as their layouts say, and looks at the types of its flags.
TEST(HloExport, RoutinesOfLapackKeepTheirLayoutsAndFlags) {
  auto again = [](const std::string& call, const std::string& args, const std::string& signature) {
    return StablehloProgram::parse("func.func @main(" + args + ") -> tensor<8x6x4xf32> {\n  %0:5 = " + call + " : " +
                                   signature + "\n  return %0#3 : tensor<8x6x4xf32>\n}\n")
        .as_text();
  };
  std::string band = "tensor<8x6xf32>", wide = "tensor<8x6x4xf32>";
  std::string text = again("stablehlo.custom_call @lapack_sgtsv_ffi(%a, %b, %c, %d) {mhlo.backend_config = {}}",
                           "%a: " + band + ", %b: " + band + ", %c: " + band + ", %d: " + wide,
                           "(" + band + ", " + band + ", " + band + ", " + wide + ") -> (" + band + ", " + band + ", " +
                               band + ", " + wide + ", tensor<8xi32>)");
  EXPECT_NE(text.find("operand_layouts = [dense<[1, 0]> : tensor<2xindex>, dense<[1, 0]> : tensor<2xindex>, "
                      "dense<[1, 0]> : tensor<2xindex>, dense<[1, 2, 0]> : tensor<3xindex>]"),
            std::string::npos)
      << text;
  text = StablehloProgram::parse(R"(
func.func @main(%a: tensor<6x6xf32>) -> tensor<5xf32> {
  %0:3 = stablehlo.custom_call @lapack_sgehrd_ffi(%a) {mhlo.backend_config = {high = 6 : i32, low = 1 : i32}}
      : (tensor<6x6xf32>) -> (tensor<6x6xf32>, tensor<5xf32>, tensor<i32>)
  return %0#1 : tensor<5xf32>
})")
             .as_text();
  EXPECT_NE(text.find("mhlo.backend_config = {high = 6 : i32, low = 1 : i32}"), std::string::npos) << text;
  text = StablehloProgram::parse(R"(
func.func @main(%a: tensor<6x6xcomplex<f32>>) -> tensor<6xf32> {
  %0:3 = stablehlo.custom_call @lapack_cheevd_ffi(%a) {mhlo.backend_config = {mode = 86 : ui8, uplo = 85 : ui8}}
      : (tensor<6x6xcomplex<f32>>) -> (tensor<6x6xcomplex<f32>>, tensor<6xf32>, tensor<i32>)
  return %0#1 : tensor<6xf32>
})")
             .as_text();
  EXPECT_NE(text.find("@lapack_cheevd_ffi(%arg0) {backend_config = \"\", mhlo.backend_config = {mode = 86 : ui8, "
                      "uplo = 85 : ui8}"),
            std::string::npos)
      << text;
}

// The whole matrix is an op, which is split and has a kernel; a part of it remains the host's call.
TEST(HloExport, ReductionsToHessenbergFormAreAnOp) {
  auto written = [](int low) {
    return StablehloProgram::parse(
               str("func.func @main(%a: tensor<2x6x6xf32>) -> tensor<2x6x6xf32> {\n  %0:3 = "
                   "stablehlo.custom_call @lapack_sgehrd_ffi(%a) {mhlo.backend_config = {high = 6 : "
                   "i32, low = ",
                   low,
                   " : i32}} : (tensor<2x6x6xf32>) -> (tensor<2x6x6xf32>, tensor<2x5xf32>, "
                   "tensor<2xi32>)\n  return %0#0 : tensor<2x6x6xf32>\n}\n"))
        .as_text();
  };
  EXPECT_NE(written(1).find("stablehlo.composite \"tessera.hessenberg\" %arg0 {decomposition = "), std::string::npos)
      << written(1);
  EXPECT_EQ(written(2).find("composite"), std::string::npos) << written(2);
  EXPECT_NE(written(2).find("low = 2 : i32"), std::string::npos) << written(2);
  for (int low : {1, 2}) EXPECT_EQ(StablehloProgram::parse(written(low)).as_text(), written(low));
}

// Attributes of a composite are the op's fields; what does not fit the op is computed by the decomposition.
TEST(HloExport, CompositesAreReadByTheFieldsOfTheirOps) {
  auto read_again = [](const std::string& attributes) {
    std::string text =
        str("func.func @main(%a: tensor<4x3xf32>) -> (tensor<4x3xf32>, tensor<3x3xf32>) {\n  %0:2 = "
            "stablehlo.composite \"tessera.qr\" %a {",
            attributes,
            "decomposition = @f} : (tensor<4x3xf32>) -> (tensor<4x3xf32>, tensor<3x3xf32>)\n  return "
            "%0#0, %0#1 : tensor<4x3xf32>, tensor<3x3xf32>\n}\nfunc.func private @f(%a: "
            "tensor<4x3xf32>) -> (tensor<4x3xf32>, tensor<3x3xf32>) {\n  %0 = stablehlo.slice %a [0:3, "
            "0:3] : (tensor<4x3xf32>) -> tensor<3x3xf32>\n  return %a, %0 : tensor<4x3xf32>, "
            "tensor<3x3xf32>\n}\n");
    return StablehloProgram::parse(text).as_text().find(
               "\"tessera.qr\" %arg0 {composite_attributes = {full = false}") != std::string::npos;
  };
  EXPECT_TRUE(read_again("composite_attributes = {full = false}, "));
  EXPECT_TRUE(read_again(""));
  EXPECT_FALSE(read_again("composite_attributes = {full = true}, "));  // its results have other shapes
  EXPECT_FALSE(read_again("composite_attributes = {pivots = true}, "));
  EXPECT_FALSE(read_again("composite_attributes = {full = 2.5 : f64}, "));
  EXPECT_FALSE(read_again("composite_attributes = {full = \"no\"}, "));
}

// The collectives in the text of one device, in order.
std::vector<std::string> collectives_in(const std::string& text) {
  std::vector<std::string> out;
  for (std::size_t at = 0; (at = text.find("\"stablehlo.", at)) != std::string::npos;) {
    at += 11;
    std::string name = text.substr(at, text.find('"', at) - at);
    for (const char* known : {"all_gather", "all_reduce", "all_to_all", "collective_permute", "reduce_scatter"}) {
      if (name == known) out.push_back(name);
    }
  }
  return out;
}

TEST(DeviceText, StepsOfLayoutChangesAreWrittenAsThePlanHasThem) {
  ClientScope scope(Client::cpu({.devices = 8}));
  Mesh mesh = make_mesh({2, 2, 2}, {"x", "y", "z"});
  auto moved = [&](const PartitionSpec& from, const PartitionSpec& to, const Shape& shape = {8, 8, 8}) {
    Array x = device_put(zeros(shape, float32), NamedSharding(mesh, from));
    auto f = jit([](const Array& a) { return tanh(a); }, {.out_shardings = {NamedSharding(mesh, to)}});
    auto program = StablehloProgram::parse(f.lower(x).as_text(), "moved");
    return join(collectives_in(program.device_text(program.place({x.host()}))));
  };
  EXPECT_EQ(moved(P("x"), P()), "all_gather");
  EXPECT_EQ(moved(P(), P("x", "y")), "");
  EXPECT_EQ(moved(P("x"), P(none, "x")), "all_to_all");
  EXPECT_EQ(moved(P("x", "y"), P("y", "x")), "collective_permute");
  EXPECT_EQ(moved(P(axes("x", "y")), P(axes("y", "x"))), "collective_permute");
  // Axes of two dimensions go on to two others: no dimension is made whole on the way.
  EXPECT_EQ(moved(P(axes("x", "y"), "z"), P("x", none, axes("y", "z"))).find("all_gather"), std::string::npos);
}

}  // namespace
}  // namespace tessera
