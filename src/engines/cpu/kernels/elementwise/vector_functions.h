// SPDX-License-Identifier: Apache-2.0
// What compiled code shares with the kernels.
#pragma once

#include "engines/cpu/kernels/elementwise/elementwise_kernels.h"

namespace tessera::kernels {

/// Bytes of the vectors that the kernels work with on this machine.
int vector_bytes();

/// The function that the f32 kernel of `op` applies to each vector: it takes one or two and gives one,
/// all in vector registers. Null for ops that have none, and where the kernels' vectors are not such ones.
const void* vector_function(EwOp op);

}  // namespace tessera::kernels
