// SPDX-License-Identifier: Apache-2.0
// Custom calls whose results are one tuple, as in texts that come from XLA's HLO.
#include <gtest/gtest.h>

#include "tessera/device.h"
#include "tessera/error.h"
#include "tessera/stablehlo.h"

namespace tessera {
namespace {

HostArrays run(const std::string& text, const std::vector<HostArray>& args) {
  auto program = StablehloProgram::parse(text);
  ClientScope scope(Client::cpu({.devices = program.num_devices()}));
  HostArrays out;
  int n = 0;
  for (const auto& a : program.run(args)) out[std::to_string(n++)] = a;
  return out;
}

TEST(HloTuples, CustomCallsGiveTheirResultsAsOneTuple) {
  auto out = run(R"(
module @m {
  func.func @main(%arg0: tensor<2x2xf32>) -> (tensor<2x2xf32>, tensor<i32>) {
    %0 = stablehlo.custom_call @lapack_spotrf_ffi(%arg0) {api_version = 4 : i32, backend_config = {uplo = 76 : ui8}, output_operand_aliases = [#stablehlo.output_operand_alias<output_tuple_indices = [0], operand_index = 0, operand_tuple_indices = []>]} : (tensor<2x2xf32>) -> tuple<tensor<2x2xf32>, tensor<i32>>
    %1 = stablehlo.get_tuple_element %0[0] : (tuple<tensor<2x2xf32>, tensor<i32>>) -> tensor<2x2xf32>
    %2 = stablehlo.get_tuple_element %0[1] : (tuple<tensor<2x2xf32>, tensor<i32>>) -> tensor<i32>
    return %1, %2 : tensor<2x2xf32>, tensor<i32>
  }
})",
                 {HostArray::from(std::vector<float>{4, 7, 2, 10}).reshape({2, 2})});
  EXPECT_EQ(out.at("0").to_vector<float>(), (std::vector<float>{2, 7, 1, 3}));  // the other triangle is left as it was
  EXPECT_EQ(out.at("1").to_vector<std::int32_t>(), (std::vector<std::int32_t>{0}));
}

TEST(HloTuples, OneTupleOfOneHostRoutine) {
  auto out = run(R"(
module @m {
  func.func @main(%arg0: tensor<2x2xf64>) -> tensor<2xf64> {
    %0 = "stablehlo.custom_call"(%arg0) {call_target_name = "lapack_dgeqrf_ffi"} : (tensor<2x2xf64>) -> tuple<tensor<2x2xf64>, tensor<2xf64>>
    %1 = "stablehlo.get_tuple_element"(%0) {index = 1 : i32} : (tuple<tensor<2x2xf64>, tensor<2xf64>>) -> tensor<2xf64>
    return %1 : tensor<2xf64>
  }
})",
                 {HostArray::from(std::vector<double>{1, 0, 0, 1}).reshape({2, 2})});
  EXPECT_EQ(out.at("0").to_vector<double>(), (std::vector<double>{0, 0}));
}

TEST(HloTuples, TuplesOfOtherResultsAreRefused) {
  EXPECT_THROW(StablehloProgram::parse(R"(
module @m {
  func.func @main(%arg0: tensor<2x2xf32>) -> tensor<2x2xf32> {
    %0 = stablehlo.custom_call @lapack_spotrf_ffi(%arg0) : (tensor<2x2xf32>) -> tuple<tensor<2x2xf32>, tensor<2xi32>>
    %1 = stablehlo.get_tuple_element %0[0] : (tuple<tensor<2x2xf32>, tensor<2xi32>>) -> tensor<2x2xf32>
    return %1 : tensor<2x2xf32>
  }
})"),
               FormatError);
}

}  // namespace
}  // namespace tessera
