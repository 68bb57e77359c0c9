// SPDX-License-Identifier: Apache-2.0
// Random programs of linear code, products, constraints and maps over unreduced values.
#include <gtest/gtest.h>

#include <random>

#include "tests/unit/hlo_addends.h"

namespace tessera::test {
namespace {

// Every way to give the axes of a mesh to the dimensions, to the sum, or to nothing, for the argument, a constraint,
// a map's operand and result, and the result, in random programs of linear code and products.
TEST(HloAddends, RandomAssignmentsOfAxes) {
  std::mt19937 draws(7);
  auto pick = [&](std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(draws); };
  for (int round = 0; round < 60; ++round) {
    bool three = pick(2) == 0;
    std::vector<std::string> axes =
        three ? std::vector<std::string>{"a", "b", "c"} : std::vector<std::string>{"a", "b"};
    std::string mesh = three          ? R"(<["a"=2, "b"=2, "c"=2]>)"
                       : pick(2) == 0 ? R"(<["a"=4, "b"=2]>)"
                                      : R"(<["a"=2, "b"=4]>)";
    auto size_of_axis = [&](const std::string& axis) {
      return static_cast<std::int64_t>(mesh[mesh.find(axis + "\"=") + 3] - '0');
    };
    std::string block;  // of the last sharding
    auto sharding = [&] {
      std::vector<std::string> groups[4];
      std::int64_t rows = 8, columns = 8;
      for (const auto& axis : axes) {
        std::size_t use = pick(4);
        groups[use].push_back(str("\"", axis, "\""));
        if (use < 2) (use == 0 ? rows : columns) /= size_of_axis(axis);
      }
      block = str("tensor<", rows, "x", columns, "xf32>");
      std::string out = str("[{", join(groups[0]), "}, {", join(groups[1]), "}]");
      if (!groups[3].empty()) out += str(", unreduced={", join(groups[3]), "}");
      return out;
    };
    std::string body;
    std::string at = "%arg0";
    int n = 0;
    auto define = [&](const std::string& op) {
      std::string name = str("%v", n++);
      body += str("    ", name, " = ", op,
                  op.back() == '>' && op.find("->") != std::string::npos ? "" : " : tensor<8x8xf32>", "\n");
      at = name;
    };
    for (std::size_t steps = 1 + pick(5); steps > 0; --steps) {
      switch (pick(4)) {
        case 0:
          define(str("stablehlo.add ", at, ", ", at));
          break;
        case 1:
          define(str("stablehlo.multiply ", at, ", %arg1"));
          break;
        case 2:
          define(str("stablehlo.negate ", at));
          break;
        default: {
          std::string s = sharding();
          std::string manual;
          for (const auto& axis : axes) manual += str(manual.empty() ? "\"" : ", \"", axis, "\"");
          std::string operand = at;
          define(str("sdy.manual_computation(", operand, ") in_shardings=[<@mesh, ", s, ">] out_shardings=[<@mesh, ", s,
                     ">] manual_axes={", manual, "} (%a: ", block, ") {\n      %b = stablehlo.negate %a : ", block,
                     "\n      sdy.return %b : ", block, "\n    } : (tensor<8x8xf32>) -> tensor<8x8xf32>"));
          break;
        }
      }
      define(str("sdy.sharding_constraint ", at, " <@mesh, ", sharding(), ">"));
    }
    std::string text =
        module(str("  func.func public @main(%arg0: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, ", sharding(),
                   ">}, %arg1: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, ", sharding(),
                   ">}) -> (tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, ", sharding(), ">}) {\n", body,
                   "    return ", at, " : tensor<8x8xf32>\n  }"),
               mesh);
    SCOPED_TRACE(text);
    Called c(text);
    Array out = c.result();
    // The reference: every operation on whole values.
    std::vector<double> x = c.whole[0].astype(float64).to_vector<double>();
    std::vector<double> y = c.whole[1].astype(float64).to_vector<double>();
    for (std::size_t from = 0; from < body.size();) {
      std::size_t end = body.find('\n', from);
      std::string line = body.substr(from, end - from);
      for (std::size_t i = 0; i < x.size(); ++i) {
        if (line.find("stablehlo.add") != std::string::npos) x[i] += x[i];
        if (line.find("stablehlo.multiply") != std::string::npos) x[i] *= y[i];
        if (line.find("stablehlo.negate") != std::string::npos) x[i] = -x[i];
      }
      from = end + 1;
    }
    EXPECT_EQ(value_of_shards(out).astype(float64).to_vector<double>(), x);
    EXPECT_EQ(c.plain().astype(float64).to_vector<double>(), x);
  }
}

}  // namespace
}  // namespace tessera::test
