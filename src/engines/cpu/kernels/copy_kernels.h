// SPDX-License-Identifier: Apache-2.0
// Moving bytes: strided copies, transposes, fills. All split large work over the thread pool.
#pragma once

#include <cstdint>
#include <span>

namespace tessera::kernels {

/// Copies `bytes` bytes between buffers that do not overlap. Large copies bypass the caches on the store side; `stream`
/// says that this one is part of such a copy.
void copy_bytes(void* dst, const void* src, std::int64_t bytes, bool stream = false);

/// Copies on the calling thread, with stores that go around the caches: for results larger than them.
void copy_streaming(void* dst, const void* src, std::int64_t bytes);

/// `dst[i] = src[i]` for every index `i` of `shape`, elements of `itemsize` bytes, strides in bytes. Strides may be
/// negative, and zero in `src` (a broadcast). Elements of `dst` must not overlap each other or `src`. `dst` and `src`
/// point at the element of index (0, ..., 0). `stream` as above.
void copy_strided(void* dst, std::span<const std::int64_t> dst_strides_bytes, const void* src,
                  std::span<const std::int64_t> src_strides_bytes, std::span<const std::int64_t> shape,
                  std::int64_t itemsize, bool stream = false);

/// `n` copies of the `itemsize` bytes at `value`.
void fill(void* dst, const void* value, std::int64_t itemsize, std::int64_t n);

}  // namespace tessera::kernels
