// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engines/cpu/kernels/products/conv_loops.h"

namespace tessera::kernels {

/// Through oneDNN, if it has a fast way for `spec`; false and nothing done otherwise.
bool conv_dnnl(const ConvSpec& spec, const void* lhs, const void* rhs, void* out);

}  // namespace tessera::kernels
