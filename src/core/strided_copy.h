// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "tessera/shape.h"

namespace tessera::core {

/// Byte strides of a contiguous row-major array.
Dims contiguous_strides(const Shape& shape, std::int64_t item_size);

/// Copies `shape` elements of `item_size` bytes between two strided blocks. Strides count bytes and may be zero
/// (source) or negative; the blocks must not overlap. `stream` says that they are part of a result that is larger than
/// the caches: long rows are stored around them.
void copy_strided(void* dst, std::span<const std::int64_t> dst_strides, const void* src,
                  std::span<const std::int64_t> src_strides, std::span<const std::int64_t> shape,
                  std::int64_t item_size, bool stream = false);

}  // namespace tessera::core
