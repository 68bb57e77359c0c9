// SPDX-License-Identifier: Apache-2.0
#include "core/strided_copy.h"

#include <algorithm>
#include <cstring>

#include "core/stream_copy.h"

namespace tessera::core {

namespace {

struct Loop {
  std::int64_t extent;
  std::int64_t dst;
  std::int64_t src;
};

template <std::int64_t N>
void copy_items(char* dst, const char* src, const Loop& l) {
  for (std::int64_t i = 0; i < l.extent; ++i)
    std::memcpy(dst + i * l.dst, src + i * l.src, static_cast<std::size_t>(N));
}

void copy_row(char* dst, const char* src, const Loop& l, std::int64_t item) {
  if (l.dst == item && l.src == item) {
    copy_block(dst, src, l.extent * item);
    return;
  }
  switch (item) {
    case 1:
      return copy_items<1>(dst, src, l);
    case 2:
      return copy_items<2>(dst, src, l);
    case 4:
      return copy_items<4>(dst, src, l);
    case 8:
      return copy_items<8>(dst, src, l);
    case 16:
      return copy_items<16>(dst, src, l);
    default:
      for (std::int64_t i = 0; i < l.extent; ++i) {
        std::memcpy(dst + i * l.dst, src + i * l.src, static_cast<std::size_t>(item));
      }
  }
}

using CopyRow = void (*)(char* dst, const char* src, const Loop& l, std::int64_t item);

void stream_row(char* dst, const char* src, const Loop& l, std::int64_t item) {
  copy_streaming(dst, src, l.extent * item);
}

void copy_loops(char* dst, const char* src, std::span<const Loop> loops, std::int64_t item, CopyRow row) {
  const Loop& l = loops.front();
  if (loops.size() == 1) return row(dst, src, l, item);
  for (std::int64_t i = 0; i < l.extent; ++i) copy_loops(dst + i * l.dst, src + i * l.src, loops.subspan(1), item, row);
}

}  // namespace

Dims contiguous_strides(const Shape& shape, std::int64_t item_size) {
  Dims strides(shape.size());
  std::int64_t s = item_size;
  for (std::size_t i = shape.size(); i-- > 0;) {
    strides[i] = s;
    // It wraps for shapes that no memory holds: allocating one throws, and nothing steps by these strides.
    (void)__builtin_mul_overflow(s, shape[i], &s);
  }
  return strides;
}

void copy_strided(void* dst, std::span<const std::int64_t> dst_strides, const void* src,
                  std::span<const std::int64_t> src_strides, std::span<const std::int64_t> shape,
                  std::int64_t item_size, bool stream) {
  // Dimensions that both sides step through as one are merged, so that rows become long.
  std::vector<Loop> loops;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == 0) return;
    if (shape[i] == 1) continue;
    Loop l{shape[i], dst_strides[i], src_strides[i]};
    if (!loops.empty() && loops.back().dst == l.dst * l.extent && loops.back().src == l.src * l.extent) {
      l.extent *= loops.back().extent;
      loops.back() = l;
    } else {
      loops.push_back(l);
    }
  }
  if (loops.empty()) {
    std::memcpy(dst, src, static_cast<std::size_t>(item_size));
    return;
  }
  // In shorter rows, whose ends lie in lines that others fill, such stores gain nothing.
  constexpr std::int64_t kLongRow = 1 << 10;
  const Loop& last = loops.back();
  stream = stream && last.dst == item_size && last.src == item_size && last.extent * item_size >= kLongRow;
  copy_loops(static_cast<char*>(dst), static_cast<const char*>(src), loops, item_size, stream ? stream_row : copy_row);
  if (stream) finish_streaming();
}

}  // namespace tessera::core
