// SPDX-License-Identifier: Apache-2.0
// Reducers and windows of StableHLO that are ops with a name: JAX's argmax and argmin, and its running reductions.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/strings.h"
#include "tessera/device.h"
#include "tessera/stablehlo.h"

namespace tessera {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

struct Search {
  std::string compare = "GT", value_start = "0xFF800000", index_start = "0";
  std::string nan = "stablehlo.or %4, %3";
  std::string tie = "LT";
  std::string iota_dim = "1";
};

// As JAX writes argmax(x, 1).
std::string search_text(const Search& s) {
  return str(R"(
module @m {
  func.func public @main(%arg0: tensor<4x5xf32>) -> (tensor<4xf32>, tensor<4xi32>) {
    %0 = stablehlo.iota dim = )",
             s.iota_dim, R"( : tensor<4x5xi32>
    %cst = stablehlo.constant dense<)",
             s.value_start, R"(> : tensor<f32>
    %c = stablehlo.constant dense<)",
             s.index_start, R"(> : tensor<i32>
    %1:2 = stablehlo.reduce(%arg0 init: %cst), (%0 init: %c) across dimensions = [1] : (tensor<4x5xf32>, tensor<4x5xi32>, tensor<f32>, tensor<i32>) -> (tensor<4xf32>, tensor<4xi32>)
     reducer(%arg1: tensor<f32>, %arg3: tensor<f32>) (%arg2: tensor<i32>, %arg4: tensor<i32>)  {
      %4 = stablehlo.compare )",
             s.compare, R"(, %arg1, %arg3, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %3 = stablehlo.compare NE, %arg1, %arg1, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %5 = )",
             s.nan, R"( : tensor<i1>
      %6 = stablehlo.compare EQ, %arg1, %arg3, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %7 = stablehlo.compare )",
             s.tie, R"(, %arg2, %arg4, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %8 = stablehlo.and %6, %7 : tensor<i1>
      %9 = stablehlo.or %5, %8 : tensor<i1>
      %10 = stablehlo.select %5, %arg1, %arg3 : tensor<i1>, tensor<f32>
      %11 = stablehlo.select %9, %arg2, %arg4 : tensor<i1>, tensor<i32>
      stablehlo.return %10, %11 : tensor<f32>, tensor<i32>
    }
    return %1#0, %1#1 : tensor<4xf32>, tensor<4xi32>
  }
})");
}

HostArray lines() {
  return HostArray::from(std::vector<float>{1,     3,     -0.0f, 3,     2,      //
                                            kNan,  5,     kNan,  kInf,  7,      //
                                            -kInf, -kInf, -kInf, -kInf, -kInf,  //
                                            0,     -0.0f, 0.0f,  -0.0f, -1},
                         {4, 5});
}

TEST(HloReducers, JaxArgmaxAndArgminAreOps) {
  ClientScope scope(Client::cpu({.devices = 1}));
  auto greatest = StablehloProgram::parse(search_text({}));
  EXPECT_NE(greatest.text().find("argmax["), std::string::npos) << greatest.text();
  auto out = greatest.run({lines()});
  EXPECT_EQ(out[1].to_vector<std::int32_t>(), (std::vector<std::int32_t>{1, 0, 0, 0}));
  // The element itself is what the reducer chooses: the last one of equal zeros.
  EXPECT_TRUE(std::isnan(out[0].to_vector<float>()[1]));
  EXPECT_TRUE(std::signbit(out[0].to_vector<float>()[3]));
  auto least = StablehloProgram::parse(search_text({.compare = "LT", .value_start = "0x7F800000"}));
  EXPECT_NE(least.text().find("argmin["), std::string::npos) << least.text();
  EXPECT_EQ(least.run({lines()})[1].to_vector<std::int32_t>(), (std::vector<std::int32_t>{2, 0, 0, 4}));
}

