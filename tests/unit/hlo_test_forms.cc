// SPDX-License-Identifier: Apache-2.0
// Corners of the operations' specification in forms that JAX's own programs seldom have: what each gives is worked out
// by hand.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/strings.h"
#include "tessera/device.h"
#include "tessera/error.h"
#include "tessera/stablehlo.h"

namespace tessera {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

using Numbers = std::vector<double>;

Numbers numbers_of(const HostArray& a) {
  if (!is_complex(a.dtype())) return a.astype(float64).to_vector<double>();
  Numbers out;
  for (auto z : a.astype(complex128).to_vector<complex128_t>()) {
    out.push_back(z.real());
    out.push_back(z.imag());
  }
  return out;
}

// Operations, the values that they return, and the numbers of these; signs of zeros count.
struct Form {
  const char* name;
  const char* ops;
  const char* values;
  const char* types;
  std::vector<Numbers> want;
  const char* functions = "";
};

void check(const Form& f) {
  std::string text = str("func.func public @main() -> (", f.types, ") {\n", f.ops, "\nreturn ", f.values, " : ",
                         f.types, "\n}\n", f.functions);
  try {
    auto program = StablehloProgram::parse(text, f.name);
    ClientScope scope(Client::cpu({.devices = program.num_devices()}));
    auto again = StablehloProgram::parse(program.as_text(), str(f.name, " written"));
    for (const auto& p : {program, again}) {
      auto out = p.run({});
      ASSERT_EQ(out.size(), f.want.size()) << f.name;
      for (std::size_t i = 0; i < out.size(); ++i) {
        Numbers got = numbers_of(out[i]);
        ASSERT_EQ(got.size(), f.want[i].size()) << f.name << ", result " << i;
        for (std::size_t k = 0; k < got.size(); ++k) {
          double want = f.want[i][k];
          bool near = std::abs(got[k] - want) <= 1e-5 * std::abs(want);
          bool same = std::isnan(want) ? std::isnan(got[k])
                                       : (got[k] == want || near) && std::signbit(got[k]) == std::signbit(want);
          EXPECT_TRUE(same) << f.name << ", result " << i << ", element " << k << ": " << got[k] << ", expected "
                            << want;
        }
      }
    }
  } catch (const Error& e) {
    ADD_FAILURE() << f.name << ": " << e.what();
  }
}

TEST(HloForms, IntegersAndBits) {
  const Form forms[] = {
      {"division",
       R"(
%a = stablehlo.constant dense<[7, -7, 5, -2147483648, 0]> : tensor<5xi32>
%b = stablehlo.constant dense<[2, 2, 0, -1, 0]> : tensor<5xi32>
%0 = stablehlo.divide %a, %b : tensor<5xi32>
%1 = stablehlo.remainder %a, %b : tensor<5xi32>)",
       "%0, %1",
       "tensor<5xi32>, tensor<5xi32>",
       {{3, -3, -1, -2147483648.0, -1}, {1, -1, 5, 0, 0}}},
      {"unsigned_division",
       R"(
%a = stablehlo.constant dense<[7, 255, 5]> : tensor<3xui8>
%b = stablehlo.constant dense<[2, 16, 0]> : tensor<3xui8>
%0 = stablehlo.divide %a, %b : tensor<3xui8>
%1 = stablehlo.remainder %a, %b : tensor<3xui8>)",
       "%0, %1",
       "tensor<3xui8>, tensor<3xui8>",
       {{3, 15, 255}, {1, 15, 5}}},
      {"power",
       R"(
%a = stablehlo.constant dense<[2, -1, 1, 3, -1, 0, -2]> : tensor<7xi32>
%b = stablehlo.constant dense<[-1, -3, -5, 4, -2, 0, 3]> : tensor<7xi32>
%0 = stablehlo.power %a, %b : tensor<7xi32>)",
       "%0",
       "tensor<7xi32>",
       {{0, -1, 1, 81, 1, 1, -8}}},
      {"shifts",
       R"(
%a = stablehlo.constant dense<[-8, 1, 127, -1]> : tensor<4xi8>
%b = stablehlo.constant dense<[1, 8, 9, 7]> : tensor<4xi8>
%0 = stablehlo.shift_left %a, %b : tensor<4xi8>
%1 = stablehlo.shift_right_arithmetic %a, %b : tensor<4xi8>
%2 = stablehlo.shift_right_logical %a, %b : tensor<4xi8>)",
       "%0, %1, %2",
       "tensor<4xi8>, tensor<4xi8>, tensor<4xi8>",
       {{-16, 0, 0, -128}, {-4, 0, 0, -1}, {124, 0, 0, 1}}},
      {"bits",
       R"(
%a = stablehlo.constant dense<[0, 1, -1, 64]> : tensor<4xi8>
%0 = stablehlo.count_leading_zeros %a : tensor<4xi8>
%1 = stablehlo.popcnt %a : tensor<4xi8>
%2 = stablehlo.not %a : tensor<4xi8>
%3 = stablehlo.sign %a : tensor<4xi8>)",
       "%0, %1, %2, %3",
       "tensor<4xi8>, tensor<4xi8>, tensor<4xi8>, tensor<4xi8>",
       {{8, 7, 0, 1}, {0, 1, 8, 1}, {-1, -2, 0, -65}, {0, 1, -1, 1}}},
      {"logical_sums",
       R"(
%a = stablehlo.constant dense<[true, true, false]> : tensor<3xi1>
%b = stablehlo.constant dense<[true, false, false]> : tensor<3xi1>
%0 = stablehlo.add %a, %b : tensor<3xi1>
%1 = stablehlo.multiply %a, %b : tensor<3xi1>
%2 = stablehlo.maximum %a, %b : tensor<3xi1>
%3 = stablehlo.compare GT, %a, %b : (tensor<3xi1>, tensor<3xi1>) -> tensor<3xi1>)",
       "%0, %1, %2, %3",
       "tensor<3xi1>, tensor<3xi1>, tensor<3xi1>, tensor<3xi1>",
       {{1, 1, 0}, {1, 0, 0}, {1, 1, 0}, {0, 1, 0}}},
      {"narrow_integers",
       R"(
%a = stablehlo.constant dense<[7, -8, 3]> : tensor<3xi4>
%0 = stablehlo.add %a, %a : tensor<3xi4>
%b = stablehlo.constant dense<[15, 8, 3]> : tensor<3xui4>
%1 = stablehlo.add %b, %b : tensor<3xui4>
%2 = stablehlo.convert %b : (tensor<3xui4>) -> tensor<3xi4>)",
       "%0, %1, %2",
       "tensor<3xi4>, tensor<3xui4>, tensor<3xi4>",
       {{-2, 0, 6}, {14, 0, 6}, {-1, -8, 3}}},
      {"conversions",
       R"(
%a = stablehlo.constant dense<[300, -1, 65]> : tensor<3xi32>
%0 = stablehlo.convert %a : (tensor<3xi32>) -> tensor<3xi8>
%1 = stablehlo.convert %a : (tensor<3xi32>) -> tensor<3xui8>
%2 = stablehlo.convert %a : (tensor<3xi32>) -> tensor<3xi1>
%b = stablehlo.constant dense<[0.5, -0.0, -2.9]> : tensor<3xf32>
%3 = stablehlo.convert %b : (tensor<3xf32>) -> tensor<3xi32>
%4 = stablehlo.convert %b : (tensor<3xf32>) -> tensor<3xi1>
%5 = stablehlo.convert %b : (tensor<3xf32>) -> tensor<3xcomplex<f32>>)",
       "%0, %1, %2, %3, %4, %5",
       "tensor<3xi8>, tensor<3xui8>, tensor<3xi1>, tensor<3xi32>, tensor<3xi1>, tensor<3xcomplex<f32>>",
       {{44, -1, 65}, {44, 255, 65}, {1, 1, 1}, {0, 0, -2}, {1, 0, 1}, {0.5, 0, -0.0, 0, -2.9F, 0}}},
      {"bitcasts",
       R"(
%a = stablehlo.constant dense<[1.0, -2.0]> : tensor<2xf32>
%0 = stablehlo.bitcast_convert %a : (tensor<2xf32>) -> tensor<2x4xui8>
%1 = stablehlo.bitcast_convert %0 : (tensor<2x4xui8>) -> tensor<2xf32>
%2 = stablehlo.bitcast_convert %a : (tensor<2xf32>) -> tensor<f64>
%3 = stablehlo.bitcast_convert %a : (tensor<2xf32>) -> tensor<2xi32>)",
       "%0, %1, %2, %3",
       "tensor<2x4xui8>, tensor<2xf32>, tensor<f64>, tensor<2xi32>",
       {{0, 0, 128, 63, 0, 0, 0, 192}, {1, -2}, {-2.0000004731118679}, {1065353216, -1073741824}}},
  };
  for (const auto& f : forms) check(f);
}

