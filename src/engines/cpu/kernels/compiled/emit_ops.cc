// SPDX-License-Identifier: Apache-2.0
#include "engines/cpu/kernels/compiled/emit_ops.h"

#include <array>
#include <limits>

#include "engines/cpu/kernels/compiled/emit_float.h"
#include "engines/cpu/kernels/compiled/emit_int.h"
#include "engines/cpu/kernels/compiled/fragment.h"
#include "engines/cpu/kernels/elementwise/vector_functions.h"

namespace tessera::kernels {

namespace {

using Reg = Assembler::Reg;

Reg select(Assembler& a, const Operands& v) {
  Reg p = a.reg(v[0]);
  Reg otherwise = a.reg(v[2]);
  auto chosen = a.source(v[1]);
  Reg d = a.temporary();
  a.vblendvps(d, otherwise, chosen, p);
  return d;
}

// Lanes of bools are 0 or -1.
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
      return {emit_not_of<kXor>};
    case EwOp::Not:
      return {emit_not};
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
  if (from_int && out == DType::Bool) return {emit_not_of<int_is_zero>};
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
