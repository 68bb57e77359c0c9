// SPDX-License-Identifier: Apache-2.0
// Element-wise ops as kernels know them.
#pragma once

#include <array>
#include <cstddef>
#include <optional>

#include "engines/cpu/kernels/elementwise.h"
#include "ir/op_def.h"

namespace tessera::cpu {

struct EwCall {
  kernels::EwOp op;
  kernels::EwFn fn = nullptr;
  std::array<std::size_t, 3> order{0, 1, 2};  ///< operand of the op that is the kernel's operand i
};
/// The kernel of an element-wise equation, or nothing where there is none for these types.
std::optional<EwCall> ew_call(const ir::OpDef& op, ir::TypeSpan in, ir::TypeSpan out);

}  // namespace tessera::cpu
