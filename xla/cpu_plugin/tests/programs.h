// SPDX-License-Identifier: Apache-2.0
// Programs and helpers of the plugin's tests.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "plugin_client.h"

namespace plugin {

using Floats = std::vector<float>;

inline constexpr char kSum[] = R"(module @sum {
  func.func public @main(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.add %a, %b : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
})";

// tensor<8x2> over eight devices, plus a number that all of them have, and the sum of its rows: an all-reduce.
inline constexpr char kShardy[] = R"(module @shardy {
  sdy.mesh @mesh = <["x"=8]>
  func.func public @main(%a: tensor<8x2xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>DONATED},
                         %b: tensor<f32> {sdy.sharding = #sdy.sharding<@mesh, []>})
      -> (tensor<8x2xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>},
          tensor<2xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}) {
    %0 = stablehlo.broadcast_in_dim %b, dims = [] : (tensor<f32>) -> tensor<8x2xf32>
    %1 = stablehlo.add %a, %0 : tensor<8x2xf32>
    %2 = stablehlo.constant dense<0.0> : tensor<f32>
    %3 = stablehlo.reduce(%1 init: %2) applies stablehlo.add across dimensions = [0]
        : (tensor<8x2xf32>, tensor<f32>) -> tensor<2xf32>
    return %1, %3 : tensor<8x2xf32>, tensor<2xf32>
  }
})";
inline std::string shardy_program(bool donated) {
  std::string text = kShardy;
  return text.replace(text.find("DONATED"), 7, donated ? ", tf.aliasing_output = 0 : i32" : "");
}

// xla.CompileOptionsProto for Shardy's partitioner, one replica.
inline std::string shardy_options(int partitions) {
  auto number = [](int field, int v) {
    std::string out;
    for (int tag = field << 3; tag >= 128 || (out.push_back(static_cast<char>(tag)), false); tag >>= 7) {
      out.push_back(static_cast<char>(tag | 0x80));
    }
    return out + static_cast<char>(v);
  };
  std::string build = number(4, 1) + number(5, partitions) + number(6, 1) + number(19, 1);
  return std::string{3 << 3 | 2, static_cast<char>(build.size())} + build;
}

struct Arguments {
  std::vector<Buffer> owned;
  std::vector<std::vector<PJRT_Buffer*>> lists;
};
// Row k and the number on device k.
inline Arguments shardy_arguments(const Client& client, float number) {
  Arguments out;
  for (std::size_t k = 0; k < 8; ++k) {
    Floats row = {static_cast<float>(2 * k), static_cast<float>(2 * k + 1)};
    out.owned.push_back(client.put(row.data(), PJRT_Buffer_Type_F32, {1, 2}, k));
    out.owned.push_back(client.put(&number, PJRT_Buffer_Type_F32, {}, k));
    out.lists.push_back({out.owned[2 * k].get(), out.owned[2 * k + 1].get()});
  }
  return out;
}
inline Floats floats(PJRT_Buffer* b) { return values_of<float>(bytes_in(b)); }
inline Buffer four(const Client& client, float first) {
  Floats v = {first, first + 1, first + 2, first + 3};
  return client.put(v.data(), PJRT_Buffer_Type_F32, {4}, 0);
}

// What the error says; "" where there is none.
template <class F>
std::string error_of(const F& f, PJRT_Error_Code code = PJRT_Error_Code_INVALID_ARGUMENT) {
  try {
    f();
  } catch (const Failure& e) {
    EXPECT_EQ(e.code, code) << e.what();
    return e.what();
  }
  return "";
}
inline bool has(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << text;
  return true;
}

}  // namespace plugin
