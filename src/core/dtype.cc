// SPDX-License-Identifier: Apache-2.0
#include "tessera/dtype.h"

#include <array>
#include <bit>
#include <cmath>

#include "base/strings.h"
#include "tessera/error.h"

namespace tessera {

namespace {
struct Info {
  std::string_view name;
  std::string_view text;
  std::int64_t size;
};
constexpr std::array<Info, kNumDTypes> kInfo = {{{"bool", "bool", 1},
                                                 {"int8", "i8", 1},
                                                 {"int16", "i16", 2},
                                                 {"int32", "i32", 4},
                                                 {"int64", "i64", 8},
                                                 {"uint8", "u8", 1},
                                                 {"uint16", "u16", 2},
                                                 {"uint32", "u32", 4},
                                                 {"uint64", "u64", 8},
                                                 {"float16", "f16", 2},
                                                 {"bfloat16", "bf16", 2},
                                                 {"float32", "f32", 4},
                                                 {"float64", "f64", 8},
                                                 {"complex64", "c64", 8},
                                                 {"complex128", "c128", 16}}};
const Info& info(DType t) { return kInfo.at(static_cast<std::size_t>(t)); }

// Nodes of the lattice: the fifteen dtypes and the three weak kinds i*, f*, c*.
enum Node { kWeakInt = kNumDTypes, kWeakFloat, kWeakComplex, kNumNodes };

int node(PromotedType t) {
  if (!t.weak || is_bool(t.dtype)) return static_cast<int>(t.dtype);
  return is_complex(t.dtype) ? kWeakComplex : is_float(t.dtype) ? kWeakFloat : kWeakInt;
}

std::uint32_t bit(int n) { return 1u << n; }
std::uint32_t bit(DType t) { return 1u << static_cast<int>(t); }

// Direct successors of each node, as in JAX's documentation of type promotion.
std::array<std::uint32_t, kNumNodes> upper_bounds() {
  std::array<std::uint32_t, kNumNodes> up{};
  auto edge = [&](auto from, std::uint32_t to) { up[static_cast<std::size_t>(from)] |= to; };
  using enum DType;
  edge(Bool, bit(kWeakInt));
  edge(kWeakInt, bit(U8) | bit(I8));
  edge(U8, bit(I16) | bit(U16));
  edge(U16, bit(I32) | bit(U32));
  edge(U32, bit(I64) | bit(U64));
  edge(U64, bit(kWeakFloat));
  edge(I8, bit(I16));
  edge(I16, bit(I32));
  edge(I32, bit(I64));
  edge(I64, bit(kWeakFloat));
  edge(kWeakFloat, bit(BF16) | bit(F16) | bit(kWeakComplex));
  edge(BF16, bit(F32));
  edge(F16, bit(F32));
  edge(F32, bit(F64) | bit(C64));
  edge(F64, bit(C128));
  edge(kWeakComplex, bit(C64));
  edge(C64, bit(C128));
  // Closure: with 18 nodes, 18 rounds of one step each suffice.
  for (int n = 0; n < kNumNodes; ++n) up[static_cast<std::size_t>(n)] |= bit(n);
  for (int round = 0; round < kNumNodes; ++round) {
    for (auto& set : up) {
      std::uint32_t grown = set;
      for (int n = 0; n < kNumNodes; ++n) {
        if (set & bit(n)) grown |= up[static_cast<std::size_t>(n)];
      }
      set = grown;
    }
  }
  return up;
}
}  // namespace

std::string_view dtype_name(DType t) { return info(t).name; }
std::string_view dtype_short(DType t) { return info(t).text; }
std::int64_t dtype_size(DType t) { return info(t).size; }

DType dtype_from_name(std::string_view name) {
  for (int i = 0; i < kNumDTypes; ++i) {
    auto t = static_cast<DType>(i);
    if (info(t).name == name || info(t).text == name) return t;
  }
  throw TypeError(str("dtype_from_name: name = \"", name, "\"; expected a dtype such as float32 or f32"));
}

PromotedType promote_types(PromotedType a, PromotedType b) {
  static const auto up = upper_bounds();
  int na = node(a);
  int nb = node(b);
  std::uint32_t common = up[static_cast<std::size_t>(na)] & up[static_cast<std::size_t>(nb)];
  // The least upper bound is the common bound from which all the others can be reached.
  for (int n = 0; n < kNumNodes; ++n) {
    if ((common & bit(n)) && (common & ~up[static_cast<std::size_t>(n)]) == 0) {
      if (n == kWeakInt) {
        // Weak integers keep their own width when both are weak: i32 unless one of them is 64 bits wide.
        bool wide = (a.weak && dtype_size(a.dtype) == 8) || (b.weak && dtype_size(b.dtype) == 8);
        return {wide ? DType::I64 : DType::I32, true};
      }
      if (n == kWeakFloat) {
        bool wide = (a.weak && a.dtype == DType::F64) || (b.weak && b.dtype == DType::F64);
        return {wide ? DType::F64 : DType::F32, true};
      }
      if (n == kWeakComplex) return {DType::C64, true};
      // Only 64-bit operands make 64-bit results: uint32 and int32 meet in int32.
      if (n == static_cast<int>(DType::I64) && dtype_size(a.dtype) < 8 && dtype_size(b.dtype) < 8)
        return {DType::I32, false};
      return {static_cast<DType>(n), false};
    }
  }
  throw TypeError(str("promote_types: no common type of ", dtype_name(a.dtype), " and ", dtype_name(b.dtype)));
}

DType promote_types(DType a, DType b) { return promote_types({a, false}, {b, false}).dtype; }

namespace detail {

float half_to_float(std::uint16_t bits) {
  std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000u) << 16;
  std::uint32_t exponent = (bits >> 10) & 0x1fu;
  std::uint32_t mantissa = bits & 0x3ffu;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
  if (exponent == 0) {
    float v = std::ldexp(static_cast<float>(mantissa), -24);
    return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(v));
  }
  return std::bit_cast<float>(sign | ((exponent + 112u) << 23) | (mantissa << 13));
}

std::uint16_t float_to_half(float v) {
  auto u = std::bit_cast<std::uint32_t>(v);
  auto sign = static_cast<std::uint16_t>((u >> 16) & 0x8000u);
  u &= 0x7fffffffu;
  if (u > 0x7f800000u) return static_cast<std::uint16_t>(sign | 0x7e00u | ((u >> 13) & 0x3ffu));
  if (u >= 0x477ff000u) return static_cast<std::uint16_t>(sign | 0x7c00u);  // rounds to infinity
  if (u < 0x38800000u) {
    // Subnormal: adding 0.5 aligns the mantissa at the right bit and rounds to nearest even.
    float f = std::bit_cast<float>(u) + 0.5f;
    return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(f) - 0x3f000000u));
  }
  u += 0xc8000fffu + ((u >> 13) & 1u);
  return static_cast<std::uint16_t>(sign | (u >> 13));
}

}  // namespace detail
}  // namespace tessera
