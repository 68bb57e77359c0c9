// SPDX-License-Identifier: Apache-2.0
// The machine code of exp and of what is made of it.
#pragma once

#include "engines/cpu/kernels/compiled/emit_ops.h"

namespace tessera::kernels {

/// Of Exp, Tanh and Logistic of f32.
OpCode exponential_code(EwOp op);

}  // namespace tessera::kernels
