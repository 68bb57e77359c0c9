// SPDX-License-Identifier: Apache-2.0
#include "core/stream_copy.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace tessera::core {

void copy_block(void* dst, const void* src, std::int64_t bytes) {
  constexpr std::int64_t kPart = 2048;                    // copied by vectors
  constexpr std::int64_t kLarge = std::int64_t{1} << 19;  // from the size of a second-level cache on by vectors, too
  constexpr std::uintptr_t kPage = 4096, kVector = 32;
  const std::uintptr_t ahead = (reinterpret_cast<std::uintptr_t>(dst) - reinterpret_cast<std::uintptr_t>(src)) % kPage;
  auto* to = static_cast<unsigned char*>(dst);
  const auto* from = static_cast<const unsigned char*>(src);
  if (ahead > 0 && ahead < kVector && bytes < kLarge) {
    // Of a size that it knows the compiler would write `rep movsq` itself.
    std::int64_t part = kPart;
    __asm__("" : "+r"(part));
    for (; bytes > part; bytes -= part, to += part, from += part) {
      std::memcpy(to, from, static_cast<std::size_t>(part));
    }
  }
  std::memcpy(to, from, static_cast<std::size_t>(bytes));
}

#if defined(__x86_64__)

namespace {

constexpr std::int64_t kLine = 64;

// Copies whole lines to the address of a line.
using CopyLines = void (*)(unsigned char* dst, const unsigned char* src, std::int64_t bytes);

void copy_lines(unsigned char* dst, const unsigned char* src, std::int64_t bytes) {
  for (; bytes > 0; dst += kLine, src += kLine, bytes -= kLine) {
    auto* to = reinterpret_cast<__m128i*>(dst);
    const auto* from = reinterpret_cast<const __m128i*>(src);
    __m128i a = _mm_loadu_si128(from), b = _mm_loadu_si128(from + 1);
    __m128i c = _mm_loadu_si128(from + 2), d = _mm_loadu_si128(from + 3);
    _mm_stream_si128(to, a);
    _mm_stream_si128(to + 1, b);
    _mm_stream_si128(to + 2, c);
    _mm_stream_si128(to + 3, d);
  }
}

// A line in one store: it never waits in a half-filled buffer for its rest.
__attribute__((target("avx512f"))) void copy_lines_512(unsigned char* dst, const unsigned char* src,
                                                       std::int64_t bytes) {
  for (; bytes > 0; dst += kLine, src += kLine, bytes -= kLine) {
    _mm512_stream_si512(reinterpret_cast<__m512i*>(dst), _mm512_loadu_si512(src));
  }
}

CopyLines line_copier() {
  static const CopyLines lines = __builtin_cpu_supports("avx512f") != 0 ? copy_lines_512 : copy_lines;
  return lines;
}

}  // namespace

void copy_streaming(void* dst, const void* src, std::int64_t bytes) {
  const CopyLines lines = line_copier();
  auto* to = static_cast<unsigned char*>(dst);
  const auto* from = static_cast<const unsigned char*>(src);
  auto before = static_cast<std::int64_t>(-reinterpret_cast<std::uintptr_t>(to) & (kLine - 1));
  auto head = std::min(bytes, before);
  std::memcpy(to, from, static_cast<std::size_t>(head));
  std::int64_t whole = (bytes - head) / kLine * kLine;
  lines(to + head, from + head, whole);
  std::int64_t rest = bytes - head - whole;
  std::memcpy(to + head + whole, from + head + whole, static_cast<std::size_t>(rest));
}

void scatter_lines(void* dst, std::int64_t apart, const void* src, std::int64_t count) {
  const CopyLines lines = line_copier();
  for (std::int64_t i = 0; i < count; ++i) {
    lines(static_cast<unsigned char*>(dst) + i * apart, static_cast<const unsigned char*>(src) + i * kLine, kLine);
  }
}

void finish_streaming() { _mm_sfence(); }

#else

// Arm's memcpy has such stores.
void copy_streaming(void* dst, const void* src, std::int64_t bytes) {
  std::memcpy(dst, src, static_cast<std::size_t>(bytes));
}

void scatter_lines(void* dst, std::int64_t apart, const void* src, std::int64_t count) {
  constexpr std::int64_t kLine = 64;
  for (std::int64_t i = 0; i < count; ++i) {
    std::memcpy(static_cast<unsigned char*>(dst) + i * apart, static_cast<const unsigned char*>(src) + i * kLine,
                kLine);
  }
}

void finish_streaming() {}

#endif

}  // namespace tessera::core