TEST(HloForms, Floats) {
  const Form forms[] = {
      {"total_order",
       R"(
%a = stablehlo.constant dense<[-0.0, 0.0, 0x7FC00000, 0xFFC00000]> : tensor<4xf32>
%b = stablehlo.constant dense<[0.0, -0.0, 0x7F800000, 0xFF800000]> : tensor<4xf32>
%0 = stablehlo.compare LT, %a, %b, TOTALORDER : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
%1 = stablehlo.compare LT, %a, %b, FLOAT : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
%2 = stablehlo.compare NE, %a, %a : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
%3 = stablehlo.compare EQ, %a, %b, TOTALORDER : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>)",
       "%0, %1, %2, %3",
       "tensor<4xi1>, tensor<4xi1>, tensor<4xi1>, tensor<4xi1>",
       {{1, 0, 0, 1}, {0, 0, 0, 0}, {0, 0, 1, 1}, {0, 0, 0, 0}}},
      {"extremes",
       R"(
%a = stablehlo.constant dense<[0x7FC00000, 1.0, -0.5, 0.5]> : tensor<4xf32>
%b = stablehlo.constant dense<[1.0, 0x7FC00000, 0.5, -0.5]> : tensor<4xf32>
%0 = stablehlo.maximum %a, %b : tensor<4xf32>
%1 = stablehlo.minimum %a, %b : tensor<4xf32>)",
       "%0, %1",
       "tensor<4xf32>, tensor<4xf32>",
       {{kNan, kNan, 0.5, 0.5}, {kNan, kNan, -0.5, -0.5}}},
      {"roundings",
       R"(
%a = stablehlo.constant dense<[-2.5, -0.5, 0.5, 1.5, 2.5, 0.4, -0.4]> : tensor<7xf32>
%0 = stablehlo.round_nearest_even %a : tensor<7xf32>
%1 = stablehlo.round_nearest_afz %a : tensor<7xf32>
%2 = stablehlo.ceil %a : tensor<7xf32>
%3 = stablehlo.floor %a : tensor<7xf32>)",
       "%0, %1, %2, %3",
       "tensor<7xf32>, tensor<7xf32>, tensor<7xf32>, tensor<7xf32>",
       {{-2, -0.0, 0, 2, 2, 0, -0.0},
        {-3, -1, 1, 2, 3, 0, -0.0},
        {-2, -0.0, 1, 2, 3, 1, -0.0},
        {-3, -1, 0, 1, 2, 0, -1}}},
      {"remainder",
       R"(
%a = stablehlo.constant dense<[5.5, -5.5, 5.5, -4.0, 1.0]> : tensor<5xf32>
%b = stablehlo.constant dense<[2.0, 2.0, -2.0, 2.0, 0.0]> : tensor<5xf32>
%0 = stablehlo.remainder %a, %b : tensor<5xf32>)",
       "%0",
       "tensor<5xf32>",
       {{1.5, -1.5, 1.5, -0.0, kNan}}},
      {"signs",
       R"(
%a = stablehlo.constant dense<[-0.0, 0.0, 0x7FC00000, -3.0, 0x7F800000]> : tensor<5xf32>
%0 = stablehlo.sign %a : tensor<5xf32>
%1 = stablehlo.is_finite %a : (tensor<5xf32>) -> tensor<5xi1>
%2 = stablehlo.cbrt %a : tensor<5xf32>)",
       "%0, %1, %2",
       "tensor<5xf32>, tensor<5xi1>, tensor<5xf32>",
       {{-0.0, 0, kNan, -1, 1}, {1, 1, 0, 1, 0}, {-0.0, 0, kNan, -1.4422495703, kInf}}},
      {"clamps",
       R"(
%lo = stablehlo.constant dense<-1.0> : tensor<f32>
%hi = stablehlo.constant dense<2.0> : tensor<f32>
%a = stablehlo.constant dense<[-3.0, 0.5, 9.0]> : tensor<3xf32>
%0 = stablehlo.clamp %lo, %a, %hi : (tensor<f32>, tensor<3xf32>, tensor<f32>) -> tensor<3xf32>
%p = stablehlo.constant dense<false> : tensor<i1>
%1 = stablehlo.select %p, %a, %0 : tensor<i1>, tensor<3xf32>)",
       "%0, %1",
       "tensor<3xf32>, tensor<3xf32>",
       {{-1, 0.5, 2}, {-1, 0.5, 2}}},
      {"precision",
       R"(
%a = stablehlo.constant dense<[1.00048828125, 65520.0, 1.0009765625, 1.0e-9]> : tensor<4xf32>
%0 = stablehlo.reduce_precision %a, format = e5m10 : tensor<4xf32>
%1 = stablehlo.reduce_precision %a, format = e8m7 : tensor<4xf32>)",
       "%0, %1",
       "tensor<4xf32>, tensor<4xf32>",
       {{1, kInf, 1.0009765625, 0}, {1, 65536, 1, 9.9680619314312935e-10}}},
      {"complex",
       R"(
%a = stablehlo.constant dense<[(3.0, 4.0), (0.0, -1.0)]> : tensor<2xcomplex<f32>>
%0 = stablehlo.abs %a : (tensor<2xcomplex<f32>>) -> tensor<2xf32>
%1 = stablehlo.multiply %a, %a : tensor<2xcomplex<f32>>
%2 = stablehlo.imag %a : (tensor<2xcomplex<f32>>) -> tensor<2xf32>
%3 = stablehlo.sqrt %a : tensor<2xcomplex<f32>>
%4 = stablehlo.compare EQ, %a, %1 : (tensor<2xcomplex<f32>>, tensor<2xcomplex<f32>>) -> tensor<2xi1>
%5 = stablehlo.complex %0, %2 : tensor<2xcomplex<f32>>)",
       "%0, %1, %2, %3, %4, %5",
       "tensor<2xf32>, tensor<2xcomplex<f32>>, tensor<2xf32>, tensor<2xcomplex<f32>>, tensor<2xi1>, "
       "tensor<2xcomplex<f32>>",
       {{5, 1}, {-7, 24, -1, -0.0}, {4, -1}, {2, 1, 0.70710678, -0.70710678}, {0, 0}, {5, 4, 1, -1}}},
      {"small_floats",
       R"(
%a = stablehlo.constant dense<[448.0, 0.015625, 1.0]> : tensor<3xf8E4M3FN>
%0 = stablehlo.add %a, %a : tensor<3xf8E4M3FN>
%b = stablehlo.constant dense<[1.0, 3.0, 6.0]> : tensor<3xf4E2M1FN>
%1 = stablehlo.multiply %b, %b : tensor<3xf4E2M1FN>
%2 = stablehlo.convert %a : (tensor<3xf8E4M3FN>) -> tensor<3xf8E5M2>)",
       "%0, %1, %2",
       "tensor<3xf8E4M3FN>, tensor<3xf4E2M1FN>, tensor<3xf8E5M2>",
       {{kNan, 0.03125, 2}, {1, 6, 6}, {448, 0.015625, 1}}},
  };
  for (const auto& f : forms) check(f);
}

