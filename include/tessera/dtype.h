// SPDX-License-Identifier: Apache-2.0
// Element types, their C++ counterparts, and type promotion (JAX's lattice with weak types).
#pragma once

#include <bit>
#include <compare>
#include <complex>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "tessera/detail/half_float.h"

namespace tessera {

/// Element type of an array.
enum class DType : std::uint8_t { Bool, I8, I16, I32, I64, U8, U16, U32, U64, F16, BF16, F32, F64, C64, C128 };
/// Count of `DType`.
inline constexpr int kNumDTypes = 15;

inline constexpr DType bool_ = DType::Bool;       ///< as NumPy names it
inline constexpr DType int8 = DType::I8;          ///< as NumPy names it
inline constexpr DType int16 = DType::I16;        ///< as NumPy names it
inline constexpr DType int32 = DType::I32;        ///< as NumPy names it
inline constexpr DType int64 = DType::I64;        ///< as NumPy names it
inline constexpr DType uint8 = DType::U8;         ///< as NumPy names it
inline constexpr DType uint16 = DType::U16;       ///< as NumPy names it
inline constexpr DType uint32 = DType::U32;       ///< as NumPy names it
inline constexpr DType uint64 = DType::U64;       ///< as NumPy names it
inline constexpr DType float16 = DType::F16;      ///< as NumPy names it
inline constexpr DType bfloat16 = DType::BF16;    ///< as NumPy names it
inline constexpr DType float32 = DType::F32;      ///< as NumPy names it
inline constexpr DType float64 = DType::F64;      ///< as NumPy names it
inline constexpr DType complex64 = DType::C64;    ///< as NumPy names it
inline constexpr DType complex128 = DType::C128;  ///< as NumPy names it

/// NumPy's name: "float32".
std::string_view dtype_name(DType t);
/// The short name used in graph text: "f32", "i32", "bool".
std::string_view dtype_short(DType t);
/// From either name. Throws `TypeError` naming the string when there is no such dtype.
DType dtype_from_name(std::string_view name);
/// Bytes of one element.
std::int64_t dtype_size(DType t);

/// Bool alone.
constexpr bool is_bool(DType t) { return t == DType::Bool; }
/// I8 to I64.
constexpr bool is_signed_int(DType t) { return t >= DType::I8 && t <= DType::I64; }
/// U8 to U64.
constexpr bool is_unsigned_int(DType t) { return t >= DType::U8 && t <= DType::U64; }
/// Signed or unsigned, not bool.
constexpr bool is_integer(DType t) { return t >= DType::I8 && t <= DType::U64; }
/// F16, BF16, F32 or F64.
constexpr bool is_float(DType t) { return t >= DType::F16 && t <= DType::F64; }
/// C64 or C128.
constexpr bool is_complex(DType t) { return t >= DType::C64; }
/// Float or complex: the dtypes that have derivatives.
constexpr bool is_inexact(DType t) { return t >= DType::F16; }
/// The float type of the real and imaginary part; `t` itself when it is not complex.
constexpr DType real_dtype(DType t) { return t == DType::C64 ? DType::F32 : t == DType::C128 ? DType::F64 : t; }
/// The complex type whose parts hold `t`: c128 for f64 (and c128), else c64.
constexpr DType complex_dtype(DType t) { return t == DType::F64 || t == DType::C128 ? DType::C128 : DType::C64; }

/// A dtype together with JAX's weak-type mark (scalar literals of the program promote weakly).
struct PromotedType {
  DType dtype;
  bool weak;
  bool operator==(const PromotedType&) const = default;
};
/// Join of two types on JAX's promotion lattice (https://docs.jax.dev/en/latest/type_promotion.html).
PromotedType promote_types(PromotedType a, PromotedType b);
/// `promote_types` of two strong dtypes.
DType promote_types(DType a, DType b);

/// IEEE binary16 storage; converts through float.
struct float16_t {
  std::uint16_t bits = 0;
  float16_t() = default;
  float16_t(float v)
      : bits(detail::float_to_half(v)) {}  // NOLINT(google-explicit-constructor): a scalar like any other
  operator float() const { return detail::half_to_float(bits); }  // NOLINT(google-explicit-constructor)
};

/// bfloat16 storage; converts through float.
struct bfloat16_t {
  std::uint16_t bits = 0;
  constexpr bfloat16_t() = default;
  constexpr bfloat16_t(float v) : bits(detail::float_to_bf16(v)) {}         // NOLINT(google-explicit-constructor)
  constexpr operator float() const { return detail::bf16_to_float(bits); }  // NOLINT(google-explicit-constructor)
};

/// The two 16-bit types compute and compare as floats, as short integers do as ints. The operators are defined because
/// the types convert to Arrays too, and overload resolution would be ambiguous.
template <class T>
concept HalfFloat = std::is_same_v<T, float16_t> || std::is_same_v<T, bfloat16_t>;
/// Equality of the values as floats.
template <HalfFloat A, HalfFloat B>
constexpr bool operator==(A a, B b) {
  return static_cast<float>(a) == static_cast<float>(b);
}
/// Order of the values as floats; unordered for NaN.
template <HalfFloat A, HalfFloat B>
constexpr std::partial_ordering operator<=>(A a, B b) {
  return static_cast<float>(a) <=> static_cast<float>(b);
}
/// Sum as a float.
template <HalfFloat A, HalfFloat B>
constexpr float operator+(A a, B b) {
  return static_cast<float>(a) + static_cast<float>(b);
}
/// Difference as a float.
template <HalfFloat A, HalfFloat B>
constexpr float operator-(A a, B b) {
  return static_cast<float>(a) - static_cast<float>(b);
}
/// Product as a float.
template <HalfFloat A, HalfFloat B>
constexpr float operator*(A a, B b) {
  return static_cast<float>(a) * static_cast<float>(b);
}
/// Quotient as a float.
template <HalfFloat A, HalfFloat B>
constexpr float operator/(A a, B b) {
  return static_cast<float>(a) / static_cast<float>(b);
}
/// Negative as a float.
template <HalfFloat A>
constexpr float operator-(A a) {
  return -static_cast<float>(a);
}

using complex64_t = std::complex<float>;    ///< of dtype complex64
using complex128_t = std::complex<double>;  ///< of dtype complex128

/// The dtype of a C++ element type: `dtype_of<float>() == float32`.
template <class T>
constexpr DType dtype_of() {
  using E = std::remove_cv_t<T>;
  if constexpr (std::is_same_v<E, bool>) {
    return DType::Bool;
  } else if constexpr (std::is_same_v<E, float16_t>) {
    return DType::F16;
  } else if constexpr (std::is_same_v<E, bfloat16_t>) {
    return DType::BF16;
  } else if constexpr (std::is_same_v<E, float>) {
    return DType::F32;
  } else if constexpr (std::is_same_v<E, double>) {
    return DType::F64;
  } else if constexpr (std::is_same_v<E, complex64_t>) {
    return DType::C64;
  } else if constexpr (std::is_same_v<E, complex128_t>) {
    return DType::C128;
  } else {
    static_assert(std::is_integral_v<E>, "no tessera dtype for this C++ type");
    constexpr bool s = std::is_signed_v<E>;
    if constexpr (sizeof(E) == 1) return s ? DType::I8 : DType::U8;
    if constexpr (sizeof(E) == 2) return s ? DType::I16 : DType::U16;
    if constexpr (sizeof(E) == 4) return s ? DType::I32 : DType::U32;
    if constexpr (sizeof(E) == 8) return s ? DType::I64 : DType::U64;
  }
}

}  // namespace tessera
