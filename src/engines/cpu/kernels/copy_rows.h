// SPDX-License-Identifier: Apache-2.0
// Rows of elements that do not follow each other where they are read, square blocks of such rows, and short rows of
// those that do, in registers. The loops are written for any vectors of 16 bytes, which every machine has: the memory
// is what such copies wait for.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "core/stream_copy.h"

namespace tessera::kernels {

/// An element of `N` bytes that no integer holds.
template <std::size_t N>
struct Item {
  unsigned char bytes[N];
};

namespace in_registers {

using Byte = unsigned char;

template <class T>
using Vector __attribute__((vector_size(16))) = T;
constexpr std::int64_t kVectorBytes = 16;
template <class T>
constexpr std::int64_t kVectorLanes = kVectorBytes / static_cast<std::int64_t>(sizeof(T));

template <class T>
T load(const Byte* from) {
  T v;
  std::memcpy(&v, from, sizeof v);
  return v;
}
template <class T>
void store(Byte* to, T v) {
  std::memcpy(to, &v, sizeof v);
}

// The elements of the lower halves, or of the upper ones, in turn.
template <bool kUpper, class T>
Vector<T> zip(Vector<T> x, Vector<T> y) {
  constexpr int n = static_cast<int>(kVectorLanes<T>);
  return [&]<std::size_t... I>(std::index_sequence<I...>) {
    return __builtin_shufflevector(x, y, (static_cast<int>(I / 2) + (I % 2 != 0 ? n : 0) + (kUpper ? n / 2 : 0))...);
  }
  (std::make_index_sequence<static_cast<std::size_t>(n)>());
}

template <class T>
Vector<T> reversed(Vector<T> x) {
  using Words = Vector<std::uint32_t>;
  using Halves = Vector<std::uint16_t>;
  if constexpr (sizeof(T) == 8) {
    return __builtin_shufflevector(x, x, 1, 0);
  } else {
    auto words = __builtin_bit_cast(Words, x);
    words = __builtin_shufflevector(words, words, 3, 2, 1, 0);
    if constexpr (sizeof(T) < 4) words = words << 16 | words >> 16;
    auto halves = __builtin_bit_cast(Halves, words);
    if constexpr (sizeof(T) < 2) halves = halves << 8 | halves >> 8;
    return __builtin_bit_cast(Vector<T>, halves);
  }
}

}  // namespace in_registers

template <class T>
void strided_run(unsigned char* dst, std::int64_t ds, const unsigned char* src, std::int64_t ss, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) in_registers::store(dst + i * ds, in_registers::load<T>(src + i * ss));
}

/// Contiguous elements from every other one.
template <class T>
void every_other(unsigned char* dst, const unsigned char* src, std::int64_t n) {
  constexpr auto size = static_cast<std::int64_t>(sizeof(T));
  strided_run<T>(dst, size, src, 2 * size, n);
}

/// Contiguous elements from those at `src` and before it, the last first: memory is read in ascending order.
template <class T>
void backwards(unsigned char* dst, const unsigned char* src, std::int64_t n) {
  constexpr auto size = static_cast<std::int64_t>(sizeof(T));
  if constexpr (sizeof(T) <= 8) {
    constexpr std::int64_t lanes = in_registers::kVectorLanes<T>;
    for (; n >= lanes; n -= lanes) {
      const auto x = in_registers::load<in_registers::Vector<T>>(src - (n - 1) * size);
      in_registers::store(dst + (n - lanes) * size, in_registers::reversed<T>(x));
    }
  }
  strided_run<T>(dst, size, src, -size, n);
}

namespace in_registers {

// As `repeat_each`, for values that `kVectors` vectors have room for. They are stored over the beginning of the next
// value, which comes afterwards; the last ones have no such room behind them.
template <class T, int kVectors>
std::int64_t repeat_by_vectors(Byte* dst, const Byte* src, std::int64_t ss, std::int64_t n, std::int64_t times) {
  using Lane = std::conditional_t<(sizeof(T) > 8), std::uint64_t, T>;
  const std::int64_t bytes = times * static_cast<std::int64_t>(sizeof(T));
  const std::int64_t until = n - (kVectors * kVectorBytes - 1) / bytes;
  for (std::int64_t i = 0; i < until; ++i) {
    Vector<Lane> x;
    if constexpr (sizeof(T) > 8) {
      x = load<Vector<Lane>>(src + i * ss);
    } else {
      x = load<T>(src + i * ss) - Vector<Lane>{};
    }
    for (int v = 0; v < kVectors; ++v) store(dst + i * bytes + v * kVectorBytes, x);
  }
  return std::max<std::int64_t>(until, 0);
}

}  // namespace in_registers