TEST(HloForms, Shapes) {
  const Form forms[] = {
      {"pads",
       R"(
%a = stablehlo.constant dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3xi32>
%z = stablehlo.constant dense<0> : tensor<i32>
%0 = stablehlo.pad %a, %z, low = [0, 1], high = [2, 1], interior = [1, 2] : (tensor<2x3xi32>, tensor<i32>) -> tensor<5x9xi32>
%1 = stablehlo.pad %a, %z, low = [-1, 0], high = [0, -1], interior = [0, 1] : (tensor<2x3xi32>, tensor<i32>) -> tensor<1x4xi32>)",
       "%0, %1",
       "tensor<5x9xi32>, tensor<1x4xi32>",
       {{0, 1, 0, 0, 2, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 5,
         0, 0, 6, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
        {4, 0, 5, 0}}},
      {"dynamic_slices",
       R"(
%a = stablehlo.constant dense<[[0, 1, 2], [3, 4, 5], [6, 7, 8]]> : tensor<3x3xi32>
%i = stablehlo.constant dense<9> : tensor<i32>
%j = stablehlo.constant dense<-4> : tensor<i32>
%0 = stablehlo.dynamic_slice %a, %i, %j, sizes = [2, 2] : (tensor<3x3xi32>, tensor<i32>, tensor<i32>) -> tensor<2x2xi32>
%u = stablehlo.constant dense<[[-1, -2]]> : tensor<1x2xi32>
%1 = stablehlo.dynamic_update_slice %a, %u, %i, %i : (tensor<3x3xi32>, tensor<1x2xi32>, tensor<i32>, tensor<i32>) -> tensor<3x3xi32>
%2 = stablehlo.slice %a [0:3:2, 1:3] : (tensor<3x3xi32>) -> tensor<2x2xi32>
%3 = stablehlo.reverse %a, dims = [0, 1] : tensor<3x3xi32>)",
       "%0, %1, %2, %3",
       "tensor<2x2xi32>, tensor<3x3xi32>, tensor<2x2xi32>, tensor<3x3xi32>",
       {{3, 4, 6, 7}, {0, 1, 2, 3, 4, 5, 6, -1, -2}, {1, 2, 7, 8}, {8, 7, 6, 5, 4, 3, 2, 1, 0}}},
      {"shapes_of_constants",
       R"(
%a = stablehlo.constant dense<[1, 2, 3, 4, 5, 6]> : tensor<6xi32>
%s = stablehlo.constant dense<[2, 3]> : tensor<2xi64>
%0 = stablehlo.dynamic_reshape %a, %s : (tensor<6xi32>, tensor<2xi64>) -> tensor<2x3xi32>
%1 = stablehlo.dynamic_iota %s, dim = 1 : (tensor<2xi64>) -> tensor<2x3xi32>
%one = stablehlo.constant dense<1> : tensor<i32>
%2 = stablehlo.dynamic_broadcast_in_dim %one, %s, dims = [] : (tensor<i32>, tensor<2xi64>) -> tensor<2x3xi32>
%low = stablehlo.constant dense<[1]> : tensor<1xi64>
%none = stablehlo.constant dense<[0]> : tensor<1xi64>
%3 = stablehlo.dynamic_pad %a, %one, %low, %none, %none : (tensor<6xi32>, tensor<i32>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<7xi32>
%4 = stablehlo.get_dimension_size %a, dim = 0 : (tensor<6xi32>) -> tensor<i32>
%limit = stablehlo.constant dense<[5]> : tensor<1xi64>
%two = stablehlo.constant dense<[2]> : tensor<1xi64>
%5 = stablehlo.real_dynamic_slice %a, %low, %limit, %two : (tensor<6xi32>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<2xi32>)",
       "%0, %1, %2, %3, %4, %5",
       "tensor<2x3xi32>, tensor<2x3xi32>, tensor<2x3xi32>, tensor<7xi32>, tensor<i32>, tensor<2xi32>",
       {{1, 2, 3, 4, 5, 6}, {0, 1, 2, 0, 1, 2}, {1, 1, 1, 1, 1, 1}, {1, 1, 2, 3, 4, 5, 6}, {6}, {2, 4}}},
      {"iotas",
       R"(
%0 = stablehlo.iota dim = 0 : tensor<4xbf16>
%1 = stablehlo.iota dim = 1 : tensor<2x2xcomplex<f32>>
%2 = stablehlo.iota dim = 0 : tensor<3xui8>
%3 = "stablehlo.iota"() {iota_dimension = 0 : i64} : () -> tensor<10xi4>)",
       "%0, %1, %2, %3",
       "tensor<4xbf16>, tensor<2x2xcomplex<f32>>, tensor<3xui8>, tensor<10xi4>",
       {{0, 1, 2, 3}, {0, 0, 1, 0, 0, 0, 1, 0}, {0, 1, 2}, {0, 1, 2, 3, 4, 5, 6, 7, -8, -7}}},
      {"broadcasts",
       R"(
%a = stablehlo.constant dense<[[1], [2]]> : tensor<2x1xi32>
%0 = stablehlo.broadcast_in_dim %a, dims = [2, 0] : (tensor<2x1xi32>) -> tensor<2x1x2xi32>
%b = stablehlo.constant dense<[1, 2]> : tensor<2xi32>
%1 = "stablehlo.broadcast"(%b) <{broadcast_sizes = array<i64: 2, 1>}> : (tensor<2xi32>) -> tensor<2x1x2xi32>
%2 = chlo.broadcast_add %a, %b : (tensor<2x1xi32>, tensor<2xi32>) -> tensor<2x2xi32>
%3 = stablehlo.transpose %2, dims = [1, 0] : (tensor<2x2xi32>) -> tensor<2x2xi32>)",
       "%0, %1, %2, %3",
       "tensor<2x1x2xi32>, tensor<2x1x2xi32>, tensor<2x2xi32>, tensor<2x2xi32>",
       {{1, 2, 1, 2}, {1, 2, 1, 2}, {2, 3, 3, 4}, {2, 3, 3, 4}}},
  };
  for (const auto& f : forms) check(f);
}

