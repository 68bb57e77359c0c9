// SPDX-License-Identifier: Apache-2.0
// Machines that are not x86-64: nothing is compiled, and blocks run kernel by kernel.
#ifndef __x86_64__
#include "engines/cpu/kernels/compiled/fragment.h"

namespace tessera::kernels {

bool can_compile() { return false; }
bool compiles(EwOp, DType, DType) { return false; }
bool compiles(ReduceOp, DType) { return false; }
bool calls_kernel(EwOp, DType, DType) { return false; }
bool writes_together(EwOp, DType, DType) { return false; }
bool compiles(DType) { return false; }
std::shared_ptr<const Code> compile(const Fragment&) { return nullptr; }

}  // namespace tessera::kernels
#endif
