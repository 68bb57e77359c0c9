// SPDX-License-Identifier: Apache-2.0
#include "hlo/import/narrow.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "hlo/import/shared_compositions.h"

namespace tessera::hlo {

namespace {
enum class Special : std::uint8_t {
  Ieee,   // the last exponent holds infinities and NaNs
  Fn,     // no infinities; all ones is NaN
  Fnuz,   // no infinities, no negative zero, whose pattern is NaN
  Finite  // numbers only
};
struct Format {
  int exponent, mantissa, bias;
  Special special;
  float largest;
};
Format format_of(Elem e) {
  switch (e) {
    case Elem::F4E2M1FN:
      return {2, 1, 1, Special::Finite, 6.0F};
    case Elem::F6E2M3FN:
      return {2, 3, 1, Special::Finite, 7.5F};
    case Elem::F6E3M2FN:
      return {3, 2, 3, Special::Finite, 28.0F};
    case Elem::F8E3M4:
      return {3, 4, 3, Special::Ieee, 15.5F};
    case Elem::F8E4M3:
      return {4, 3, 7, Special::Ieee, 240.0F};
    case Elem::F8E4M3FN:
      return {4, 3, 7, Special::Fn, 448.0F};
    case Elem::F8E4M3FNUZ:
      return {4, 3, 8, Special::Fnuz, 240.0F};
    case Elem::F8E4M3B11FNUZ:
      return {4, 3, 11, Special::Fnuz, 30.0F};
    case Elem::F8E5M2:
      return {5, 2, 15, Special::Ieee, 57344.0F};
    default:
      return {5, 2, 16, Special::Fnuz, 57344.0F};
  }
}
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

ir::Value number(ir::Value like, double v) { return ops::scalar(*like.builder, v, like.dtype()); }
}  // namespace

float decode_narrow(Elem e, std::uint32_t bits) {
  if (e == Elem::F8E8M0FNU) return bits == 0xff ? kNan : std::ldexp(1.0F, static_cast<int>(bits) - 127);
  Format f = format_of(e);
  int width = 1 + f.exponent + f.mantissa;
  std::uint32_t magnitude = bits & ((1U << (width - 1)) - 1);
  bool negative = (bits >> (width - 1) & 1U) != 0;
  std::uint32_t fraction = magnitude & ((1U << f.mantissa) - 1);
  int exponent = static_cast<int>(magnitude >> f.mantissa);
  if (f.special == Special::Fnuz && negative && magnitude == 0) return kNan;
  if (f.special == Special::Fn && magnitude == (1U << (width - 1)) - 1) return kNan;
  if (f.special == Special::Ieee && exponent == (1 << f.exponent) - 1) {
    float inf = std::numeric_limits<float>::infinity();
    return fraction != 0 ? kNan : negative ? -inf : inf;
  }
  float value = exponent == 0
                    ? std::ldexp(static_cast<float>(fraction), 1 - f.bias - f.mantissa)
                    : std::ldexp(static_cast<float>(fraction | 1U << f.mantissa), exponent - f.bias - f.mantissa);
  return negative ? -value : value;
}

namespace {
// The neighbour in float whose last bit is odd where `v` is none: rounded again to fewer bits it gives what rounding
// `v` itself would.
float to_odd(double v) {
  constexpr float kMost = std::numeric_limits<float>::max();
  if (!std::isfinite(v)) return static_cast<float>(v);
  if (std::abs(v) > static_cast<double>(kMost)) return std::copysign(kMost, static_cast<float>(std::copysign(1.0, v)));
  auto f = static_cast<float>(v);
  if (static_cast<double>(f) == v) return f;
  auto bits = std::bit_cast<std::uint32_t>(f);
  if (std::abs(static_cast<double>(f)) > std::abs(v)) --bits;
  return std::bit_cast<float>(bits | 1U);
}

float nearest_float(double v) {
  constexpr double kMost = std::numeric_limits<float>::max();
  bool between = std::isfinite(v) && std::abs(v) > kMost;
  if (!between) return static_cast<float>(v);
  double halfway = kMost + std::ldexp(1.0, 103);  // half a step beyond, where the even neighbour is the infinity
  float size = std::abs(v) < halfway ? std::numeric_limits<float>::max() : std::numeric_limits<float>::infinity();
  return v < 0 ? -size : size;
}

double nearest_narrow(Elem e, double v) {
  int exponent = 0;
  if (e == Elem::F8E8M0FNU) {
    if (!(v > 0) || !std::isfinite(v)) return std::nan("");
    double fraction = std::frexp(v, &exponent);
    if (fraction >= 0.75) ++exponent;  // halfway goes up
    return exponent - 1 > 127 ? std::nan("") : std::ldexp(1.0, std::max(exponent - 1, -127));
  }
  Format f = format_of(e);
  if (std::isnan(v)) return f.special == Special::Finite ? -0.0 : v;
  std::frexp(v, &exponent);
  double size = std::abs(v);
  if (std::isfinite(v)) {
    int step = std::max(exponent - 1, 1 - f.bias) - f.mantissa;
    size = std::ldexp(std::nearbyint(std::ldexp(size, -step)), step);
  }
  auto largest = static_cast<double>(f.largest);
  if (size > largest) {
    size = f.special == Special::Ieee     ? std::numeric_limits<double>::infinity()
           : f.special == Special::Finite ? largest
                                          : std::nan("");
  }
  if (f.special == Special::Fnuz && size == 0) return 0;
  return std::copysign(size, v);
}
}  // namespace

double nearest(Elem e, double v) {
  if (is_narrow_float(e)) return nearest_narrow(e, v);
  if (e == Elem::F16) return static_cast<double>(static_cast<float>(float16_t(to_odd(v))));
  if (e == Elem::BF16) return static_cast<double>(static_cast<float>(bfloat16_t(to_odd(v))));
  return e == Elem::F32 ? static_cast<double>(nearest_float(v)) : v;
}

namespace {
// Powers of two from 2^-127 on; nothing else.
ir::Value round_e8m0(ir::Value x) {
  ir::Value bits = ops::bitcast_convert_type(x, DType::I32);
  ir::Value rounded = ops::and_(ops::add(bits, number(bits, 0x400000)), number(bits, 0x7f800000));
  ir::Value up = ops::bitcast_convert_type(rounded, DType::F32);
  ir::Value smallest = number(x, std::ldexp(1.0, -127));
  ir::Value bad = ops::not_(ops::and_(ops::is_finite(up), ops::gt(x, number(x, 0.0))));
  return ops::where(bad, number(x, std::nan("")), ops::max(up, smallest));
}

ir::Value round_float(ir::Value x, Elem e) {
  if (x.dtype() != DType::F32) x = ops::convert(x, DType::F32);
  if (e == Elem::F8E8M0FNU) return round_e8m0(x);
  Format f = format_of(e);
  ir::Value bits = ops::bitcast_convert_type(x, DType::I32);
  ir::Value size = ops::abs(x);
  ir::Value raw = ops::shift_right_logical(ops::and_(bits, number(bits, 0x7fffffff)), number(bits, 23));
  ir::Value exponent = ops::max(raw, number(bits, 1 - f.bias + 127));
  ir::Value shift = ops::min(ops::sub(exponent, number(bits, f.mantissa)), number(bits, 254));
  ir::Value step = ops::bitcast_convert_type(ops::shift_left(shift, number(bits, 23)), DType::F32);
  ir::Value out = ops::mul(ops::round(ops::div(size, step), true), step);
  double beyond = f.special == Special::Ieee     ? std::numeric_limits<double>::infinity()
                  : f.special == Special::Finite ? static_cast<double>(f.largest)
                                                 : std::nan("");
  out = ops::where(ops::gt(out, number(x, static_cast<double>(f.largest))), number(x, beyond), out);
  bool keeps_nan = f.special != Special::Finite;
  out = ops::where(ops::ne(x, x), number(x, keeps_nan ? std::nan("") : -0.0), out);
  ir::Value negative = ops::lt(bits, number(bits, 0));
  if (f.special == Special::Fnuz) negative = ops::and_(negative, ops::ne(out, number(out, 0.0)));
  return ops::where(negative, ops::neg(out), out);
}
}  // namespace

ir::Value round_to(ir::Value x, Elem e) {
  if (is_narrow_float(e)) return round_float(x, e);
  if (!is_narrow_int(e)) return x;
  if (is_float(x.dtype())) {  // numbers outside become the nearest inside
    bool is_unsigned = storage(e) == DType::U8;
    double low = is_unsigned ? 0 : -std::ldexp(1.0, bit_width(e) - 1);
    x = ops::clamp(number(x, low), x, number(x, low + std::ldexp(1.0, bit_width(e)) - 1));
  }
  if (x.dtype() != storage(e)) x = ops::convert(x, storage(e));
  if (storage(e) == DType::U8) return ops::and_(x, number(x, bit_width(e) == 4 ? 15 : 3));
  ir::Value by = number(x, 8 - bit_width(e));
  return ops::shift_right_arithmetic(ops::shift_left(x, by), by);
}

ir::Value narrow_to_bits(ir::Value x, Elem e) {
  if (is_narrow_int(e)) {
    ir::Value bits = ops::bitcast_convert_type(x, DType::U8);
    return ops::and_(bits, number(bits, bit_width(e) == 4 ? 15 : 3));
  }
  ir::Value bits = ops::bitcast_convert_type(x, DType::I32);
  auto as_u8 = [](ir::Value v) { return ops::convert(v, DType::U8); };
  if (e == Elem::F8E8M0FNU) {
    ir::Value exponent = ops::shift_right_logical(bits, number(bits, 23));
    return as_u8(ops::where(ops::ne(x, x), number(bits, 255), exponent));
  }
  Format f = format_of(e);
  int width = 1 + f.exponent + f.mantissa;
  ir::Value size = ops::and_(bits, number(bits, 0x7fffffff));
  ir::Value normal = ops::sub(ops::shift_right_logical(size, number(bits, 23 - f.mantissa)),
                              number(bits, static_cast<double>((127 - f.bias) << f.mantissa)));
  ir::Value scaled = ops::mul(ops::abs(x), number(x, std::ldexp(1.0, f.bias - 1 + f.mantissa)));
  ir::Value small = ops::lt(ops::abs(x), number(x, std::ldexp(1.0, 1 - f.bias)));
  ir::Value out = ops::where(small, ops::convert(ops::where(small, scaled, number(x, 0.0)), DType::I32), normal);
  int all = (1 << (width - 1)) - 1;
  int inf = ((1 << f.exponent) - 1) << f.mantissa;
  if (f.special == Special::Ieee) {
    out = ops::where(ops::eq(ops::abs(x), number(x, std::numeric_limits<double>::infinity())), number(bits, inf), out);
  }
  ir::Value sign = ops::where(ops::lt(bits, number(bits, 0)), number(bits, 1 << (width - 1)), number(bits, 0));
  out = ops::or_(out, sign);
  int nan = f.special == Special::Ieee ? inf | 1 << (f.mantissa - 1)
            : f.special == Special::Fn ? all
                                       : 1 << (width - 1);
  if (f.special != Special::Finite) out = ops::where(ops::ne(x, x), number(bits, nan), out);
  return as_u8(out);
}

ir::Value narrow_from_bits(ir::Value bits, Elem e) {
  if (is_narrow_int(e)) return round_to(ops::bitcast_convert_type(bits, storage(e)), e);
  std::vector<float> table(std::size_t{1} << bit_width(e));
  for (std::size_t i = 0; i < table.size(); ++i) table[i] = decode_narrow(e, static_cast<std::uint32_t>(i));
  return look_up(bits, HostArray::from(table));
}

}  // namespace tessera::hlo