TEST(HloForms, IndicesAndReductions) {
  const Form forms[] = {
      {"gather",
       R"(
%a = stablehlo.constant dense<[[[1, 2], [3, 4], [5, 6], [7, 8]], [[9, 10], [11, 12], [13, 14], [15, 16]], [[17, 18], [19, 20], [21, 22], [23, 24]]]> : tensor<3x4x2xi32>
%i = stablehlo.constant dense<[[[0, 0], [1, 0], [2, 1]], [[0, 1], [1, 1], [0, 9]]]> : tensor<2x3x2xi64>
%0 = "stablehlo.gather"(%a, %i) {dimension_numbers = #stablehlo.gather<offset_dims = [2, 3], collapsed_slice_dims = [0], start_index_map = [1, 0], index_vector_dim = 2>, slice_sizes = array<i64: 1, 2, 2>, indices_are_sorted = false} : (tensor<3x4x2xi32>, tensor<2x3x2xi64>) -> tensor<2x3x2x2xi32>)",
       "%0",
       "tensor<2x3x2x2xi32>",
       {{1, 2, 3, 4, 3, 4, 5, 6, 13, 14, 15, 16, 9, 10, 11, 12, 11, 12, 13, 14, 17, 18, 19, 20}}},
      {"gather_batches",
       R"(
%a = stablehlo.constant dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3xi32>
%i = stablehlo.constant dense<[[2, 0], [1, -7]]> : tensor<2x2xi32>
%j = stablehlo.reshape %i : (tensor<2x2xi32>) -> tensor<2x2x1xi32>
%0 = "stablehlo.gather"(%a, %j) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [1], operand_batching_dims = [0], start_indices_batching_dims = [0], start_index_map = [1], index_vector_dim = 2>, indices_are_sorted = false, slice_sizes = array<i64: 1, 1>}> : (tensor<2x3xi32>, tensor<2x2x1xi32>) -> tensor<2x2xi32>)",
       "%0",
       "tensor<2x2xi32>",
       {{3, 1, 5, 4}}},
      {"scatter",
       R"(
%a = stablehlo.constant dense<[1, 2, 3, 4]> : tensor<4xi32>
%i = stablehlo.constant dense<[[1], [1], [7], [-1], [3]]> : tensor<5x1xi32>
%u = stablehlo.constant dense<[10, 20, 30, 40, 50]> : tensor<5xi32>
%0 = "stablehlo.scatter"(%a, %i, %u) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = false}> ({
^bb0(%p: tensor<i32>, %q: tensor<i32>):
  %s = stablehlo.add %p, %q : tensor<i32>
  stablehlo.return %s : tensor<i32>
}) : (tensor<4xi32>, tensor<5x1xi32>, tensor<5xi32>) -> tensor<4xi32>
%1 = "stablehlo.scatter"(%a, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
^bb0(%p: tensor<i32>, %q: tensor<i32>):
  %s = stablehlo.subtract %p, %q : tensor<i32>
  stablehlo.return %s : tensor<i32>
}) : (tensor<4xi32>, tensor<5x1xi32>, tensor<5xi32>) -> tensor<4xi32>)",
       "%0, %1",
       "tensor<4xi32>, tensor<4xi32>",
       {{1, 32, 3, 54}, {1, -28, 3, -46}}},
      {"scatter_windows",
       R"(
%a = stablehlo.constant dense<0> : tensor<3x3xi32>
%b = stablehlo.constant dense<1> : tensor<3x3xi32>
%i = stablehlo.constant dense<[[1, 0], [2, 2]]> : tensor<2x2xi32>
%u = stablehlo.constant dense<[[[1, 2]], [[3, 4]]]> : tensor<2x1x2xi32>
%0:2 = "stablehlo.scatter"(%a, %b, %i, %u, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1, 2], scatter_dims_to_operand_dims = [0, 1], index_vector_dim = 1>}> ({
^bb0(%p: tensor<i32>, %q: tensor<i32>, %r: tensor<i32>, %s: tensor<i32>):
  %t = stablehlo.add %p, %r : tensor<i32>
  %v = stablehlo.multiply %q, %s : tensor<i32>
  stablehlo.return %t, %v : tensor<i32>, tensor<i32>
}) : (tensor<3x3xi32>, tensor<3x3xi32>, tensor<2x2xi32>, tensor<2x1x2xi32>, tensor<2x1x2xi32>) -> (tensor<3x3xi32>, tensor<3x3xi32>))",
       "%0#0, %0#1",
       "tensor<3x3xi32>, tensor<3x3xi32>",
       {{0, 0, 0, 1, 2, 0, 0, 0, 0}, {1, 1, 1, 1, 2, 1, 1, 1, 1}}},
      {"argmax",
       R"(
%a = stablehlo.constant dense<[[1.0, 7.0, 7.0], [5.0, 2.0, 0x7FC00000]]> : tensor<2x3xf32>
%i = stablehlo.iota dim = 1 : tensor<2x3xi32>
%low = stablehlo.constant dense<0xFF800000> : tensor<f32>
%z = stablehlo.constant dense<0> : tensor<i32>
%0:2 = stablehlo.reduce(%a init: %low), (%i init: %z) across dimensions = [1] : (tensor<2x3xf32>, tensor<2x3xi32>, tensor<f32>, tensor<i32>) -> (tensor<2xf32>, tensor<2xi32>)
 reducer(%p: tensor<f32>, %r: tensor<f32>) (%q: tensor<i32>, %s: tensor<i32>)  {
  %1 = stablehlo.compare GT, %p, %r, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
  %2 = stablehlo.compare NE, %p, %p, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
  %3 = stablehlo.or %1, %2 : tensor<i1>
  %4 = stablehlo.compare EQ, %p, %r, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
  %5 = stablehlo.compare LT, %q, %s, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
  %6 = stablehlo.and %4, %5 : tensor<i1>
  %7 = stablehlo.or %3, %6 : tensor<i1>
  %8 = stablehlo.select %3, %p, %r : tensor<i1>, tensor<f32>
  %9 = stablehlo.select %7, %q, %s : tensor<i1>, tensor<i32>
  stablehlo.return %8, %9 : tensor<f32>, tensor<i32>
})",
       "%0#0, %0#1",
       "tensor<2xf32>, tensor<2xi32>",
       {{7, kNan}, {1, 2}}},
      {"reductions",
       R"(
%a = stablehlo.constant dense<[[1, 2], [3, 4]]> : tensor<2x2xi32>
%five = stablehlo.constant dense<5> : tensor<i32>
%0 = stablehlo.reduce(%a init: %five) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x2xi32>, tensor<i32>) -> tensor<i32>
%1 = stablehlo.reduce(%a init: %five) applies stablehlo.multiply across dimensions = [1] : (tensor<2x2xi32>, tensor<i32>) -> tensor<2xi32>
%2 = stablehlo.reduce(%a init: %five) applies stablehlo.maximum across dimensions = [0] : (tensor<2x2xi32>, tensor<i32>) -> tensor<2xi32>
%3 = stablehlo.reduce(%a init: %five) applies stablehlo.xor across dimensions = [0] : (tensor<2x2xi32>, tensor<i32>) -> tensor<2xi32>
%4 = stablehlo.reduce(%a init: %five) applies stablehlo.minimum across dimensions = [] : (tensor<2x2xi32>, tensor<i32>) -> tensor<2x2xi32>
%e = stablehlo.constant dense<> : tensor<0x2xi32>
%5 = stablehlo.reduce(%e init: %five) applies stablehlo.add across dimensions = [0] : (tensor<0x2xi32>, tensor<i32>) -> tensor<2xi32>)",
       "%0, %1, %2, %3, %4, %5",
       "tensor<i32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>, tensor<2x2xi32>, tensor<2xi32>",
       {{15}, {10, 60}, {5, 5}, {7, 3}, {1, 2, 3, 4}, {5, 5}}},
      {"windows",
       R"(
%a = stablehlo.constant dense<[[1, 2], [3, 4], [5, 6]]> : tensor<3x2xi32>
%z = stablehlo.constant dense<0> : tensor<i32>
%0 = "stablehlo.reduce_window"(%a, %z) ({
^bb0(%p: tensor<i32>, %q: tensor<i32>):
  %s = stablehlo.add %p, %q : tensor<i32>
  stablehlo.return %s : tensor<i32>
}) {window_dimensions = array<i64: 2, 1>, window_strides = array<i64: 4, 1>, base_dilations = array<i64: 2, 1>, window_dilations = array<i64: 3, 1>, padding = dense<[[2, 1], [0, 0]]> : tensor<2x2xi64>} : (tensor<3x2xi32>, tensor<i32>) -> tensor<2x2xi32>
%b = stablehlo.constant dense<[[1, 5], [2, 5], [3, 6], [4, 4]]> : tensor<4x2xi32>
%u = stablehlo.constant dense<[[5, 6], [7, 8]]> : tensor<2x2xi32>
%1 = "stablehlo.select_and_scatter"(%b, %u, %z) ({
^bb0(%p: tensor<i32>, %q: tensor<i32>):
  %s = stablehlo.compare GE, %p, %q : (tensor<i32>, tensor<i32>) -> tensor<i1>
  stablehlo.return %s : tensor<i1>
}, {
^bb0(%p: tensor<i32>, %q: tensor<i32>):
  %s = stablehlo.add %p, %q : tensor<i32>
  stablehlo.return %s : tensor<i32>
}) {window_dimensions = array<i64: 3, 1>, window_strides = array<i64: 2, 1>, padding = dense<[[0, 1], [0, 0]]> : tensor<2x2xi64>} : (tensor<4x2xi32>, tensor<2x2xi32>, tensor<i32>) -> tensor<4x2xi32>)",
       "%0, %1",
       "tensor<2x2xi32>, tensor<4x2xi32>",
       {{0, 0, 3, 4}, {0, 0, 0, 0, 5, 14, 7, 0}}},
      {"sort",
       R"(
%a = stablehlo.constant dense<[[1, 2, 3], [3, 2, 1]]> : tensor<2x3xi64>
%b = stablehlo.constant dense<[[3, 2, 1], [1, 2, 3]]> : tensor<2x3xi64>
%0:2 = "stablehlo.sort"(%a, %b) <{dimension = 0 : i64, is_stable = true}> ({
^bb0(%p: tensor<i64>, %q: tensor<i64>, %r: tensor<i64>, %s: tensor<i64>):
  %c = stablehlo.compare GT, %p, %q : (tensor<i64>, tensor<i64>) -> tensor<i1>
  stablehlo.return %c : tensor<i1>
}) : (tensor<2x3xi64>, tensor<2x3xi64>) -> (tensor<2x3xi64>, tensor<2x3xi64>)
%1 = "stablehlo.sort"(%a) <{dimension = -1 : i64}> ({
^bb0(%p: tensor<i64>, %q: tensor<i64>):
  %two = stablehlo.constant dense<2> : tensor<i64>
  %x = stablehlo.remainder %p, %two : tensor<i64>
  %y = stablehlo.remainder %q, %two : tensor<i64>
  %c = stablehlo.compare LT, %x, %y : (tensor<i64>, tensor<i64>) -> tensor<i1>
  stablehlo.return %c : tensor<i1>
}) : (tensor<2x3xi64>) -> tensor<2x3xi64>)",
       "%0#0, %0#1, %1",
       "tensor<2x3xi64>, tensor<2x3xi64>, tensor<2x3xi64>",
       {{3, 2, 3, 1, 2, 1}, {1, 2, 1, 3, 2, 3}, {2, 1, 3, 2, 3, 1}}},
  };
  for (const auto& f : forms) check(f);
}

