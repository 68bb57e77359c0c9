// SPDX-License-Identifier: Apache-2.0
// The machine code of single operations, which gives the bits of the kernels in engines/cpu/kernels/elementwise.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "engines/cpu/kernels/compiled/assembler.h"
#include "engines/cpu/kernels/elementwise/elementwise_kernels.h"
#include "engines/cpu/kernels/reduce_axes.h"
#include "tessera/dtype.h"

namespace tessera::kernels {

using Operands = std::array<std::int32_t, 3>;
/// Writes an op of operands x, y, z into a register that is its result.
using EmitOp = Assembler::Reg (*)(Assembler& a, const Operands& operands);
/// The same for up to `OpCode::together` vectors, whose operands and results have the same index.
using EmitTogether = void (*)(Assembler& a, std::span<const Operands> operands, std::span<Assembler::Reg> results);

struct OpCode {
  static constexpr int kMostTogether = 8;
  EmitOp emit = nullptr;
  const void* function = nullptr;  // of vectors, to be called
  DType rounded = DType::F32;      // f16 and bf16: of what is emitted
  int weight = 1;                  // instructions, roughly
  EmitTogether emit_together = nullptr;
  int together = 1;  // vectors that the code computes side by side
  explicit operator bool() const { return emit != nullptr || function != nullptr || emit_together != nullptr; }
};

/// The assembler's instruction `name` as a template's argument.
#define TESSERA_INSTRUCTION(name) \
  [](Assembler& a, Assembler::Reg d, Assembler::Reg x, const Xbyak::Operand& y) { a.name(d, x, y); }

/// An op that is one instruction; `kSwap`: of the second operand and the first.
template <auto kInstruction, bool kSwap = false>
Assembler::Reg emit_two(Assembler& a, const Operands& operands) {
  Assembler::Reg x = a.reg(operands[kSwap ? 1 : 0]);
  auto y = a.source(operands[kSwap ? 0 : 1]);
  Assembler::Reg d = a.temporary();
  kInstruction(a, d, x, y);
  return d;
}

inline Assembler::Reg emit_inverse(Assembler& a, Assembler::Reg x) {
  Assembler::Reg d = a.temporary();
  a.ones(d);
  a.vpxor(d, d, x);
  return d;
}
/// Every bit the other way, of bools too: their lanes are 0 or -1.
inline Assembler::Reg emit_not(Assembler& a, const Operands& operands) { return emit_inverse(a, a.reg(operands[0])); }
/// The same of what `kOp` gives.
template <EmitOp kOp>
Assembler::Reg emit_not_of(Assembler& a, const Operands& operands) {
  return emit_inverse(a, kOp(a, operands));
}

/// Empty where the op has none for these dtypes.
OpCode find_code(EwOp op, DType in, DType out);

/// acc = acc `op` x, lane by lane, for a reduction; `acc` is written, `x` is not.
void emit_combine(Assembler& a, ReduceOp op, DType dtype, Assembler::Reg acc, Assembler::Reg x);
/// Rounds f32 lanes to the values that a half dtype has.
void emit_round(Assembler& a, DType half, Assembler::Reg x);

}  // namespace tessera::kernels
