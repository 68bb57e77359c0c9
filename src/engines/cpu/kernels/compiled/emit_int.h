// SPDX-License-Identifier: Apache-2.0
// The machine code of operations of 32-bit integers.
#pragma once

#include "engines/cpu/kernels/compiled/emit_ops.h"

namespace tessera::kernels {

/// Empty where the function is left to the kernels.
OpCode int_code(EwOp op, bool is_signed);

}  // namespace tessera::kernels