TEST(HloForms, ControlAndCalls) {
  const char* twice = R"(
func.func private @twice(%x: tensor<i32>) -> (tensor<i32>, tensor<i32>) {
  %y = stablehlo.add %x, %x : tensor<i32>
  return %x, %y : tensor<i32>, tensor<i32>
})";
  const Form forms[] = {
      {"calls",
       R"(
%a = stablehlo.constant dense<3> : tensor<i32>
%0:2 = call @twice(%a) : (tensor<i32>) -> (tensor<i32>, tensor<i32>)
%1:2 = func.call @twice(%0#1) : (tensor<i32>) -> (tensor<i32>, tensor<i32>)
%2:2 = stablehlo.composite "some.thing" %1#1 {decomposition = @twice, version = 1 : i32} : (tensor<i32>) -> (tensor<i32>, tensor<i32>))",
       "%0#0, %0#1, %1#1, %2#1",
       "tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>",
       {{3}, {6}, {12}, {24}},
       twice},
      {"branches",
       R"(
%i = stablehlo.constant dense<-3> : tensor<i32>
%a = stablehlo.constant dense<[1, 2]> : tensor<2xi32>
%0 = "stablehlo.case"(%i) ({
  stablehlo.return %a : tensor<2xi32>
}, {
  %x = stablehlo.add %a, %a : tensor<2xi32>
  stablehlo.return %x : tensor<2xi32>
}) : (tensor<i32>) -> tensor<2xi32>
%t = stablehlo.constant dense<true> : tensor<i1>
%1:2 = "stablehlo.if"(%t) ({
  stablehlo.return %a, %i : tensor<2xi32>, tensor<i32>
}, {
  stablehlo.return %0, %i : tensor<2xi32>, tensor<i32>
}) : (tensor<i1>) -> (tensor<2xi32>, tensor<i32>))",
       "%0, %1#0, %1#1",
       "tensor<2xi32>, tensor<2xi32>, tensor<i32>",
       {{2, 4}, {1, 2}, {-3}}},
      {"loops",
       R"(
%z = stablehlo.constant dense<0> : tensor<i32>
%n = stablehlo.constant dense<4> : tensor<i32>
%one = stablehlo.constant dense<1> : tensor<i32>
%a = stablehlo.constant dense<[1, 1]> : tensor<2xi32>
%0:3 = stablehlo.while(%i = %z, %x = %a, %y = %z) : tensor<i32>, tensor<2xi32>, tensor<i32>
cond {
  %c = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
  stablehlo.return %c : tensor<i1>
} do {
  %k = stablehlo.add %i, %one : tensor<i32>
  %1:2 = stablehlo.while(%j = %z, %w = %x) : tensor<i32>, tensor<2xi32>
  cond {
    %c = stablehlo.compare LT, %j, %i, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %m = stablehlo.add %j, %one : tensor<i32>
    %v = stablehlo.add %w, %a : tensor<2xi32>
    stablehlo.return %m, %v : tensor<i32>, tensor<2xi32>
  }
  stablehlo.return %k, %1#1, %i : tensor<i32>, tensor<2xi32>, tensor<i32>
})",
       "%0#0, %0#1, %0#2",
       "tensor<i32>, tensor<2xi32>, tensor<i32>",
       {{4}, {7, 7}, {3}}},
      {"tuples",
       R"(
%a = stablehlo.constant dense<1> : tensor<i32>
%b = stablehlo.constant dense<[2.0]> : tensor<1xf32>
%0 = stablehlo.tuple %a, %b : tuple<tensor<i32>, tensor<1xf32>>
%1 = stablehlo.tuple %0, %a : tuple<tuple<tensor<i32>, tensor<1xf32>>, tensor<i32>>
%2 = stablehlo.get_tuple_element %1[0] : (tuple<tuple<tensor<i32>, tensor<1xf32>>, tensor<i32>>) -> tuple<tensor<i32>, tensor<1xf32>>
%3 = stablehlo.get_tuple_element %2[1] : (tuple<tensor<i32>, tensor<1xf32>>) -> tensor<1xf32>
%4 = stablehlo.create_token : !stablehlo.token
%5 = stablehlo.after_all %4, %4 : !stablehlo.token
%6:2 = stablehlo.optimization_barrier %3, %a : tensor<1xf32>, tensor<i32>)",
       "%6#0, %6#1",
       "tensor<1xf32>, tensor<i32>",
       {{2}, {1}}},
      {"map",
       R"(
%a = stablehlo.constant dense<[1, 2, 3]> : tensor<3xi32>
%b = stablehlo.constant dense<[4, 5, 6]> : tensor<3xi32>
%0 = "stablehlo.map"(%a, %b) ({
^bb0(%p: tensor<i32>, %q: tensor<i32>):
  %s = stablehlo.multiply %p, %q : tensor<i32>
  stablehlo.return %s : tensor<i32>
}) {dimensions = array<i64: 0>} : (tensor<3xi32>, tensor<3xi32>) -> tensor<3xi32>)",
       "%0",
       "tensor<3xi32>",
       {{4, 10, 18}}},
      {"approximate_top_k",
       R"(
%a = stablehlo.constant dense<[3.0, 1.0, 2.0]> : tensor<3xf32>
%i = stablehlo.iota dim = 0 : tensor<3xi32>
%x = stablehlo.constant dense<0.0> : tensor<f32>
%y = stablehlo.constant dense<-1> : tensor<i32>
%0:2 = stablehlo.custom_call @ApproxTopK(%a, %i, %x, %y) {called_computations = [@smaller], mhlo.backend_config = {reduction_dim = 0 : i64, top_k = 2 : i64}} : (tensor<3xf32>, tensor<3xi32>, tensor<f32>, tensor<i32>) -> (tensor<2xf32>, tensor<2xi32>))",
       "%0#0, %0#1",
       "tensor<2xf32>, tensor<2xi32>",
       {{1, 2}, {1, 2}},
       R"(
