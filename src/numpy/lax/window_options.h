// SPDX-License-Identifier: Apache-2.0
// Windows of reductions from their public options.
#pragma once

#include "ops/shared_attrs.h"
#include "tessera/lax.h"

namespace tessera::program {

/// One entry a dimension, defaults filled in, "SAME" turned into numbers. Throws `ValueError` naming what does not fit.
ops::Window window_of(const char* name, const Shape& shape, const Dims& window, const lax::WindowOptions& options);

}  // namespace tessera::program
