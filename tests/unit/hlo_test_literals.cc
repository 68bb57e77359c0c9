// SPDX-License-Identifier: Apache-2.0
// Numbers of a module: those that their types hold, rounded once, and errors for the others.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "base/strings.h"
#include "hlo/import/narrow.h"
#include "hlo/module.h"
#include "tessera/device.h"
#include "tessera/error.h"
#include "tessera/stablehlo.h"

namespace tessera {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

std::string constant(const std::string& value, const std::string& type) {
  return str("func.func @main() -> ", type, " {\n  %0 = stablehlo.constant dense<", value, "> : ", type,
             "\n  return %0 : ", type, "\n}\n");
}
std::vector<double> values(const std::string& text) {
  ClientScope scope(Client::cpu({.devices = 1}));
  HostArray out = StablehloProgram::parse(text).run({})[0];
  if (out.dtype() == DType::U64) {
    auto bits = out.to_vector<std::uint64_t>();
    return {bits.begin(), bits.end()};
  }
  return out.astype(float64).to_vector<double>();
}
// In a list of two, as one value for all, and of rank 0: the same number.
double value(const std::string& literal, const std::string& elem) {
  double one = values(constant(literal, str("tensor<", elem, ">")))[0];
  auto all = values(constant(literal, str("tensor<3x", elem, ">")));
  auto list = values(constant(str("[[", literal, "], [", literal, "]]"), str("tensor<2x1x", elem, ">")));
  for (double v : {all[0], all[2], list[0], list[1]}) EXPECT_TRUE(v == one || std::isnan(v)) << literal << " " << elem;
  return one;
}
std::string error(const std::string& text) {
  try {
    StablehloProgram::parse(text);
  } catch (const FormatError& e) {
    return e.what();
  }
  return "";
}
void refused(const std::string& literal, const std::string& elem) {
  for (const auto& text : {constant(literal, str("tensor<", elem, ">")), constant(literal, str("tensor<3x", elem, ">")),
                           constant(str("[", literal, "]"), str("tensor<1x", elem, ">"))}) {
    std::string what = error(text);
    EXPECT_NE(what.find(":2:"), std::string::npos) << literal << " : " << elem << " gives \"" << what << "\"";
  }
}

struct Case {
  const char* literal;
  const char* elem;
  double value;
};

// Types without a sign take what fits them with or without one, as in MLIR.
TEST(HloLiterals, Integers) {
  for (const Case& k : std::initializer_list<Case>{
           {"255", "i8", -1},
           {"128", "i8", -128},
           {"-128", "i8", -128},
           {"127", "i8", 127},
           {"0xFF", "i8", -1},
           {"-0x1", "i8", -1},
           {"9", "i4", -7},
           {"15", "i4", -1},
           {"-8", "i4", -8},
           {"7", "i4", 7},
           {"3", "i2", -1},
           {"-2", "i2", -2},
           {"15", "ui4", 15},
           {"3", "ui2", 3},
           {"255", "ui8", 255},
           {"65535", "i16", -1},
           {"65535", "ui16", 65535},
           {"4294967295", "i32", -1},
           {"-2147483648", "i32", -2147483648.0},
           {"4294967295", "ui32", 4294967295.0},
           {"18446744073709551615", "i64", -1},
           {"-9223372036854775808", "i64", -9223372036854775808.0},
           {"9223372036854775807", "i64", 9223372036854775807.0},
           {"18446744073709551615", "ui64", 18446744073709551615.0},
           {"-0", "ui8", 0},
           {"000000000000000000000000007", "i8", 7},
           {"true", "i1", 1},
           {"false", "i1", 0},
           {"1", "i1", 1},
           {"-1", "i1", 1},
       }) {
    EXPECT_EQ(value(k.literal, k.elem), k.value) << k.literal << " : " << k.elem;
  }
}

TEST(HloLiterals, IntegersThatDoNotFit) {
  for (auto [literal, elem] : std::initializer_list<std::pair<const char*, const char*>>{
           {"300", "i8"},
           {"256", "i8"},
           {"-129", "i8"},
           {"0x1FF", "i8"},
           {"-0xFF", "i8"},
           {"16", "i4"},
           {"-9", "i4"},
           {"4", "i2"},
           {"-3", "i2"},
           {"16", "ui4"},
           {"4", "ui2"},
           {"256", "ui8"},
           {"-1", "ui8"},
           {"-1", "ui64"},
           {"65536", "i16"},
           {"4294967296", "i32"},
           {"4294967296", "ui32"},
           {"18446744073709551616", "i64"},
           {"18446744073709551616", "ui64"},
           {"99999999999999999999", "i64"},
           {"-9223372036854775809", "i64"},
           {"0x10000000000000000", "i64"},
           {"2", "i1"},
           {"-2", "i1"},
           {"true", "i8"},
           {"1.0", "i32"},
           {"1e3", "i32"},
           {"0x", "i32"},
       }) {
    refused(literal, elem);
  }
}

TEST(HloLiterals, Floats) {
  for (const Case& k : std::initializer_list<Case>{
           {"1e400", "f64", kInf},
           {"-1e400", "f64", -kInf},
           {"1.0e99999999999999999999", "f64", kInf},
           {"0.0e99999999999999999999", "f64", 0},
           {"1.0e-99999999999999999999", "f64", 0},
           {"1e-400", "f64", 0},
           {"4.9e-324", "f64", 4.9406564584124654e-324},
           {"1e39", "f32", kInf},
           {"-1e39", "f32", -kInf},
           {"3.4028235677973366e38", "f32", kInf},
           {"3.4028235677973362e38", "f32", static_cast<double>(std::numeric_limits<float>::max())},
           {"1e400", "f32", kInf},
           {"99999999999999999999.0", "f32", static_cast<double>(99999999999999999999.0F)},
           {"65519.99", "f16", 65504},
           {"65520.0", "f16", kInf},
           {"1.00048828125090949", "f16", 1.0009765625},
           {"1.00048828125", "f16", 1},
           {"2.98023223876953125e-08", "f16", 0},
           {"2.98023223876954e-08", "f16", 5.9604644775390625e-08},
           {"1.00390625000090949", "bf16", 1.0078125},
           {"1.00390625", "bf16", 1},
           {"3.39e38", "bf16", 3.3895313892515355e38},
           {"3.4e38", "bf16", kInf},
           {"0.3", "f8E4M3FN", 0.3125},
           {"449.0", "f8E4M3FN", 448},
           {"-0.3", "f8E5M2", -0.3125},
           {"61439.0", "f8E5M2", 57344},
           {"61440.0", "f8E5M2", kInf},
           {"248.0", "f8E4M3", kInf},
           {"100.0", "f4E2M1FN", 6},
           {"-100.0", "f6E2M3FN", -7.5},
           {"0.8", "f4E2M1FN", 1},
           {"3.0", "f8E8M0FNU", 4},
           {"2.9", "f8E8M0FNU", 2},
           {"0x7F800000", "f32", kInf},
           {"0x3C00", "f16", 1},
           {"0x3F80", "bf16", 1},
           {"0x7FF0000000000000", "f64", kInf},
           {"0x38", "f8E4M3FN", 1},
       }) {
    EXPECT_EQ(value(k.literal, k.elem), k.value) << k.literal << " : " << k.elem;
  }
  EXPECT_TRUE(std::isnan(value("465.0", "f8E4M3FN")));
  EXPECT_TRUE(std::isnan(value("1e400", "f8E4M3FNUZ")));
  EXPECT_TRUE(std::signbit(value("-0.0", "f32")));
  for (auto [literal, elem] : std::initializer_list<std::pair<const char*, const char*>>{
           {"0x1FFFFFFFF", "f32"},
           {"0x1FFFF", "f16"},
           {"0x10000", "bf16"},
           {"0x1FF", "f8E5M2"},
           {"0x40", "f6E2M3FN"},
           {"0x10", "f4E2M1FN"},
           {"-0x3C00", "f16"},
           {"0x10000000000000000", "f64"},
           {"0.0", "f8E8M0FNU"},
           {"-1.0", "f8E8M0FNU"},
           {"true", "f32"},
           {".5", "f32"},
           {"nan", "f32"},
           {"--1.0", "f32"},
       }) {
    refused(literal, elem);
  }
}

// Against a search among all values of the type.
TEST(HloLiterals, SmallFloatsAreTheNearest) {
  std::mt19937 random(7);
  std::uniform_real_distribution<double> exponent(-20, 18), part(-1, 1);
  for (int e = static_cast<int>(hlo::Elem::F4E2M1FN); e < static_cast<int>(hlo::Elem::F8E8M0FNU); ++e) {
    auto elem = static_cast<hlo::Elem>(e);
    int codes = 1 << hlo::bit_width(elem);
    double largest = 0;
    for (int c = 0; c < codes; ++c) {
      double v = static_cast<double>(hlo::decode_narrow(elem, static_cast<std::uint32_t>(c)));
      if (std::isfinite(v)) largest = std::max(largest, v);
    }
    for (int i = 0; i < 4000; ++i) {
      double v = part(random) * std::exp2(exponent(random));
      if (i % 4 == 0) v = static_cast<double>(static_cast<float>(std::round(v * 1024) / 1024));  // ties
      if (std::abs(v) > largest) continue;
      double best = kInf;
      int code = 0;
      for (int c = 0; c < codes; ++c) {
        double d = std::abs(static_cast<double>(hlo::decode_narrow(elem, static_cast<std::uint32_t>(c))) - v);
        if (d < best || (d == best && c % 2 == 0)) {
          best = d;
          code = c;
        }
      }
      double want = static_cast<double>(hlo::decode_narrow(elem, static_cast<std::uint32_t>(code)));
      EXPECT_EQ(hlo::nearest(elem, v), want) << v << " " << to_string(elem);
    }
  }
}

TEST(HloLiterals, Complex) {
  std::string text = constant("[(1e400, -2.5), (0x3F800000, -0.0)]", "tensor<2xcomplex<f32>>");
  ClientScope scope(Client::cpu({.devices = 1}));
  auto out = StablehloProgram::parse(text).run({})[0].to_vector<complex64_t>();
  EXPECT_EQ(out[0], complex64_t(std::numeric_limits<float>::infinity(), -2.5F));
  EXPECT_EQ(out[1], complex64_t(1, 0));
  EXPECT_NE(error(constant("(1.0, 0x1FFFFFFFF)", "tensor<complex<f32>>")), "");
  EXPECT_NE(error(constant("1.0", "tensor<complex<f32>>")), "");
}

TEST(HloLiterals, InAttributes) {
  auto with = [](const std::string& attributes) {
    return str("func.func @main(%a: tensor<2x3xf32>) -> tensor<2x3xf32> {\n  %0 = \"stablehlo.reverse\"(%a) <{",
               attributes, "}> : (tensor<2x3xf32>) -> tensor<2x3xf32>\n  return %0 : tensor<2x3xf32>\n}\n");
  };
  EXPECT_EQ(error(with("dimensions = array<i64: 1>")), "");
  EXPECT_EQ(error(with("dimensions = dense<1> : tensor<1xi64>")), "");
  EXPECT_EQ(error(with("dimensions = [1 : i8]")), "");
  for (const char* bad : {
           "dimensions = array<i64: 18446744073709551616>",
           "dimensions = array<i8: 257>",
           "dimensions = array<i64: 1.0>",
           "dimensions = dense<257> : tensor<1xi8>",
           "dimensions = dense<1.5> : tensor<1xf32>",
           "dimensions = dense<0> : tensor<1099511627776xi64>",
           "dimensions = [257 : i8]",
           "dimensions = [1.0]",
           "dimensions = [18446744073709551615]",
           "dimensions = [18446744073709551615 : index]",
           "dimensions = [99999999999999999999]",
           "dimensions = [1 : tensor<2xi64>]",
           "dimensions = [1], dimensions = [0]",
           "dimensions = [1], other = 300 : i8",
           "dimensions = [1], other = 1.0 : i8",
           "dimensions = [1], other = 0x1FFFFFFFF : f32",
       }) {
    EXPECT_NE(error(with(bad)).find(":2:"), std::string::npos) << bad << " gives \"" << error(with(bad)) << "\"";
  }
}

// What is read is written so that it is read again: bit by bit, of every type.
TEST(HloLiterals, AreWrittenAsTheyWereRead) {
  std::mt19937_64 random(11);
  for (int e = 0; e < static_cast<int>(hlo::Elem::C64); ++e) {
    auto elem = static_cast<hlo::Elem>(e);
    if (elem == hlo::Elem::Bool) continue;
    int width = hlo::bit_width(elem);
    std::vector<std::string> list;
    for (int i = 0; i < 40; ++i) {
      std::uint64_t bits = random() >> (64 - width);
      char text[32];
      std::snprintf(text, sizeof text, "0x%llX", static_cast<unsigned long long>(bits));
      list.emplace_back(text);
    }
    std::string text = constant(str("[", join(list), "]"), str("tensor<40x", to_string(elem), ">"));
    auto program = StablehloProgram::parse(text);
    ClientScope scope(Client::cpu({.devices = 1}));
    HostArray once = program.run({})[0], again = StablehloProgram::parse(program.as_text()).run({})[0];
    ASSERT_EQ(once.nbytes(), again.nbytes());
    EXPECT_EQ(std::memcmp(once.data(), again.data(), static_cast<std::size_t>(once.nbytes())), 0) << program.as_text();
  }
}

}  // namespace
}  // namespace tessera