TEST(HloReducers, OtherSearchesStayWhatTheyAre) {
  ClientScope scope(Client::cpu({.devices = 1}));
  auto search = [](const Search& s) {
    auto program = StablehloProgram::parse(search_text(s));
    EXPECT_EQ(program.text().find("argm"), std::string::npos) << program.text();
    return program.run({lines()})[1].to_vector<std::int32_t>();
  };
  using Places = std::vector<std::int32_t>;
  EXPECT_EQ(search({.tie = "GT"}), (Places{3, 0, 4, 3}));                    // the last of equal ones
  EXPECT_EQ(search({.value_start = "2.0"}), (Places{1, 0, 0, 0}));           // a start value that counts
  EXPECT_EQ(search({.index_start = "-1"}), (Places{1, 0, -1, 0}));           // and a place that does
  EXPECT_EQ(search({.nan = "stablehlo.and %4, %4"}), (Places{1, 3, 0, 0}));  // NaN loses
  EXPECT_EQ(search({.iota_dim = "0"}), (Places{0, 1, 0, 3}));                // other places
}

std::string window_text(const std::string& type, const std::string& start, const std::string& op,
                        const std::string& padding, int size = 5) {
  return str(R"(
module @m {
  func.func public @main(%arg0: tensor<3x5x)",
             type, ">) -> tensor<3x5x", type, R"(> {
    %cst = stablehlo.constant dense<)",
             start, "> : tensor<", type, R"(>
    %0 = "stablehlo.reduce_window"(%arg0, %cst) <{padding = dense<)",
             padding, R"(> : tensor<2x2xi64>, window_dimensions = array<i64: 1, )", size, R"(>}> ({
    ^bb0(%arg1: tensor<)",
             type, ">, %arg2: tensor<", type, R"(>):
      %1 = stablehlo.)",
             op, " %arg1, %arg2 : tensor<", type, R"(>
      stablehlo.return %1 : tensor<)",
             type, R"(>
    }) : (tensor<3x5x)",
             type, ">, tensor<", type, ">) -> tensor<3x5x", type, R"(>
    return %0 : tensor<3x5x)",
             type, R"(>
  }
})");
}

TEST(HloReducers, WindowsOverAllBeforeOrBehindAreRunningReductions) {
  ClientScope scope(Client::cpu({.devices = 1}));
  std::vector<std::int32_t> numbers{3, 1, 4, 1, 5, -9, 2, 6, -5, 3, 5, 8, 9, 7, -9};
  struct Case {
    std::string op, start, name;
    std::int32_t (*combine)(std::int32_t, std::int32_t);
  };
  const std::vector<Case> cases{
      {"add", "0", "cumsum", [](std::int32_t x, std::int32_t y) { return x + y; }},
      {"multiply", "1", "cumprod", [](std::int32_t x, std::int32_t y) { return x * y; }},
      {"maximum", "-2147483648", "cummax", [](std::int32_t x, std::int32_t y) { return std::max(x, y); }},
      {"minimum", "2147483647", "cummin", [](std::int32_t x, std::int32_t y) { return std::min(x, y); }}};
  for (const auto& c : cases) {
    for (bool reverse : {false, true}) {
      auto program =
          StablehloProgram::parse(window_text("i32", c.start, c.op, reverse ? "[[0, 0], [0, 4]]" : "[[0, 0], [4, 0]]"));
      EXPECT_NE(program.text().find(c.name + "["), std::string::npos) << program.text();
      std::vector<std::int32_t> want = numbers;
      for (std::size_t line = 0; line < 3; ++line) {
        for (std::size_t n = 1; n < 5; ++n) {
          std::size_t i = line * 5 + (reverse ? 4 - n : n);
          want[i] = c.combine(want[i], want[reverse ? i + 1 : i - 1]);
        }
      }
      EXPECT_EQ(program.run({HostArray::from(numbers, {3, 5})})[0].to_vector<std::int32_t>(), want) << c.name;
    }
  }
}

TEST(HloReducers, OtherWindowsStayWindows) {
  for (const auto& text : {window_text("i32", "1", "add", "[[0, 0], [4, 0]]"),     // not neutral
                           window_text("i32", "0", "add", "[[0, 0], [2, 0]]", 3),  // shorter
                           window_text("i32", "0", "add", "[[0, 0], [3, 1]]")}) {  // about the middle
    EXPECT_EQ(StablehloProgram::parse(text).text().find("cumsum"), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace tessera
