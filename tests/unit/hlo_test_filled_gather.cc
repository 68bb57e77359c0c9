// SPDX-License-Identifier: Apache-2.0
// Gathers under a mask of the windows that lie inside, as JAX writes indexing: one gather with a value for the others.
#include <gtest/gtest.h>

#include <cmath>

#include "base/strings.h"
#include "tessera/stablehlo.h"

namespace tessera {
namespace {

using base::str;

// x[i] of six rows of three, for five indices, two of them out of range. `bound`: the greatest index that is inside.
std::string rows_text(const std::string& bound, const std::string& fill, const std::string& mask_dims = "0") {
  return str(R"(func.func @main(%x: tensor<6x3xf32>, %i: tensor<5xi32>) -> tensor<5x3xf32> {
  %fill = stablehlo.constant dense<)",
             fill, R"(> : tensor<f32>
  %yes = stablehlo.constant dense<true> : tensor<i1>
  %bound = stablehlo.constant dense<)",
             bound, R"(> : tensor<1xi32>
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %v = stablehlo.broadcast_in_dim %i, dims = [0] : (tensor<5xi32>) -> tensor<5x1xi32>
  %z = stablehlo.broadcast_in_dim %zero, dims = [] : (tensor<i32>) -> tensor<5x1xi32>
  %ge = stablehlo.compare GE, %v, %z, SIGNED : (tensor<5x1xi32>, tensor<5x1xi32>) -> tensor<5x1xi1>
  %b = stablehlo.broadcast_in_dim %bound, dims = [1] : (tensor<1xi32>) -> tensor<1x1xi32>
  %bb = stablehlo.broadcast_in_dim %b, dims = [0, 1] : (tensor<1x1xi32>) -> tensor<5x1xi32>
  %le = stablehlo.compare LE, %v, %bb, SIGNED : (tensor<5x1xi32>, tensor<5x1xi32>) -> tensor<5x1xi1>
  %and = stablehlo.and %ge, %le : tensor<5x1xi1>
  %in = stablehlo.reduce(%and init: %yes) applies stablehlo.and across dimensions = [1] : (tensor<5x1xi1>, tensor<i1>) -> tensor<5xi1>
  %g = "stablehlo.gather"(%x, %v) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 3>}> : (tensor<6x3xf32>, tensor<5x1xi32>) -> tensor<5x3xf32>
  %m = stablehlo.broadcast_in_dim %in, dims = [)",
             mask_dims, R"(] : (tensor<5xi1>) -> tensor<5x3xi1>
  %w = stablehlo.broadcast_in_dim %fill, dims = [] : (tensor<f32>) -> tensor<5x3xf32>
  %s = stablehlo.select %m, %g, %w : tensor<5x3xi1>, tensor<5x3xf32>
  return %s : tensor<5x3xf32>
})");
}

std::vector<float> run(const StablehloProgram& program) {
  std::vector<float> table(18);
  for (std::size_t i = 0; i < table.size(); ++i) table[i] = static_cast<float>(i);
  const HostArray x = HostArray::from(table, {6, 3});
  const HostArray i = HostArray::from(std::vector<std::int32_t>{5, -1, 0, 6, 2});
  return program.run({x, i})[0].to_vector<float>();
}
std::vector<float> expected(float fill, float last = 15) {
  const bool inside = last == 15;
  std::vector<float> out{last, 16, 17, fill, fill, fill, 0, 1, 2, fill, fill, fill, 6, 7, 8};
  if (!inside) out[1] = out[2] = last;
  return out;
}

TEST(FilledGather, RowsUnderAMaskAreOneGather) {
  for (const auto& [text, value] : std::vector<std::pair<std::string, float>>{{"7.5", 7.5F}, {"0.0", 0.0F}}) {
    auto program = StablehloProgram::parse(rows_text("5", text));
    EXPECT_NE(program.text().find("mode=fill"), std::string::npos) << program.text();
    EXPECT_EQ(program.text().find("select"), std::string::npos) << program.text();
    EXPECT_EQ(run(program), expected(value));
    // What is written is read as the same again.
    auto again = StablehloProgram::parse(program.as_text());
    EXPECT_EQ(again.text(), program.text());
    EXPECT_EQ(run(again), expected(value));
  }
  auto program = StablehloProgram::parse(rows_text("5", "0x7FC00000"));
  EXPECT_NE(program.text().find("mode=fill"), std::string::npos);
  const auto got = run(program);
  const auto want = expected(NAN);
  for (std::size_t i = 0; i < got.size(); ++i)
    EXPECT_TRUE(got[i] == want[i] || (std::isnan(got[i]) && std::isnan(want[i])));
}

// Masks that say something else stay masks.
TEST(FilledGather, OtherMasksStay) {
  auto tighter = StablehloProgram::parse(rows_text("4", "7.5"));
  EXPECT_EQ(tighter.text().find("mode=fill"), std::string::npos);
  EXPECT_EQ(run(tighter), expected(7.5F, 7.5F));
  auto other_nan = StablehloProgram::parse(rows_text("5", "0xFFC00001"));
  EXPECT_EQ(other_nan.text().find("mode=fill"), std::string::npos);
}

}  // namespace
}  // namespace tessera
