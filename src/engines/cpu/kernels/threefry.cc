// SPDX-License-Identifier: Apache-2.0
#include "engines/cpu/kernels/threefry.h"

#include <algorithm>
#include <cstdint>

#include "base/strings.h"
#include "base/thread_pool.h"
#include "engines/cpu/kernels/simd.h"
#include "tessera/error.h"

#define HWY_TARGET_INCLUDE "engines/cpu/kernels/threefry.cc"
#include "hwy/foreach_target.h"
// After foreach_target, which compiles this file once per instruction set.
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::kernels::HWY_NAMESPACE {

template <int A, int B, int C, int D>
HWY_INLINE void four_rounds(std::uint32_t& x0, std::uint32_t& x1) {
  auto round = [&](int r) {
    x0 += x1;
    x1 = (x1 << r) | (x1 >> (32 - r));
    x1 ^= x0;
  };
  round(A);
  round(B);
  round(C);
  round(D);
}

HWY_INLINE void cipher(std::uint32_t k0, std::uint32_t k1, std::uint32_t& x0, std::uint32_t& x1) {
  std::uint32_t k2 = k0 ^ k1 ^ 0x1BD11BDAu;
  x0 += k0;
  x1 += k1;
  four_rounds<13, 15, 26, 6>(x0, x1);
  x0 += k1;
  x1 += k2 + 1;
  four_rounds<17, 29, 16, 24>(x0, x1);
  x0 += k2;
  x1 += k0 + 2;
  four_rounds<13, 15, 26, 6>(x0, x1);
  x0 += k0;
  x1 += k1 + 3;
  four_rounds<17, 29, 16, 24>(x0, x1);
  x0 += k1;
  x1 += k2 + 4;
  four_rounds<13, 15, 26, 6>(x0, x1);
  x0 += k2;
  x1 += k0 + 5;
}

// The high word of the counter is the same for all `n`.
template <class T>
void bits(std::uint32_t k0, std::uint32_t k1, std::uint32_t high, std::uint32_t low, std::int64_t n, void* out) {
  T* r = static_cast<T*>(out);
  auto count = static_cast<std::uint32_t>(n);
  for (std::uint32_t i = 0; i < count; ++i) {
    std::uint32_t x0 = high, x1 = low + i;
    cipher(k0, k1, x0, x1);
    if constexpr (sizeof(T) == 8) {
      r[i] = (static_cast<std::uint64_t>(x0) << 32) | x1;
    } else {
      r[i] = static_cast<T>(x0 ^ x1);
    }
  }
}

void bits_here(int width, std::uint32_t k0, std::uint32_t k1, std::uint32_t high, std::uint32_t low, std::int64_t n,
               void* out) {
  switch (width) {
    case 8:
      return bits<std::uint8_t>(k0, k1, high, low, n, out);
    case 16:
      return bits<std::uint16_t>(k0, k1, high, low, n, out);
    case 32:
      return bits<std::uint32_t>(k0, k1, high, low, n, out);
    default:
      return bits<std::uint64_t>(k0, k1, high, low, n, out);
  }
}

}  // namespace tessera::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::kernels {
namespace {
HWY_EXPORT(bits_here);
}

std::array<std::uint32_t, 2> threefry2x32(std::uint32_t k0, std::uint32_t k1, std::uint32_t x0, std::uint32_t x1) {
  HWY_STATIC_DISPATCH(cipher)(k0, k1, x0, x1);
  return {x0, x1};
}

void threefry_bits(std::uint32_t k0, std::uint32_t k1, std::uint64_t first_counter, std::int64_t n, int bit_width,
                   void* out) {
  if (bit_width != 8 && bit_width != 16 && bit_width != 32 && bit_width != 64) {
    throw ValueError(str("threefry_bits: bit_width = ", bit_width, "; expected 8, 16, 32 or 64"));
  }
  base::parallel_for(n, 16 << 10, [&](std::int64_t begin, std::int64_t end) {
    while (begin < end) {
      std::uint64_t counter = first_counter + static_cast<std::uint64_t>(begin);
      std::uint64_t room = (std::uint64_t{1} << 32) - (counter & 0xffffffffu);
      auto m =
          static_cast<std::int64_t>(std::min<std::uint64_t>({room, static_cast<std::uint64_t>(end - begin), 1u << 30}));
      HWY_DYNAMIC_DISPATCH(bits_here)
      (bit_width, k0, k1, static_cast<std::uint32_t>(counter >> 32), static_cast<std::uint32_t>(counter), m,
       static_cast<std::uint8_t*>(out) + begin * (bit_width / 8));
      begin += m;
    }
  });
}

}  // namespace tessera::kernels
#endif
