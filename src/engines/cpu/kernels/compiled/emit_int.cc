// SPDX-License-Identifier: Apache-2.0
#include "engines/cpu/kernels/compiled/emit_int.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <optional>
#include <type_traits>

#include "engines/cpu/kernels/compiled/emit_float.h"

namespace tessera::kernels {

namespace {

using Reg = Assembler::Reg;

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
// The upper halves of the products with m, in 64 bits.
template <bool kSigned>
Reg multiply_high(Assembler& a, Reg x, std::uint32_t m) {
  constexpr std::uint8_t kOdd = 0b11011101, kInTurn = 0b11011000;
  auto by = a.constant(m);
  Reg even = a.temporary(), odd = a.temporary();
  a.vpsrlq(odd, x, 32);
  if (kSigned) {
    a.vpmuldq(even, x, by);
    a.vpmuldq(odd, odd, by);
  } else {
    a.vpmuludq(even, x, by);
    a.vpmuludq(odd, odd, by);
  }
  a.vshufps(even, even, odd, kOdd);
  a.vpshufd(even, even, kInTurn);
  a.drop(odd);
  return even;
}

// Quotients by a divisor that is known, as products: T. Granlund and P. L. Montgomery, "Division by invariant integers
// using multiplication" (1994), figures 4.1 and 5.1.
Reg quotient_by(Assembler& a, Reg x, std::uint32_t divisor) {
  Reg d = a.temporary();
  if (divisor == 1) {
    a.vmovaps(d, x);
    return d;
  }
  const int bits = std::bit_width(divisor - 1);  // of 2^bits, the least power that is no smaller
  const auto m = static_cast<std::uint32_t>((((std::uint64_t{1} << bits) - divisor) << 32) / divisor + 1);
  Reg high = multiply_high<false>(a, x, m);
  a.vpsubd(d, x, high);
  a.vpsrld(d, d, 1);
  a.vpaddd(d, d, high);
  if (bits > 1) a.vpsrld(d, d, static_cast<std::uint8_t>(bits - 1));
  a.drop(high);
  return d;
}
Reg quotient_by(Assembler& a, Reg x, std::int32_t divisor) {
  const auto magnitude = divisor < 0 ? 0U - static_cast<std::uint32_t>(divisor) : static_cast<std::uint32_t>(divisor);
  const int bits = std::max<int>(std::bit_width(magnitude - 1), 1);
  const auto m = static_cast<std::uint32_t>((std::uint64_t{1} << (31 + bits)) / magnitude + 1);  // less 2^32
  Reg d = multiply_high<true>(a, x, m);
  Reg sign = a.temporary();
  a.vpsrad(sign, x, 31);
  a.vpaddd(d, d, x);
  if (bits > 1) a.vpsrad(d, d, static_cast<std::uint8_t>(bits - 1));
  divisor < 0 ? a.vpsubd(d, sign, d) : a.vpsubd(d, d, sign);
  a.drop(sign);
  return d;
}

// As the kernels': in f64, which has twice the bits. Where the divisor is 0 the result is -1; of the smallest integer
// and -1 the lower half of 2^31 is the smallest integer again.
template <bool kSigned>
Reg int_quotient(Assembler& a, const Operands& v) {
  constexpr std::uint8_t kTruncate = 3;
  if (const auto divisor = a.known(v[1]); divisor.value_or(0) != 0) {
    return quotient_by(a, a.reg(v[0]), static_cast<std::conditional_t<kSigned, std::int32_t, std::uint32_t>>(*divisor));
  }
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

}  // namespace

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
      return {emit_not};
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
      return {emit_not_of<kEqual>};
    case EwOp::Lt:
      return {is_signed ? kLess : emit_not_of<kAtLeast>};
    case EwOp::Le:
      return {is_signed ? emit_not_of<kGreater> : kAtMost};
    case EwOp::Gt:
      return {is_signed ? kGreater : emit_not_of<kAtMost>};
    case EwOp::Ge:
      return {is_signed ? emit_not_of<kLess> : kAtLeast};
    default:
      return {};
  }
}

}  // namespace tessera::kernels
