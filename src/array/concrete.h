// SPDX-License-Identifier: Apache-2.0
// Refusing to read values of traced functions.
#pragma once

#include "tessera/array.h"

namespace tessera::arrays {

/// Throws `ConcretizationError`, or `UnexpectedTracerError` for a value whose trace is over or on another thread.
[[noreturn]] void traced(const Array& a, const char* function, const Loc& loc = {});

}  // namespace tessera::arrays
