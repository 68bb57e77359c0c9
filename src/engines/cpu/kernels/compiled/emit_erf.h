// SPDX-License-Identifier: Apache-2.0
// The machine code of the error function and of what it lacks of one.
#pragma once

#include "engines/cpu/kernels/compiled/emit_ops.h"

namespace tessera::kernels {

/// Of Erf and Erfc of f32.
OpCode error_function_code(EwOp op);

}  // namespace tessera::kernels
