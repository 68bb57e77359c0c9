// SPDX-License-Identifier: Apache-2.0
// Elements of operands that fused blocks read through windows.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engines/cpu/kernels/elementwise/fused.h"

namespace tessera::kernels {

struct WindowOperand {
  const std::byte* elements;
  const std::byte* fill;   // the value of what it lacks, or
  const std::byte* edges;  // all of that
  std::int64_t size;       // bytes of an element
};

/// `count` elements of the space from element `first` on: where they are in the operand or, if they do not follow each
/// other there, copied to `buffer`.
const std::byte* under_window(const Window& w, const WindowOperand& o, std::int64_t first, std::int64_t count,
                              std::byte* buffer);

}  // namespace tessera::kernels
