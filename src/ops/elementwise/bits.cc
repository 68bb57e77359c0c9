// SPDX-License-Identifier: Apache-2.0
// Ops on the bits of numbers.
#include <bit>
#include <cmath>
#include <cstring>

#include "ops/elementwise/elementwise.h"
#include "ops/shared_attrs.h"

namespace tessera::ops {

namespace {
using i64 = std::int64_t;
using u64 = std::uint64_t;

u64 low_bits(u64 x, int bits) { return bits == 64 ? x : x & ((u64{1} << bits) - 1); }
// XLA: a shift by the width or more leaves 0, or the sign where that is shifted in. Negative counts are such, too.
bool too_far(u64 count, int bits) { return low_bits(count, bits) >= static_cast<u64>(bits); }
u64 left(u64 x, u64 count, int bits) { return too_far(count, bits) ? 0 : x << low_bits(count, bits); }
u64 right(u64 x, u64 count, int bits) { return too_far(count, bits) ? 0 : low_bits(x, bits) >> low_bits(count, bits); }
u64 right_signed(u64 x, u64 count, int bits) {
  i64 wide = static_cast<i64>(x << (64 - bits)) >> (64 - bits);
  return static_cast<u64>(wide >> (too_far(count, bits) ? 63 : low_bits(count, bits)));
}
u64 leading_zeros(u64 x, int bits) { return static_cast<u64>(std::countl_zero(low_bits(x, bits)) - (64 - bits)); }
u64 ones(u64 x, int bits) { return static_cast<u64>(std::popcount(low_bits(x, bits))); }

// Two's complement makes one function serve signed and unsigned numbers.
template <u64 (*F)(u64, int)>
constexpr UnaryFns unary_bits() {
  return {.i = [](i64 x, int bits) { return static_cast<i64>(F(static_cast<u64>(x), bits)); }, .u = F};
}
template <u64 (*F)(u64, u64, int)>
constexpr BinaryFns binary_bits() {
  return {
      .i = [](i64 x, i64 y, int bits) { return static_cast<i64>(F(static_cast<u64>(x), static_cast<u64>(y), bits)); },
      .u = F};
}
}  // namespace

TESSERA_ROW(xor_, binary_spec({.name = "xor",
                               .stablehlo = "stablehlo.xor",
                               .fns = {.i = [](i64 x, i64 y, int) { return x ^ y; },
                                       .u = [](u64 x, u64 y, int) { return x ^ y; },
                                       .b = [](bool x, bool y) { return x != y; }}}));
TESSERA_ROW(shift_left,
            binary_spec({.name = "shift_left", .stablehlo = "stablehlo.shift_left", .fns = binary_bits<left>()}));
TESSERA_ROW(shift_right_logical, binary_spec({.name = "shift_right_logical",
                                              .stablehlo = "stablehlo.shift_right_logical",
                                              .fns = binary_bits<right>()}));
TESSERA_ROW(shift_right_arithmetic, binary_spec({.name = "shift_right_arithmetic",
                                                 .stablehlo = "stablehlo.shift_right_arithmetic",
                                                 .fns = binary_bits<right_signed>()}));
TESSERA_ROW(population_count,
            unary_spec({.name = "population_count", .stablehlo = "stablehlo.popcnt", .fns = unary_bits<ones>()}));
TESSERA_ROW(
    clz, unary_spec({.name = "clz", .stablehlo = "stablehlo.count_leading_zeros", .fns = unary_bits<leading_zeros>()}));

TESSERA_ROW(mulhi,
            binary_spec({.name = "mulhi",
                         .stablehlo = "chlo.mulhi",
                         .cheap = true,
                         .fns = {.i = [](i64 x, i64 y,
                                         int bits) { return static_cast<i64>((static_cast<__int128>(x) * y) >> bits); },
                                 .u =
                                     [](u64 x, u64 y, int bits) {
                                       return static_cast<u64>((static_cast<unsigned __int128>(x) * y) >> bits);
                                     }}}));

namespace {
struct FloatFormat {
  int exponent_bits;
  int mantissa_bits;
};
FloatFormat format_of(DType t) {
  switch (t) {
    case DType::F16:
      return {5, 10};
    case DType::BF16:
      return {8, 7};
    case DType::F32:
      return {8, 23};
    default:
      return {11, 52};
  }
}

// Round to nearest even at the new last bit; then exponents out of range become infinity or zero, as XLA does it.
u64 reduce_bits(u64 x, const FloatFormat& from, const ReducePrecision& p) {
  u64 sign = x & (u64{1} << (from.exponent_bits + from.mantissa_bits));
  u64 infinity = ((u64{1} << from.exponent_bits) - 1) << from.mantissa_bits;
  u64 magnitude = x & (sign - 1 + (sign == 0 ? u64{1} << (from.exponent_bits + from.mantissa_bits) : 0));
  if (magnitude > infinity) return x;  // NaN
  if (p.mantissa_bits < from.mantissa_bits) {
    auto drop = from.mantissa_bits - p.mantissa_bits;
    u64 last = magnitude >> drop & 1;
    magnitude += (u64{1} << (drop - 1)) - 1 + last;
    magnitude = magnitude >> drop << drop;
  }
  if (p.exponent_bits < from.exponent_bits) {
    u64 bias = (u64{1} << (from.exponent_bits - 1)) - 1;
    u64 new_bias = (u64{1} << (p.exponent_bits - 1)) - 1;
    u64 exponent = magnitude >> from.mantissa_bits;
    if (exponent > bias + new_bias) magnitude = infinity;
    if (exponent <= bias - new_bias) magnitude = 0;
  }
  return sign | magnitude;
}
}  // namespace

TESSERA_DEFINE_OP(reduce_precision, ReducePrecision,
                  {
                      .name = "reduce_precision",
                      // Rounding commutes with no sum, but the derivative is taken as if it did.
                      .traits = {.elementwise = true, .exact = true},
                      .infer =
                          [](TypeSpan in, const ReducePrecision& p) {
                            check_count("reduce_precision", in, 1);
                            check_kind("reduce_precision", in, 0, is_float(in[0].dtype), "float");
                            if (p.exponent_bits < 1) {
                              bad_attr("reduce_precision", "exponent_bits", str(p.exponent_bits, "; expected >= 1"));
                            }
                            if (p.mantissa_bits < 0) {
                              bad_attr("reduce_precision", "mantissa_bits", str(p.mantissa_bits, "; expected >= 0"));
                            }
                            return Types{in[0]};
                          },
                      .factors = by_default,
                      .remap = by_default,
                      .batch = by_default,
                      .jvp = linear,
                      .transpose =
                          [](Builder& b, const TransposeArgs& t, const ReducePrecision& p) {
                            return Values{b.add1(def::reduce_precision, {t.ct[0]}, attrs(p))};
                          },
                      .reference =
                          [](ViewSpan in, ViewSpan out, const ReducePrecision& p) {
                            FloatFormat format = format_of(in[0].dtype);
                            for (i64 k = 0, n = out[0].size(); k < n; ++k) {
                              store_bits(out[0], k, reduce_bits(load_bits(in[0], k), format, p));
                            }
                          },
                      .samples =
                          [] {
                            Type x{DType::F32, {4, 6}};
                            return std::vector<Sample<ReducePrecision>>{
                                {{x}, {8, 7}}, {{x}, {5, 10}}, {{x}, {4, 3}}, {{Type{DType::BF16, {5}}}, {5, 2}}};
                          },
                  });

namespace {
Types bitcast_infer(TypeSpan in, const BitcastConvertType& p) {
  const char* name = "bitcast_convert_type";
  check_count(name, in, 1);
  DType from = in[0].dtype;
  auto plain = [](DType t) { return !is_bool(t) && !is_complex(t); };
  if (from != p.dtype && !(plain(from) && plain(p.dtype))) {
    throw TypeError(str("[", name, "] from ", dtype_name(from), " to ", dtype_name(p.dtype),
                        "; expected integers and floats, or the same dtype"));
  }
  Shape shape = in[0].shape;
  auto old_size = dtype_size(from);
  auto new_size = dtype_size(p.dtype);
  if (new_size < old_size) shape.push_back(old_size / new_size);
  if (new_size > old_size) {
    if (shape.empty() || shape.back() * old_size != new_size) {
      bad_operand(name, 0,
                  str("shape ", shape, "; expected a last dimension of ", new_size / old_size, ", the ",
                      dtype_name(from), "s in one ", dtype_name(p.dtype)));
    }
    shape.pop_back();
  }
  return {Type{p.dtype, shape}};
}
}  // namespace

TESSERA_DEFINE_OP(bitcast_convert_type, BitcastConvertType,
                  {
                      .name = "bitcast_convert_type",
                      .traits = {.exact = true, .whole_entry = ir::WholeEntry::Dropped},
                      .infer = bitcast_infer,
                      .factors =
                          [](TypeSpan in, TypeSpan out, const BitcastConvertType&) {
                            Dims map(out[0].shape.size(), -1);
                            for (i64 d = 0; d < std::min(in[0].rank(), out[0].rank()); ++d) map[at(d)] = d;
                            return FactorRule::mapped(in[0], out[0], map, false);
                          },
                      .remap = by_default,
                      .batch =
                          [](Builder& b, const BatchArgs& a, const BitcastConvertType& p) {
                            return Batched{{b.add1(def::bitcast_convert_type, {a.in[0]}, attrs(p))}, {true}};
                          },
                      .jvp =
                          [](Builder&, const JvpArgs& a, const BitcastConvertType& p) {
                            return Values{a.in[0].dtype() == p.dtype ? a.tangents[0] : Value{}};
                          },
                      .transpose = Never{"bits are no numbers"},
                      .reference =
                          [](ViewSpan in, ViewSpan out, const BitcastConvertType&) {
                            auto bytes = out[0].size() * dtype_size(out[0].dtype);
                            if (bytes > 0) std::memcpy(out[0].data, in[0].data, at(bytes));
                          },
                      .samples =
                          [] {
                            return std::vector<Sample<BitcastConvertType>>{{{Type{DType::F32, {4, 6}}}, {DType::I32}},
                                                                           {{Type{DType::I16, {4}}}, {DType::F16}},
                                                                           {{Type{DType::F32, {4, 6}}}, {DType::U8}},
                                                                           {{Type{DType::U8, {6, 4}}}, {DType::I32}},
                                                                           {{Type{DType::U32, {4, 2}}}, {DType::U64}}};
                          },
                  });

Value reduce_precision(Value x, i64 exponent_bits, i64 mantissa_bits) {
  return x.builder->add1(def::reduce_precision, {x}, attrs(ReducePrecision{exponent_bits, mantissa_bits}));
}
Value bitcast_convert_type(Value x, DType dtype) {
  return x.builder->add1(def::bitcast_convert_type, {x}, attrs(BitcastConvertType{dtype}));
}

}  // namespace tessera::ops
