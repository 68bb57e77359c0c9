// SPDX-License-Identifier: Apache-2.0
#include "engines/cpu/kernels/compiled/emit_float.h"

#include <limits>

namespace tessera::kernels {

namespace {

using Reg = Assembler::Reg;
using Operands = std::array<std::int32_t, 3>;

// Predicates of vcmpps and roundings of vroundps.
constexpr std::uint8_t kEq = 0, kNe = 4, kLt = 17, kLe = 18, kGt = 30, kGe = 29, kOrderedNe = 12;
constexpr std::uint8_t kNearest = 8, kDown = 9, kUp = 10, kToZero = 11;
constexpr std::uint32_t kSign = 0x80000000U, kMagnitude = 0x7FFFFFFFU;

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

// --- exp and tanh: the polynomial of ew_float-inl.h, step by step.

constexpr float kRound = 12582912.0F;  // 1.5 * 2^23: adding it rounds to an integer
constexpr std::uint32_t kRoundBits = 0x4B400000U;

// p = exp(r) - 1 and shifted = n + kRound with x = n log 2 + r; x is written over.
void exp_parts(Assembler& a, Reg x, Reg p, Reg shifted) {
  Reg n = a.temporary();
  a.vmovups(shifted, a.constant(kRound));
  a.vmovups(p, a.constant(1.44269504088896341F));
  a.vfmadd231ps(shifted, x, p);
  a.vsubps(n, shifted, a.constant(kRound));
  a.vfmadd231ps(x, n, a.constant(-0.693359375F));
  a.vfmadd231ps(x, n, a.constant(2.12194440e-4F));
  a.vmovups(p, a.constant(1.9875691500e-4F));
  for (float c : {1.3981999507e-3F, 8.3334519073e-3F, 4.1665795894e-2F, 1.6666665459e-1F, 5.0000001201e-1F}) {
    a.vfmadd213ps(p, x, a.constant(c));
  }
  a.vmulps(n, x, x);
  a.vfmadd213ps(p, n, x);
  a.drop(n);
}

// x = exp(x)
void exp_of(Assembler& a, Reg x) {
  Reg p = a.temporary();
  Reg shifted = a.temporary();
  // The second operand where either is NaN.
  a.vmovups(p, a.constant(-104.0F));
  a.vmaxps(x, p, x);
  a.vmovups(p, a.constant(89.0F));
  a.vminps(x, p, x);
  exp_parts(a, x, p, shifted);
  a.vaddps(p, p, a.constant(1.0F));
  if (a.wide()) {
    a.vsubps(shifted, shifted, a.constant(kRound));
    a.vscalefps(x, p, shifted);
    a.drop(p);
    a.drop(shifted);
    return;
  }
  a.vpsubd(shifted, shifted, a.constant(kRoundBits));
  a.vpsrad(x, shifted, 1);
  a.vpsubd(shifted, shifted, x);
  a.vpaddd(x, x, a.constant(127U));
  a.vpslld(x, x, 23);
  a.vmulps(p, p, x);
  a.vpaddd(shifted, shifted, a.constant(127U));
  a.vpslld(shifted, shifted, 23);
  a.vmulps(x, p, shifted);
  a.drop(p);
  a.drop(shifted);
}

Reg copied(Assembler& a, std::int32_t v) {
  auto x = a.source(v);
  Reg d = a.temporary();
  a.vmovups(d, x);
  return d;
}

Reg exponential(Assembler& a, const Operands& v) {
  Reg d = copied(a, v[0]);
  exp_of(a, d);
  return d;
}

// e = exp(-|x|), for NaN of its bits; (x < 0 ? e : 1) / (1 + e)
Reg logistic(Assembler& a, const Operands& v) {
  Reg x = a.reg(v[0]);
  Reg e = a.temporary();
  auto below = a.where(x, a.constant(0.0F), kLt);
  a.vxorps(e, x, a.constant(kSign));
  a.blend(e, e, x, below);
  exp_of(a, e);
  Reg top = a.temporary();
  Reg one = a.temporary();
  a.vmovups(one, a.constant(1.0F));
  a.vxorps(top, top, top);
  a.vfmadd213ps(top, e, one);
  a.blend(top, top, e, below);
  a.vaddps(e, one, e);
  a.vdivps(e, top, e);
  return e;
}

Reg hyperbolic_tangent(Assembler& a, const Operands& v) {
  Reg x = a.reg(v[0]);
  Reg far = a.temporary();
  Reg p = a.temporary();
  Reg shifted = a.temporary();
  a.vandps(far, x, a.constant(kMagnitude));
  a.vmovups(p, a.constant(10.0F));
  a.vminps(far, p, far);
  a.vaddps(far, far, far);
  exp_parts(a, far, p, shifted);
  a.vpslld(shifted, shifted, 23);
  a.vpaddd(shifted, shifted, a.constant(0x3F800000U));
  a.vsubps(far, shifted, a.constant(1.0F));
  a.vfmadd213ps(p, shifted, far);  // t
  a.vaddps(far, p, a.constant(2.0F));
  a.vdivps(p, p, far);
  a.vandps(shifted, x, a.constant(kSign));
  a.vorps(p, p, shifted);
  return p;
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
      return {exponential, nullptr, DType::F32, 30};
    case EwOp::Tanh:
      return {hyperbolic_tangent, nullptr, DType::F32, 28};
    case EwOp::Logistic:
      return {logistic, nullptr, DType::F32, 36};
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