func.func private @smaller(%p: tensor<f32>, %q: tensor<f32>, %r: tensor<i32>, %s: tensor<i32>) -> tensor<i1> {
  %c = stablehlo.compare LT, %p, %q : (tensor<f32>, tensor<f32>) -> tensor<i1>
  return %c : tensor<i1>
})"},
  };
  for (const auto& f : forms) check(f);
}

TEST(HloForms, ProductsAndSystems) {
  const Form forms[] = {
      {"products",
       R"(
%a = stablehlo.constant dense<[[[1, 2], [3, 4]], [[5, 6], [7, 8]]]> : tensor<2x2x2xi8>
%b = stablehlo.constant dense<[[[1, 0], [0, 1]], [[1, 1], [100, 100]]]> : tensor<2x2x2xi8>
%0 = stablehlo.dot_general %a, %b, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<2x2x2xi8>, tensor<2x2x2xi8>) -> tensor<2x2x2xi32>
%c = stablehlo.constant dense<[1, 2]> : tensor<2xi8>
%1 = stablehlo.dot_general %c, %c, contracting_dims = [] x [] : (tensor<2xi8>, tensor<2xi8>) -> tensor<2x2xi8>
%2 = stablehlo.dot_general %c, %c, contracting_dims = [0] x [0] : (tensor<2xi8>, tensor<2xi8>) -> tensor<i32>)",
       "%0, %1, %2",
       "tensor<2x2x2xi32>, tensor<2x2xi8>, tensor<i32>",
       {{1, 2, 3, 4, 605, 605, 807, 807}, {1, 2, 2, 4}, {5}}},
      {"convolution",
       R"(
%a = stablehlo.constant dense<[[[[1], [2], [5], [6]], [[3], [4], [7], [8]], [[10], [11], [14], [15]], [[12], [13], [16], [17]]]]> : tensor<1x4x4x1xi64>
%k = stablehlo.constant dense<1> : tensor<3x3x1x1xi64>
%0 = stablehlo.convolution(%a, %k) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [4, 4], pad = [[0, 0], [0, 0]], lhs_dilate = [2, 2], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x4x4x1xi64>, tensor<3x3x1x1xi64>) -> tensor<1x2x2x1xi64>
%x = stablehlo.constant dense<[[[1.0, 2.0, 3.0, 4.0]]]> : tensor<1x1x4xf32>
%w = stablehlo.constant dense<[[[1.0, 10.0]]]> : tensor<1x1x2xf32>
%1 = stablehlo.convolution(%x, %w) dim_numbers = [b, f, 0]x[o, i, 0]->[b, f, 0], window = {pad = [[1, 0]], reverse = [true]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x1x4xf32>, tensor<1x1x2xf32>) -> tensor<1x1x4xf32>)",
       "%0, %1",
       "tensor<1x2x2x1xi64>, tensor<1x1x4xf32>",
       {{10, 26, 46, 62}, {1, 12, 23, 34}}},
      {"triangular",
       R"(
%a = stablehlo.constant dense<[[1.0, 0.0, 0.0], [2.0, 4.0, 0.0], [3.0, 5.0, 6.0]]> : tensor<3x3xf32>
%b = stablehlo.constant dense<[[2.0], [8.0], [19.0]]> : tensor<3x1xf32>
%0 = "stablehlo.triangular_solve"(%a, %b) {left_side = true, lower = true, unit_diagonal = false, transpose_a = #stablehlo<transpose NO_TRANSPOSE>} : (tensor<3x3xf32>, tensor<3x1xf32>) -> tensor<3x1xf32>
%1 = "stablehlo.triangular_solve"(%a, %b) {left_side = true, lower = true, unit_diagonal = true, transpose_a = #stablehlo<transpose ADJOINT>} : (tensor<3x3xf32>, tensor<3x1xf32>) -> tensor<3x1xf32>
%c = stablehlo.constant dense<[[4.0, 2.0], [2.0, 10.0]]> : tensor<2x2xf32>
%2 = stablehlo.cholesky %c, lower = true : tensor<2x2xf32>
%z = stablehlo.constant dense<0.0> : tensor<f32>
%3 = stablehlo.reduce(%2 init: %z) applies stablehlo.maximum across dimensions = [1] : (tensor<2x2xf32>, tensor<f32>) -> tensor<2xf32>)",
       "%0, %1, %3",
       "tensor<3x1xf32>, tensor<3x1xf32>, tensor<2xf32>",
       {{2, 1, 1.3333334}, {119, -87, 19}, {2, 3}}},
      {"transforms",
       R"(
%a = stablehlo.constant dense<[1.0, 0.0, 0.0, 0.0]> : tensor<4xf32>
%0 = stablehlo.fft %a, type = RFFT, length = [4] : (tensor<4xf32>) -> tensor<3xcomplex<f32>>
%1 = stablehlo.fft %0, type = IRFFT, length = [4] : (tensor<3xcomplex<f32>>) -> tensor<4xf32>
%2 = stablehlo.real %0 : (tensor<3xcomplex<f32>>) -> tensor<3xf32>)",
       "%2, %1",
       "tensor<3xf32>, tensor<4xf32>",
       {{1, 1, 1}, {1, 0, 0, 0}}},
      {"batch_norm",
       R"(
%a = stablehlo.constant dense<[[[1.0, 2.0], [3.0, 4.0]], [[3.0, 4.0], [1.0, 2.0]]]> : tensor<2x2x2xf64>
%one = stablehlo.constant dense<1.0> : tensor<2xf64>
%m = stablehlo.constant dense<[2.0, 3.0]> : tensor<2xf64>
%0 = "stablehlo.batch_norm_inference"(%a, %one, %one, %m, %one) {epsilon = 0.0 : f32, feature_index = 2 : i64} : (tensor<2x2x2xf64>, tensor<2xf64>, tensor<2xf64>, tensor<2xf64>, tensor<2xf64>) -> tensor<2x2x2xf64>
%1:3 = "stablehlo.batch_norm_training"(%a, %one, %one) {epsilon = 0.0 : f32, feature_index = 2 : i64} : (tensor<2x2x2xf64>, tensor<2xf64>, tensor<2xf64>) -> (tensor<2x2x2xf64>, tensor<2xf64>, tensor<2xf64>))",
       "%0, %1#0, %1#1, %1#2",
       "tensor<2x2x2xf64>, tensor<2x2x2xf64>, tensor<2xf64>, tensor<2xf64>",
       {{0, 0, 2, 2, 2, 2, 0, 0}, {0, 0, 2, 2, 2, 2, 0, 0}, {2, 3}, {1, 1}}},
      {"older_products",
       R"(
%a = stablehlo.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>
%0 = stablehlo.dot %a, %a : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
%1 = "stablehlo.einsum"(%a, %a) <{einsum_config = "ij,kj->ik"}> : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
%i = stablehlo.constant dense<[1, 0]> : tensor<2xi32>
%2 = "stablehlo.torch_index_select"(%a, %i) <{dim = 0 : i64, batch_dims = 0 : i64}> : (tensor<2x2xf32>, tensor<2xi32>) -> tensor<2x2xf32>
%s = stablehlo.constant dense<[[[1, 2, 3], [4, 5, 6]], [[7, 8, 9], [10, 11, 12]]]> : tensor<2x2x3xi32>
%t = stablehlo.constant dense<[[2, 0], [1, 1]]> : tensor<2x2xi32>
%3 = "stablehlo.torch_index_select"(%s, %t) <{dim = 2 : i64, batch_dims = 1 : i64}> : (tensor<2x2x3xi32>, tensor<2x2xi32>) -> tensor<2x2x2xi32>)",
       "%0, %1, %2, %3",
       "tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2x2xi32>",
       {{7, 10, 15, 22}, {5, 11, 11, 25}, {3, 4, 1, 2}, {3, 1, 6, 4, 8, 8, 11, 11}}},
      {"client_functions",
       R"(
%a = stablehlo.constant dense<[0.5, -0.5, 0.0, 3.0]> : tensor<4xf32>
%0 = chlo.erf %a : tensor<4xf32> -> tensor<4xf32>
%1 = chlo.is_inf %a : tensor<4xf32> -> tensor<4xi1>
%2, %3 = chlo.top_k(%a, k = 2) : tensor<4xf32> -> (tensor<2xf32>, tensor<2xi32>)
%4 = "chlo.constant_like"(%a) <{value = 0x7F800000 : f32}> : (tensor<4xf32>) -> tensor<4xf32>
%5 = chlo.next_after %a, %4 : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
%6 = "chlo.constant_like"(%3) <{value = 2147483647 : i32}> : (tensor<2xi32>) -> tensor<2xi32>)",
       "%0, %1, %2, %3, %4, %5, %6",
       "tensor<4xf32>, tensor<4xi1>, tensor<2xf32>, tensor<2xi32>, tensor<4xf32>, tensor<4xf32>, tensor<2xi32>",
       {{0.520499885, -0.520499885, 0, 0.999977887},
        {0, 0, 0, 0},
        {3, 0.5},
        {3, 0},
        {kInf, kInf, kInf, kInf},
        {0.50000006, -0.49999997, 1.401298464324817e-45, 3.0000002},
        {2147483647, 2147483647}}},
  };
  for (const auto& f : forms) check(f);
}

