// SPDX-License-Identifier: Apache-2.0
// Copies whose results are larger than the caches.
#pragma once

#include <cstdint>

namespace tessera::core {

/// Results of more bytes leave the caches before they are read again: the size of a last-level cache that cores share.
/// What the system says of it is ten times too much in some virtual machines.
inline constexpr std::int64_t kCacheBytes = 32 << 20;

/// Copies bytes between blocks that do not overlap, with stores that go around the caches: no line is read before it is
/// written, and none displaces another. `finish_streaming` comes after the last copy of a thread's share, before anyone
/// else may read it.
void copy_streaming(void* dst, const void* src, std::int64_t bytes);

/// Waits until the calling thread's copies are in memory. It takes as long as hundreds of bytes, so it is not for every
/// row.
void finish_streaming();

}  // namespace tessera::core
