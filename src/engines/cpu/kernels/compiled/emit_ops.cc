// SPDX-License-Identifier: Apache-2.0
#include "engines/cpu/kernels/compiled/emit_ops.h"

#include <array>
#include <limits>

#include "engines/cpu/kernels/compiled/emit_float.h"
#include "engines/cpu/kernels/compiled/fragment.h"
#include "engines/cpu/kernels/elementwise/vector_functions.h"

namespace tessera::kernels {

namespace {

using Reg = Assembler::Reg;

// --- bools: lanes are 0 or -1.

Reg invert(Assembler& a, Reg x) {
  Reg d = a.temporary();
  a.ones(d);
  a.vpxor(d, d, x);
  return d;
}
Reg bool_not(Assembler& a, const Operands& v) { return invert(a, a.reg(v[0])); }

template <EmitOp kOp>
Reg not_of(Assembler& a, const Operands& v) {
  return invert(a, kOp(a, v));
}

Reg select(Assembler& a, const Operands& v) {
  Reg p = a.reg(v[0]);
  Reg otherwise = a.reg(v[2]);
  auto chosen = a.source(v[1]);
  Reg d = a.temporary();
  a.vblendvps(d, otherwise, chosen, p);
  return d;
}

// --- 32-bit integers.

Reg int_neg(Assembler& a, const Operands& v) {
  auto x = a.source(v[0]);
  Reg d = a.temporary();
  a.vpxor(d, d, d);
  a.vpsubd(d, d, x);
  return d;
}
Reg int_abs(Assembler& a, const Operands& v) {
  auto x = a.source(v[0]);
  Reg d = a.temporary();
  a.vpabsd(d, x);
  return d;
}
Reg int_sign(Assembler& a, const Operands& v) {
  Reg x = a.reg(v[0]);
  Reg d = a.temporary();
  a.vpmaxsd(d, x, a.constant(0xFFFFFFFFU));
  a.vpminsd(d, d, a.constant(1U));
  return d;
}
Reg int_square(Assembler& a, const Operands& v) {
  Reg x = a.reg(v[0]);
  Reg d = a.temporary();
  a.vpmulld(d, x, x);
  return d;
}
// Halves of a vector as f64: the bits of 2^52 + x, of which an odd number of 32 bits is the upper half. Signed x are
// taken without sign, 2^31 higher.
constexpr std::uint32_t kTwo52 = 0x43300000U, kThreeTwo51 = 0x43380000U;  // upper halves of 2^52 and 1.5 * 2^52
template <bool kSigned>
std::array<Reg, 2> int_to_doubles(Assembler& a, Reg x) {
  Reg low = a.temporary(), high = a.temporary(), base = a.temporary();
  if (kSigned) {
    a.vpxor(high, x, a.constant(kSign));
  } else {
    a.vmovaps(high, x);
  }
  a.vmovaps(base, a.constant(kSigned ? kSign : 0U));
  a.vpunpckldq(base, base, a.constant(kTwo52));
  a.vpunpckldq(low, high, a.constant(kTwo52));
  a.vpunpckhdq(high, high, a.constant(kTwo52));
  a.vsubpd(low, low, base);
  a.vsubpd(high, high, base);
  a.drop(base);
  return {low, high};
}
// As the kernels': in f64, which has twice the bits. Where the divisor is 0 the result is -1; of the smallest integer
// and -1 the lower half of 2^31 is the smallest integer again.
template <bool kSigned>
Reg int_quotient(Assembler& a, const Operands& v) {
  constexpr std::uint8_t kTruncate = 3;
  Reg y = a.reg(v[1]);
  auto divisors = int_to_doubles<kSigned>(a, y);
  auto quotients = int_to_doubles<kSigned>(a, a.reg(v[0]));
  Reg base = a.temporary();
  a.vpxor(base, base, base);
  a.vpunpckldq(base, base, a.constant(kSigned ? kThreeTwo51 : kTwo52));
  for (std::size_t half = 0; half < 2; ++half) {
    a.vdivpd(quotients[half], quotients[half], divisors[half]);
    a.vroundpd(quotients[half], quotients[half], kTruncate);
    a.vaddpd(quotients[half], quotients[half], base);
    a.drop(divisors[half]);
  }
  constexpr std::uint8_t kEven = 0b10001000;
  a.vshufps(quotients[0], quotients[0], quotients[1], kEven);
  a.vpxor(base, base, base);
  a.vpcmpeqd(base, base, y);
  a.vpor(quotients[0], quotients[0], base);
  return quotients[0];
}
template <auto kMin, auto kMax>
Reg int_clamp(Assembler& a, const Operands& v) {
  Reg d = a.temporary();
  Reg low = a.reg(v[0]);
  kMax(a, d, low, a.source(v[1]));
  kMin(a, d, d, a.source(v[2]));
  return d;
}
// Where the smaller, or the larger, of the two is the first.
template <auto kExtremum>
Reg first_is(Assembler& a, const Operands& v) {
  Reg x = a.reg(v[0]);
  auto y = a.source(v[1]);
  Reg d = a.temporary();
  kExtremum(a, d, x, y);
  a.vpcmpeqd(d, d, x);
  return d;
}

OpCode int_code(EwOp op, bool is_signed) {
  constexpr auto kGreater = emit_two<TESSERA_INSTRUCTION(vpcmpgtd)>;
  constexpr auto kLess = emit_two<TESSERA_INSTRUCTION(vpcmpgtd), true>;
  constexpr auto kEqual = emit_two<TESSERA_INSTRUCTION(vpcmpeqd)>;
  constexpr auto kAtMost = first_is<TESSERA_INSTRUCTION(vpminud)>;
  constexpr auto kAtLeast = first_is<TESSERA_INSTRUCTION(vpmaxud)>;
  switch (op) {
    case EwOp::Neg:
      return {int_neg};
    case EwOp::Abs:
      return {is_signed ? int_abs : nullptr};
    case EwOp::Sign:
      return {is_signed ? int_sign : nullptr};
    case EwOp::Square:
      return {int_square};
    case EwOp::Not:
      return {bool_not};
    case EwOp::Add:
      return {emit_two<TESSERA_INSTRUCTION(vpaddd)>};
    case EwOp::Sub:
      return {emit_two<TESSERA_INSTRUCTION(vpsubd)>};
    case EwOp::Mul:
      return {emit_two<TESSERA_INSTRUCTION(vpmulld)>};
    case EwOp::Div:
      return {is_signed ? int_quotient<true> : int_quotient<false>, nullptr, DType::F32, 30};
    case EwOp::Max:
      return {is_signed ? emit_two<TESSERA_INSTRUCTION(vpmaxsd)> : emit_two<TESSERA_INSTRUCTION(vpmaxud)>};
    case EwOp::Min:
      return {is_signed ? emit_two<TESSERA_INSTRUCTION(vpminsd)> : emit_two<TESSERA_INSTRUCTION(vpminud)>};
    case EwOp::Clamp:
      return {is_signed ? int_clamp<TESSERA_INSTRUCTION(vpminsd), TESSERA_INSTRUCTION(vpmaxsd)>
                        : int_clamp<TESSERA_INSTRUCTION(vpminud), TESSERA_INSTRUCTION(vpmaxud)>};
    case EwOp::And:
      return {emit_two<TESSERA_INSTRUCTION(vpand)>};
    case EwOp::Or:
      return {emit_two<TESSERA_INSTRUCTION(vpor)>};
    case EwOp::Xor:
      return {emit_two<TESSERA_INSTRUCTION(vpxor)>};
    case EwOp::Shl:
      return {emit_two<TESSERA_INSTRUCTION(vpsllvd)>};
    case EwOp::ShrLogical:
      return {emit_two<TESSERA_INSTRUCTION(vpsrlvd)>};
    case EwOp::ShrArith:
      return {emit_two<TESSERA_INSTRUCTION(vpsravd)>};
    case EwOp::Eq:
      return {kEqual};
    case EwOp::Ne:
      return {not_of<kEqual>};
    case EwOp::Lt:
      return {is_signed ? kLess : not_of<kAtLeast>};
    case EwOp::Le:
      return {is_signed ? not_of<kGreater> : kAtMost};
    case EwOp::Gt:
      return {is_signed ? kGreater : not_of<kAtMost>};
    case EwOp::Ge:
      return {is_signed ? not_of<kLess> : kAtLeast};
    default:
      return {};
  }
}

OpCode bool_code(EwOp op) {
  constexpr auto kXor = emit_two<TESSERA_INSTRUCTION(vpxor)>;
  switch (op) {
    case EwOp::And:
    case EwOp::Min:
    case EwOp::Mul:
      return {emit_two<TESSERA_INSTRUCTION(vpand)>};
    case EwOp::Or:
    case EwOp::Max:
    case EwOp::Add:
      return {emit_two<TESSERA_INSTRUCTION(vpor)>};
    case EwOp::Xor:
    case EwOp::Ne:
      return {kXor};
    case EwOp::Eq:
      return {not_of<kXor>};
    case EwOp::Not:
      return {bool_not};
    default:
      return {};
  }
}

// --- conversions.

Reg same(Assembler& a, const Operands& v) {
  auto x = a.source(v[0]);
  Reg d = a.temporary();
  a.vmovups(d, x);
  return d;
}
Reg bool_to_float(Assembler& a, const Operands& v) {
  Reg x = a.reg(v[0]);
  Reg d = a.temporary();
  a.vandps(d, x, a.constant(1.0F));
  return d;
}
Reg bool_to_int(Assembler& a, const Operands& v) {
  Reg x = a.reg(v[0]);
  Reg d = a.temporary();
  a.vpsrld(d, x, 31);
  return d;
}
Reg int_to_float(Assembler& a, const Operands& v) {
  auto x = a.source(v[0]);
  Reg d = a.temporary();
  a.vcvtdq2ps(d, x);
  return d;
}
Reg int_is_zero(Assembler& a, const Operands& v) {
  auto x = a.source(v[0]);
  Reg d = a.temporary();
  a.vpxor(d, d, d);
  a.vpcmpeqd(d, d, x);
  return d;
}

OpCode convert_code(DType in, DType out) {
  bool from_float = in == DType::F32 || in == DType::BF16 || in == DType::F16;
  bool to_float = out == DType::F32 || out == DType::BF16 || out == DType::F16;
  bool from_int = in == DType::I32 || in == DType::U32;
  bool to_int = out == DType::I32 || out == DType::U32;
  if (in == out) return {same};
  if (in == DType::F32 && to_float) return {same, nullptr, out, 4};
  if (from_float && out == DType::F32) return {same};
  if (in == DType::Bool && to_float) return {bool_to_float};
  if (in == DType::Bool && to_int) return {bool_to_int};
  if (in == DType::I32 && to_float) return {int_to_float, nullptr, out, 4};
  if (from_float && out == DType::I32) return {emit_float_to_int};
  if (from_float && out == DType::Bool) return {emit_is_nonzero};
  if (from_int && out == DType::Bool) return {not_of<int_is_zero>};
  if (from_int && to_int) return {same};
  return {};
}

}  // namespace

OpCode find_code(EwOp op, DType in, DType out) {
  if (!compiles(in) || !compiles(out) || ew_find(op, in, out) == nullptr) return {};
  if (op == EwOp::Convert) return convert_code(in, out);
  if (op == EwOp::Select) return {select};
  if (in == DType::Bool) return bool_code(op);
  if (in == DType::I32 || in == DType::U32) return int_code(op, in == DType::I32);
  if (in != DType::F32 && op == EwOp::Nextafter) return {};
  OpCode code = float_code(op, out == DType::Bool);
  if (!code && out == in) code = {nullptr, vector_function(op), DType::F32, 40};
  if (code && out != DType::Bool) code.rounded = out;
  return code;
}

void emit_round(Assembler& a, DType half, Reg x) {
  if (half == DType::F16) {
    a.vcvtps2ph(a.half(x), x, 0);
    a.vcvtph2ps(x, a.half(x));
    return;
  }
  // To nearest, ties to even, in the upper half; NaN keeps its upper bits and becomes quiet.
  Reg rounded = a.temporary();
  auto nan = a.where(x, x, kUnordered);
  a.vpsrld(rounded, x, 16);
  a.vpand(rounded, rounded, a.constant(1U));
  a.vpaddd(rounded, rounded, a.constant(0x7FFFU));
  a.vpaddd(rounded, rounded, x);
  a.vpor(x, x, a.constant(0x400000U));
  a.blend(x, rounded, x, nan);
  a.vpand(x, x, a.constant(0xFFFF0000U));
  a.drop(rounded);
  a.drop(nan);
}

void emit_combine(Assembler& a, ReduceOp op, DType dtype, Reg acc, Reg x) {
  bool floats = dtype == DType::F32;
  switch (op) {
    case ReduceOp::Sum:
      return floats ? a.vaddps(acc, acc, x) : a.vpaddd(acc, acc, x);
    case ReduceOp::Prod:
      return floats ? a.vmulps(acc, acc, x) : a.vpmulld(acc, acc, x);
    default:
      break;
  }
  bool largest = op == ReduceOp::Max;
  if (floats) return emit_extremum(a, largest, acc, x);
  if (dtype == DType::I32) return largest ? a.vpmaxsd(acc, acc, x) : a.vpminsd(acc, acc, x);
  return largest ? a.vpmaxud(acc, acc, x) : a.vpminud(acc, acc, x);
}

bool compiles(DType dtype) {
  switch (dtype) {
    case DType::F32:
    case DType::F16:
    case DType::BF16:
    case DType::I32:
    case DType::U32:
    case DType::Bool:
      return true;
    default:
      return false;
  }
}

bool compiles(EwOp op, DType in, DType out) { return static_cast<bool>(find_code(op, in, out)); }

bool calls_kernel(EwOp op, DType in, DType out) { return find_code(op, in, out).function != nullptr; }

bool writes_together(EwOp op, DType in, DType out) { return find_code(op, in, out).emit_together != nullptr; }

bool compiles(ReduceOp op, DType dtype) {
  bool known = dtype == DType::F32 || dtype == DType::I32 || dtype == DType::U32;
  return known && op != ReduceOp::And && op != ReduceOp::Or;
}

}  // namespace tessera::kernels