// Four devices, each of which knows its number; the results of every one of them in order.
Numbers on_four(const std::string& ops, const std::string& type) {
  std::string text = str(R"(
module @m attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["x"=2, "y"=2]>
  func.func public @main() -> tensor<)",
                         type, R"(> {
    %0 = sdy.manual_computation() in_shardings=[] out_shardings=[<@mesh, [{"x", "y"}]>] manual_axes={"x", "y"} () {
      %id = stablehlo.partition_id : tensor<ui32>
      %n = stablehlo.convert %id : (tensor<ui32>) -> tensor<i32>
      %four = stablehlo.broadcast_in_dim %n, dims = [] : (tensor<i32>) -> tensor<4xi32>
      %k = stablehlo.iota dim = 0 : tensor<4xi32>
      %ten = stablehlo.constant dense<10> : tensor<4xi32>
      %m = stablehlo.multiply %four, %ten : tensor<4xi32>
      %v = stablehlo.add %m, %k : tensor<4xi32>
)",
                         ops, R"(
    } : () -> tensor<)",
                         type, R"(>
    return %0 : tensor<)",
                         type, R"(>
  }
})");
  auto program = StablehloProgram::parse(text);
  ClientScope scope(Client::cpu({.devices = 4}));
  Numbers out = numbers_of(program.run({})[0]);
  EXPECT_EQ(numbers_of(StablehloProgram::parse(program.as_text()).run({})[0]), out);
  return out;
}

