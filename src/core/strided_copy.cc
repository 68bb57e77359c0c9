// SPDX-License-Identifier: Apache-2.0
#include "core/strided_copy.h"

#include <algorithm>
#include <cstring>

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
    std::memcpy(dst, src, static_cast<std::size_t>(l.extent * item));
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

void copy_loops(char* dst, const char* src, std::span<const Loop> loops, std::int64_t item) {
  const Loop& l = loops.front();
  if (loops.size() == 1) return copy_row(dst, src, l, item);
  for (std::int64_t i = 0; i < l.extent; ++i) copy_loops(dst + i * l.dst, src + i * l.src, loops.subspan(1), item);
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
                  std::int64_t item_size) {
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
  copy_loops(static_cast<char*>(dst), static_cast<const char*>(src), loops, item_size);
}

}  // namespace tessera::core
