// SPDX-License-Identifier: Apache-2.0
// The machine code of functions of f32.
#pragma once

#include <array>
#include <cstdint>

#include "engines/cpu/kernels/compiled/emit_ops.h"

namespace tessera::kernels {

inline constexpr std::uint8_t kEq = 0, kUnordered = 3, kLt = 17;  // of vcmpps
inline constexpr std::uint32_t kSign = 0x80000000U, kMagnitude = 0x7FFFFFFFU;

/// Empty where the function is called, or left to the kernels.
OpCode float_code(EwOp op, bool to_bool);

Assembler::Reg emit_float_to_int(Assembler& a, const Operands& operands);
Assembler::Reg emit_is_nonzero(Assembler& a, const Operands& operands);
/// d = the larger or smaller of x and y, zeros ordered by their signs. Of NaN and a number in AVX-512 the number,
/// before anything.
void emit_extremum_of_numbers(Assembler& a, bool largest, Assembler::Reg d, Assembler::Reg x, Assembler::Reg y);
/// acc = the larger or smaller of acc and x: NaN wins; zeros are ordered by their signs.
void emit_extremum(Assembler& a, bool largest, Assembler::Reg acc, Assembler::Reg x);

}  // namespace tessera::kernels