TEST(HloForms, Collectives) {
  const std::string handle = "channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>";
  EXPECT_EQ(
      on_four(str("%r = \"stablehlo.all_to_all\"(%v) <{", handle, ", concat_dimension = 0 : i64, replica_groups = ",
                  "dense<[[1, 0], [2, 3]]> : tensor<2x2xi64>, split_count = 2 : i64, split_dimension = 0 : i64}> : ",
                  "(tensor<4xi32>) -> tensor<4xi32>\nsdy.return %r : tensor<4xi32>"),
              "16xi32"),
      (Numbers{12, 13, 2, 3, 10, 11, 0, 1, 20, 21, 30, 31, 22, 23, 32, 33}));
  EXPECT_EQ(on_four(str("%r = \"stablehlo.all_gather\"(%v) <{", handle, ", all_gather_dim = 0 : i64, replica_groups = ",
                        "dense<[[3, 1], [0, 2]]> : tensor<2x2xi64>, use_global_device_ids}> : (tensor<4xi32>) -> ",
                        "tensor<8xi32>\n%s = stablehlo.slice %r [3:5] : (tensor<8xi32>) -> tensor<2xi32>\n",
                        "sdy.return %s : tensor<2xi32>"),
                    "8xi32"),
            (Numbers{3, 20, 33, 10, 3, 20, 33, 10}));
  EXPECT_EQ(
      on_four(str("%r = \"stablehlo.collective_permute\"(%v) <{", handle, ", source_target_pairs = dense<[[0, 3], ",
                  "[3, 1]]> : tensor<2x2xi64>}> : (tensor<4xi32>) -> tensor<4xi32>\nsdy.return %r : tensor<4xi32>"),
              "16xi32"),
      (Numbers{0, 0, 0, 0, 30, 31, 32, 33, 0, 0, 0, 0, 0, 1, 2, 3}));
  std::string reducer =
      "({\n^bb0(%p: tensor<i32>, %q: tensor<i32>):\n%s = stablehlo.maximum %p, %q : tensor<i32>\nstablehlo.return %s : "
      "tensor<i32>\n})";
  EXPECT_EQ(
      on_four(str("%r = \"stablehlo.reduce_scatter\"(%v) <{", handle, ", replica_groups = dense<[[1, 2], [3, 0]]> : ",
                  "tensor<2x2xi64>, scatter_dimension = 0 : i64, use_global_device_ids}> ", reducer,
                  " : (tensor<4xi32>) -> tensor<2xi32>\nsdy.return %r : tensor<2xi32>"),
              "8xi32"),
      (Numbers{32, 33, 20, 21, 22, 23, 30, 31}));
  // Narrow sums wrap.
  std::string add =
      "({\n^bb0(%p: tensor<i4>, %q: tensor<i4>):\n%s = stablehlo.add %p, %q : tensor<i4>\nstablehlo.return %s : "
      "tensor<i4>\n})";
  EXPECT_EQ(on_four(str("%c = stablehlo.constant dense<3> : tensor<1xi4>\n%r = \"stablehlo.all_reduce\"(%c) <{", handle,
                        ", replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> ", add,
                        " : (tensor<1xi4>) -> tensor<1xi4>\nsdy.return %r : tensor<1xi4>"),
                    "4xi4"),
            (Numbers{-4, -4, -4, -4}));
}

}  // namespace
}  // namespace tessera
