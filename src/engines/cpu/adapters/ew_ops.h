// SPDX-License-Identifier: Apache-2.0
// Element-wise ops as kernels know them.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <optional>

#include "engines/cpu/kernels/elementwise/elementwise_kernels.h"
#include "engines/cpu/kernels/elementwise/fused.h"
#include "ir/op_def.h"

namespace tessera::cpu {

struct EwCall {
  kernels::EwOp op;
  kernels::EwFn fn = nullptr;
  std::array<std::size_t, 3> order{0, 1, 2};  ///< operand of the op that is the kernel's operand i
};
/// The kernel of an element-wise equation, or nothing where there is none for these types.
std::optional<EwCall> ew_call(const ir::OpDef& op, const ir::Attrs& attrs, ir::TypeSpan in, ir::TypeSpan out);

/// True for equations that `write_ew` can write: those with a kernel, and integer powers.
bool writes_ew(const ir::OpDef& op, const ir::Attrs& attrs, ir::TypeSpan in, ir::TypeSpan out);
/// Appends the equation to a fused program; `operand(i)` gives its operands there.
kernels::FusedProgram::Value write_ew(kernels::FusedProgram& program, const ir::OpDef& op, const ir::Attrs& attrs,
                                      ir::TypeSpan in, ir::TypeSpan out,
                                      const std::function<kernels::FusedProgram::Value(std::size_t)>& operand);

}  // namespace tessera::cpu
