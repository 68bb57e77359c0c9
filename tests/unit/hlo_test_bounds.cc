// SPDX-License-Identifier: Apache-2.0
// Short texts that stand for very much: refused soon, and without the memory that they would take.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <ctime>

#include "base/strings.h"
#include "hlo/module.h"
#include "tessera/device.h"
#include "tessera/error.h"
#include "tessera/stablehlo.h"
#include "tests/support/series.h"

namespace tessera {
namespace {

constexpr int kSanitizerFactor = 20;

double seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

// That reading ends with an error, within a second of this process's time.
template <class E = FormatError>
void refused_soon(const std::string& text, const std::string& says) {
  double begin = seconds();
  try {
    hlo::import_module(text);
    ADD_FAILURE() << "accepted: " << text.substr(0, 400);
  } catch (const E& e) {
    EXPECT_NE(std::string(e.what()).find(says), std::string::npos) << e.what();
  }
  EXPECT_LT(seconds() - begin, test::case_stride() > 1 ? kSanitizerFactor : 1) << text.substr(0, 400);
}

const char* const kMain = "func.func @main(%a: tensor<f32>) -> tensor<f32> {\n  return %a : tensor<f32>\n}\n";

TEST(HloBounds, AliasesOfAliases) {
  auto chain = [](const std::string& first, auto next, int n) {
    std::string text = first;
    for (int i = 1; i < n; ++i) text += next(i) + "\n";
    return text;
  };
  std::string lists = chain(
      "#a0 = [0, 0, 0, 0]\n",
      [](int i) { return str("#a", i, " = [#a", i - 1, ", #a", i - 1, ", #a", i - 1, ", #a", i - 1, "]"); }, 24);
  refused_soon(lists + kMain, "aliases");
  std::string dicts = chain(
      "#a0 = {x = 1}\n", [](int i) { return str("#a", i, " = {x = #a", i - 1, ", y = #a", i - 1, "}"); }, 40);
  refused_soon(dicts + kMain, "aliases");
  std::string types = chain(
      "!t0 = tuple<tensor<f32>, tensor<f32>>\n",
      [](int i) { return str("!t", i, " = tuple<!t", i - 1, ", !t", i - 1, ">"); }, 40);
  refused_soon(types + kMain, "aliases");
  // Deep ones, and one large one that is used often.
  std::string deep = chain(
      "#a0 = [0]\n", [](int i) { return str("#a", i, " = [#a", i - 1, "]"); }, 3000);
  refused_soon(deep + kMain, "aliases");
  std::string wide = "#a = [0";
  for (int i = 0; i < 5000; ++i) wide += ", 0";
  wide += "]\nmodule attributes {";
  for (int i = 0; i < 1000; ++i) wide += str(i == 0 ? "" : ", ", "x", i, " = #a");
  refused_soon(wide + "} {\n" + kMain + "}\n", "aliases");
}

TEST(HloBounds, CirclesOfAliases) {
  refused_soon(str("#a = [#a, #a]\n", kMain), "unknown attribute");
  refused_soon(str("#a = [#b]\n#b = [#a]\n", kMain), "unknown attribute");
  refused_soon(str("#a = 1\n#a = [#a, #a]\n", kMain), "defined twice");
  refused_soon(str("!t = tuple<!t>\n", kMain), "unknown type");
  refused_soon(str("!t = f32\n!t = tuple<!t, !t>\n", kMain), "defined twice");
}

TEST(HloBounds, AliasesThatAreUsedAsTheyAreMeant) {
  std::string text =
      "#dims = array<i64: 1>\n!v = tensor<2x3xf32>\n#both = {a = #dims,\n  b = #dims}\n#loc = loc(unknown)\n";
  text += "#locations = [1]\nfunc.func @main(%0: !v) -> !v attributes {x = #both, y = #locations} {\n";
  for (int i = 0; i < 2000; ++i) {
    text += str("  %", i + 1, " = \"stablehlo.reverse\"(%", i, ") <{dimensions = #dims}> : (!v) -> !v loc(#loc)\n");
  }
  EXPECT_EQ(hlo::import_module(text + "  return %2000 : !v\n}\n#loc1 = loc(#loc)\n").inputs.size(), 1U);
}

// Each calls the one before twice, in its body or within loops.
TEST(HloBounds, FunctionsThatDouble) {
  auto doubling = [](const std::string& once, int n) {
    std::string text =
        "func.func private @f0(%a: tensor<f32>) -> tensor<f32> {\n  %0 = stablehlo.add %a, %a : "
        "tensor<f32>\n  return %0 : tensor<f32>\n}\n";
    for (int i = 1; i < n; ++i) {
      std::string body = once;
      for (auto at = body.find("@f"); at != std::string::npos; at = body.find("@f", at + 2)) {
        body.insert(at + 2, std::to_string(i - 1));
      }
      text += str("func.func private @f", i, "(%a: tensor<f32>) -> tensor<f32> {\n", body, "}\n");
    }
    return str(text, "func.func @main(%a: tensor<f32>) -> tensor<f32> {\n  %0 = call @f", n - 1,
               "(%a) : (tensor<f32>) -> tensor<f32>\n  return %0 : tensor<f32>\n}\n");
  };
  std::string call = " = func.call @f(%a) : (tensor<f32>) -> tensor<f32>\n";
  std::string plain =
      str("  %0", call, "  %1", call, "  %2 = stablehlo.add %0, %1 : tensor<f32>\n  return %2 : tensor<f32>\n");
  refused_soon<ResourceExhaustedError>(doubling(plain, 60), "operations");
  auto loop = [](const std::string& name, const std::string& from) {
    return str(
        "  ", name, " = stablehlo.while(%i = ", from, ") : tensor<f32>\n  cond {\n    %c = stablehlo.compare LT, %i, ",
        "%i : (tensor<f32>, tensor<f32>) -> tensor<i1>\n    stablehlo.return %c : tensor<i1>\n  } do {\n    %r = ",
        "func.call @f(%i) : (tensor<f32>) -> tensor<f32>\n    stablehlo.return %r : tensor<f32>\n  }\n");
  };
  std::string loops = loop("%0", "%a") + loop("%1", "%0") + "  return %1 : tensor<f32>\n";
  refused_soon<ResourceExhaustedError>(doubling(loops, 30), "operations");
  // What is not much is read.
  EXPECT_GT(hlo::import_module(doubling(plain, 8)).graph->eqns.size(), 200U);
  EXPECT_EQ(hlo::import_module(doubling(loops, 6)).graph->eqns.size(), 2U);
}

TEST(HloBounds, Depth) {
  std::string open = str("func.func @main(%a: tensor<f32>) -> tensor<f32> {\n  %0 = stablehlo.add ");
  for (const char* bracket : {"(", "[", "{", "<", "{x = ", "[[", "(%a, ("}) {
    std::string deep = open;
    for (int i = 0; i < 300000; ++i) deep += bracket;
    refused_soon(deep, "");
  }
  std::string types = "func.func @main(%a: ";
  for (int i = 0; i < 300000; ++i) types += "tuple<";
  refused_soon(types, "nested too deeply");
  std::string modules;
  for (int i = 0; i < 300000; ++i) modules += "module {\n";
  refused_soon(modules, "nested too deeply");
  std::string regions = "func.func @main() {\n";
  for (int i = 0; i < 100000; ++i) regions += "\"stablehlo.if\"() ({\n";
  refused_soon(regions, "nested too deeply");
  // A serialized sharding that holds itself again and again.
  std::string tuple;
  for (int i = 0; i < 2000; ++i) tuple += "*\\7f";
  refused_soon(str("func.func @main(%a: tensor<f32> {mhlo.sharding = \"\\08\\02", tuple,
                   "\"}) -> tensor<f32> {\n  return %a : tensor<f32>\n}\n"),
               "sharding");
}

TEST(HloBounds, CountsAndShapes) {
  refused_soon(
      "func.func @main() {\n  %0:1000000 = \"stablehlo.after_all\"() : () -> (!stablehlo.token)\n  return\n}\n",
      "names 1000000 results");
  refused_soon("func.func @main() {\n  %0:9223372036854775807 = \"x\"() : () -> ()\n  return\n}\n", "count of results");
  refused_soon(
      "func.func @main(%a: tensor<4x4xf32>) -> tensor<4x4xf32> {\n  %0 = \"stablehlo.transpose\"(%a) "
      "<{permutation = dense<0> : tensor<1099511627776xi64>}> : (tensor<4x4xf32>) -> tensor<4x4xf32>\n"
      "  return %0 : tensor<4x4xf32>\n}\n",
      "a list of 1099511627776");
  refused_soon("func.func @main() -> tensor<9999999999x9999999999xf32> {\n  return\n}\n", "too many elements");
  std::string many = "tensor<";
  for (int i = 0; i < 100; ++i) many += "1x";
  refused_soon(str("func.func @main() -> ", many, "f32> {\n  return\n}\n"), "64 dimensions");
  // One value for all is kept as one.
  double begin = seconds();
  std::string huge = "tensor<1048576x1048576xf32>";
  auto program =
      hlo::import_module(str("func.func @main() -> ", huge, " {\n  %0 = stablehlo.constant dense<1.0> : ", huge,
                             "\n  %1 = stablehlo.iota dim = 0 : ", huge, "\n  %2 = stablehlo.add %0, %1 : ", huge,
                             "\n  return %2 : ", huge, "\n}\n"));
  EXPECT_LT(seconds() - begin, 1);
  EXPECT_EQ(program.outputs.size(), 1U);
  hlo::ImportOptions bounded;
  bounded.max_memory = 1 << 30;
  EXPECT_THROW(hlo::import_module(str("func.func @main() -> ", huge, " {\n  %0 = stablehlo.iota dim = 0 : ", huge,
                                      "\n  return %0 : ", huge, "\n}\n"),
                                  bounded),
               ResourceExhaustedError);
}

TEST(HloBounds, TablesAmongDevices) {
  std::string meshes;
  for (int i = 0; i < 20000; ++i) meshes += str("sdy.mesh @m", i, " = <[\"x\"=2]>\n");
  refused_soon(meshes + kMain, "more than 1024 meshes");
  // The second mesh does not nest with the first: every device would be told where each of 16,384 tiles lies.
  refused_soon<ResourceExhaustedError>(
      R"(module attributes {mhlo.num_partitions = 49152 : i32} {
sdy.mesh @a = <["p"=2, "q"=24576]>
sdy.mesh @b = <["u"=3, "v"=16384]>
func.func @main(%a: tensor<49152xf32> {sdy.sharding = #sdy.sharding<@a, [{"p", "q"}]>}) -> tensor<49152xf32> {
  %0 = sdy.manual_computation(%a) in_shardings=[<@b, [{"u"}]>] out_shardings=[<@b, [{"u"}]>] manual_axes={"u"} (%b: tensor<16384xf32>) {
    %1 = sdy.manual_computation(%b) in_shardings=[<@b, [{"v"}]>] out_shardings=[<@b, [{"v"}]>] manual_axes={"v"} (%c: tensor<1xf32>) {
      sdy.return %c : tensor<1xf32>
    } : (tensor<16384xf32>) -> tensor<16384xf32>
    sdy.return %1 : tensor<16384xf32>
  } : (tensor<49152xf32>) -> tensor<49152xf32>
  return %0 : tensor<49152xf32>
}
}
)",
      "16384 tiles of a result");
}

TEST(HloBounds, NamesHaveOneMeaning) {
  refused_soon(
      "func.func @main(%a: tensor<f32>) -> tensor<f32> {\n  %0 = stablehlo.add %a, %a : tensor<f32>\n"
      "  %0 = stablehlo.multiply %a, %a : tensor<f32>\n  return %0 : tensor<f32>\n}\n",
      "%0 is defined twice");
  refused_soon("func.func @main(%a: tensor<f32>, %a: tensor<f32>) -> tensor<f32> {\n  return %a : tensor<f32>\n}\n",
               "%a is defined twice");
  refused_soon<UnimplementedError>(
      "func.func @main(%a: tensor<3xf32>, %i: tensor<3xi32>, %x: tensor<f32>, %y: tensor<i32>) -> tensor<2xf32> {\n"
      "  %0:2 = stablehlo.custom_call @ApproxTopK(%a, %i, %x, %y) {called_computations = [@c_lt_d], "
      "mhlo.backend_config = "
      "{reduction_dim = 0 : i64}} : (tensor<3xf32>, tensor<3xi32>, tensor<f32>, tensor<i32>) -> (tensor<2xf32>, "
      "tensor<2xi32>)\n"
      "  return %0#0 : tensor<2xf32>\n}\nfunc.func private @c_lt_d(%p: tensor<f32>, %q: tensor<f32>) -> tensor<i1> {\n"
      "  %c = stablehlo.compare GT, %q, %p : (tensor<f32>, tensor<f32>) -> tensor<i1>\n  return %c : tensor<i1>\n}\n",
      "a comparator @c_lt_d");
}

}  // namespace
}  // namespace tessera