/// Most bytes of one value's repetitions.
constexpr std::int64_t kMostRepeated = 4 * in_registers::kVectorBytes;

/// Each of `n` elements `times` times over, at most `kMostRepeated` bytes; the results follow each other.
template <class T>
void repeat_each(unsigned char* dst, const unsigned char* src, std::int64_t ss, std::int64_t n, std::int64_t times) {
  constexpr auto size = static_cast<std::int64_t>(sizeof(T));
  const std::int64_t bytes = times * size;
  std::int64_t i = 0;
  if constexpr (sizeof(T) <= 8) {
    constexpr std::int64_t lanes = in_registers::kVectorLanes<T>;
    for (; times == 2 && ss == size && i + lanes <= n; i += lanes) {
      const auto x = in_registers::load<in_registers::Vector<T>>(src + i * size);
      in_registers::store(dst + i * bytes, in_registers::zip<false, T>(x, x));
      in_registers::store(dst + i * bytes + in_registers::kVectorBytes, in_registers::zip<true, T>(x, x));
    }
  }
  unsigned char* to = dst + i * bytes;
  const unsigned char* from = src + i * ss;
  switch ((bytes - 1) / in_registers::kVectorBytes) {
    case 0:
      i += in_registers::repeat_by_vectors<T, 1>(to, from, ss, n - i, times);
      break;
    case 1:
      i += in_registers::repeat_by_vectors<T, 2>(to, from, ss, n - i, times);
      break;
    case 2:
      i += in_registers::repeat_by_vectors<T, 3>(to, from, ss, n - i, times);
      break;
    default:
      i += in_registers::repeat_by_vectors<T, 4>(to, from, ss, n - i, times);
  }
  for (; i < n; ++i) strided_run<T>(dst + i * bytes, size, src + i * ss, 0, times);
}

/// `count` rows of `bytes` each, `ds` and `ss` bytes from one to the next. A call for each short one would take longer
/// than its copy; vectors that lie over each other copy any number of bytes. Rows that come soon are asked for.
inline void copy_lines(unsigned char* dst, std::int64_t ds, const unsigned char* src, std::int64_t ss,
                       std::int64_t bytes, std::int64_t count) {
  constexpr std::int64_t kVector = in_registers::kVectorBytes, kLine = 64, kLongest = 512, kAhead = 8;
  for (std::int64_t i = 0; i < count; ++i, dst += ds, src += ss) {
    if (bytes > kLongest || bytes < kVector) {
      core::copy_block(dst, src, bytes);
      continue;
    }
    const std::int64_t ahead = i + kAhead < count ? kAhead * ss : 0;
    if (bytes < kLine) {
      const std::int64_t second = std::min(kVector, bytes - kVector);
      const std::int64_t third = std::max<std::int64_t>(0, bytes - 2 * kVector);
      __builtin_prefetch(src + ahead);
      std::memcpy(dst, src, kVector);
      std::memcpy(dst + second, src + second, kVector);
      std::memcpy(dst + third, src + third, kVector);
      std::memcpy(dst + bytes - kVector, src + bytes - kVector, kVector);
      continue;
    }
    for (std::int64_t b = 0; b + kLine < bytes; b += kLine) {
      __builtin_prefetch(src + ahead + b);
      std::memcpy(dst + b, src + b, kLine);
    }
    __builtin_prefetch(src + ahead + bytes - kLine);
    std::memcpy(dst + bytes - kLine, src + bytes - kLine, kLine);
  }
}

/// As many vectors as one has elements: element c of vector r becomes element r of vector c.
template <class T>
void transpose_vectors(in_registers::Vector<T>* x) {
  constexpr std::int64_t lanes = in_registers::kVectorLanes<T>;
  for (std::int64_t done = 1; done < lanes; done *= 2) {
    in_registers::Vector<T> y[lanes];
    for (std::int64_t i = 0; i < lanes / 2; ++i) {
      y[2 * i] = in_registers::zip<false, T>(x[i], x[i + lanes / 2]);
      y[2 * i + 1] = in_registers::zip<true, T>(x[i], x[i + lanes / 2]);
    }
    std::copy_n(y, lanes, x);
  }
}

/// The same from memory to memory, rows of one vector each.
template <class T>
void transpose_block(unsigned char* dst, std::int64_t ds, const unsigned char* src, std::int64_t ss) {
  constexpr std::int64_t lanes = in_registers::kVectorLanes<T>;
  in_registers::Vector<T> x[lanes];
  for (std::int64_t i = 0; i < lanes; ++i) x[i] = in_registers::load<in_registers::Vector<T>>(src + i * ss);
  transpose_vectors<T>(x);
  for (std::int64_t i = 0; i < lanes; ++i) in_registers::store(dst + i * ds, x[i]);
}

}  // namespace tessera::kernels
