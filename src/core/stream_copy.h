// SPDX-License-Identifier: Apache-2.0
// Copies of blocks: of those whose results are larger than the caches, and of those that memcpy is slow for.
#pragma once

#include <cstdint>

namespace tessera::core {

/// memcpy. Where the target is a few bytes further in its page than the source, as a row that is shifted by an element,
/// glibc before 2.40 copies more than 2 KiB by `rep movsb`, a tenth as fast as any other way on AMD's Zen 3 and 4
/// (https://sourceware.org/bugzilla/show_bug.cgi?id=30994); such blocks are copied in parts.
void copy_block(void* dst, const void* src, std::int64_t bytes);

/// Copies bytes between blocks that do not overlap, with stores that go around the caches: no line is read before it is
/// written, and none displaces another. `finish_streaming` comes after the last copy of a thread's share, before anyone
/// else may read it.
void copy_streaming(void* dst, const void* src, std::int64_t bytes);

/// Copies `count` lines of 64 bytes that follow each other to addresses of lines, `apart` bytes from one to the next,
/// with the same stores.
void scatter_lines(void* dst, std::int64_t apart, const void* src, std::int64_t count);

/// Waits until the calling thread's copies are in memory. It takes as long as hundreds of bytes, so it is not for every
/// row.
void finish_streaming();

}  // namespace tessera::core
