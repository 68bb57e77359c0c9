// SPDX-License-Identifier: Apache-2.0
#include "engines/cpu/kernels/compiled/emit_float.h"

#include <limits>

#include "engines/cpu/kernels/compiled/emit_erf.h"
#include "engines/cpu/kernels/compiled/emit_exp.h"

namespace tessera::kernels {

namespace {

using Reg = Assembler::Reg;

// Predicates of vcmpps and roundings of vroundps.
constexpr std::uint8_t kNe = 4, kLe = 18, kGt = 30, kGe = 29, kOrderedNe = 12;
constexpr std::uint8_t kNearest = 8, kDown = 9, kUp = 10, kToZero = 11;

template <std::uint8_t kPredicate>
Reg compare(Assembler& a, const Operands& v) {
  Reg x = a.reg(v[0]);
  auto y = a.source(v[1]);
  Reg d = a.temporary();
  a.vcmpps(d, x, y, kPredicate);
  return d;
}

template <auto kInstruction, std::uint32_t kBits>
Reg with_bits(Assembler& a, const Operands& v) {
  Reg x = a.reg(v[0]);
  Reg d = a.temporary();
  kInstruction(a, d, x, a.constant(kBits));
  return d;
}

template <std::uint8_t kMode>
Reg rounded(Assembler& a, const Operands& v) {
  auto x = a.source(v[0]);
  Reg d = a.temporary();
  a.vroundps(d, x, kMode);
  return d;
}

// trunc(x + copysign(the largest value below a half, x))
Reg round_away(Assembler& a, const Operands& v) {
  Reg x = a.reg(v[0]);
  Reg d = a.temporary();
  a.vandps(d, x, a.constant(kSign));
  a.vorps(d, d, a.constant(0.5F - std::numeric_limits<float>::epsilon() / 4));
  a.vaddps(d, x, d);
  a.vroundps(d, d, kToZero);
  return d;
}

Reg sign(Assembler& a, const Operands& v) {
  Reg x = a.reg(v[0]);
  Reg d = a.temporary();
  auto mask = a.where(x, a.constant(0.0F), kOrderedNe);
  a.vandps(d, x, a.constant(kSign));
  a.vorps(d, d, a.constant(1.0F));
  a.blend(d, x, d, mask);
  return d;
}

Reg square_root(Assembler& a, const Operands& v) {
  auto x = a.source(v[0]);
  Reg d = a.temporary();
  a.vsqrtps(d, x);
  return d;
}
Reg square(Assembler& a, const Operands& v) {
  Reg x = a.reg(v[0]);
  Reg d = a.temporary();
  a.vmulps(d, x, x);
  return d;
}
Reg reciprocal(Assembler& a, const Operands& v) {
  auto x = a.source(v[0]);
  Reg d = a.temporary();
  a.vmovups(d, a.constant(1.0F));
  a.vdivps(d, d, x);
  return d;
}
Reg reciprocal_root(Assembler& a, const Operands& v) {
  Reg root = square_root(a, v);
  Reg d = a.temporary();
  a.vmovups(d, a.constant(1.0F));
  a.vdivps(d, d, root);
  return d;
}

Reg is_finite(Assembler& a, const Operands& v) {
  Reg x = a.reg(v[0]);
  Reg d = a.temporary();
  a.vandps(d, x, a.constant(kMagnitude));
  a.vcmpps(d, d, a.constant(std::numeric_limits<float>::max()), kLe);
  return d;
}

Reg multiply_add(Assembler& a, const Operands& v) {
  Reg x = a.reg(v[0]);
  Reg y = a.reg(v[1]);
  auto z = a.source(v[2]);
  Reg d = a.temporary();
  a.vmovaps(d, x);
  a.vfmadd213ps(d, y, z);
  return d;
}

// d = the larger or smaller of x and y; where either is NaN, their sum.
void extremum_into(Assembler& a, bool largest, Reg d, Reg x, Reg y) {
  Reg number = a.temporary();
  emit_extremum_of_numbers(a, largest, number, x, y);
  auto nan = a.where(x, y, kUnordered);
  a.vaddps(d, x, y);
  a.blend(d, number, d, nan);
  a.drop(number);
  a.drop(nan);
}

template <bool kLargest>
Reg extremum(Assembler& a, const Operands& v) {
  Reg x = a.reg(v[0]);
  Reg y = a.reg(v[1]);
  Reg d = a.temporary();
  extremum_into(a, kLargest, d, x, y);
  return d;
}

Reg clamp(Assembler& a, const Operands& v) {
  Reg low = a.reg(v[0]);
  Reg x = a.reg(v[1]);
  Reg d = a.temporary();
  extremum_into(a, true, d, low, x);
  extremum_into(a, false, d, d, a.reg(v[2]));
  return d;
}

// What compares f32 values, or asks whether they are finite.
OpCode question(EwOp op) {
  switch (op) {
    case EwOp::Eq:
      return {compare<kEq>};
    case EwOp::Ne:
      return {compare<kNe>};
    case EwOp::Lt:
      return {compare<kLt>};
    case EwOp::Le:
      return {compare<kLe>};
    case EwOp::Gt:
      return {compare<kGt>};
    case EwOp::Ge:
      return {compare<kGe>};
    case EwOp::IsFinite:
      return {is_finite, nullptr, DType::F32, 2};
    default:
      return {};
  }
}
}  // namespace

Reg emit_float_to_int(Assembler& a, const Operands& v) {
  Reg x = a.reg(v[0]);
  Reg d = a.temporary();
  Reg mask = a.temporary();
  // Too small gives the smallest already; too large the largest, NaN 0.
  a.vcvttps2dq(d, x);
  a.vcmpps(mask, x, a.constant(2147483648.0F), kGe);
  a.vpxor(d, d, mask);
  a.vcmpps(mask, x, x, kUnordered);
  a.vpandn(d, mask, d);
  return d;
}

Reg emit_is_nonzero(Assembler& a, const Operands& v) {
  auto x = a.source(v[0]);
  Reg d = a.temporary();
  a.vxorps(d, d, d);
  a.vcmpps(d, d, x, kNe);
  return d;
}

void emit_extremum_of_numbers(Assembler& a, bool largest, Reg d, Reg x, Reg y) {
  constexpr std::uint8_t kLargest = 0b0101, kSmallest = 0b0100;
  if (a.wide()) return a.vrangeps(d, x, y, largest ? kLargest : kSmallest);
  Reg other = a.temporary();
  if (largest) {
    a.vmaxps(d, x, y);
    a.vmaxps(other, y, x);
    a.vandps(d, d, other);
  } else {
    a.vminps(d, x, y);
    a.vminps(other, y, x);
    a.vorps(d, d, other);
  }
  a.drop(other);
}

void emit_extremum(Assembler& a, bool largest, Reg acc, Reg x) { extremum_into(a, largest, acc, acc, x); }

OpCode float_code(EwOp op, bool to_bool) {
  if (to_bool) return question(op);
  switch (op) {
    case EwOp::Neg:
      return {with_bits<TESSERA_INSTRUCTION(vxorps), kSign>};
    case EwOp::Abs:
      return {with_bits<TESSERA_INSTRUCTION(vandps), kMagnitude>};
    case EwOp::Sign:
      return {sign, nullptr, DType::F32, 5};
    case EwOp::Floor:
      return {rounded<kDown>};
    case EwOp::Ceil:
      return {rounded<kUp>};
    case EwOp::RoundAfz:
      return {round_away, nullptr, DType::F32, 4};
    case EwOp::RoundEven:
      return {rounded<kNearest>};
    case EwOp::Exp:
    case EwOp::Tanh:
    case EwOp::Logistic:
      return exponential_code(op);
    case EwOp::Erf:
    case EwOp::Erfc:
      return error_function_code(op);
    case EwOp::Sqrt:
      return {square_root};
    case EwOp::Rsqrt:
      return {reciprocal_root, nullptr, DType::F32, 3};
    case EwOp::Square:
      return {square};
    case EwOp::Reciprocal:
      return {reciprocal, nullptr, DType::F32, 2};
    case EwOp::Add:
      return {emit_two<TESSERA_INSTRUCTION(vaddps)>};
    case EwOp::Sub:
      return {emit_two<TESSERA_INSTRUCTION(vsubps)>};
    case EwOp::Mul:
      return {emit_two<TESSERA_INSTRUCTION(vmulps)>};
    case EwOp::Div:
      return {emit_two<TESSERA_INSTRUCTION(vdivps)>};
    case EwOp::Max:
      return {extremum<true>, nullptr, DType::F32, 6};
    case EwOp::Min:
      return {extremum<false>, nullptr, DType::F32, 6};
    case EwOp::Clamp:
      return {clamp, nullptr, DType::F32, 12};
    case EwOp::MulAdd:
      return {multiply_add, nullptr, DType::F32, 2};
    default:
      return {};
  }
}

}  // namespace tessera::kernels
