// SPDX-License-Identifier: Apache-2.0
// Operands that element-wise kernels are tried on.
#pragma once

#include <bit>
#include <limits>
#include <random>
#include <vector>

#include "tessera/dtype.h"

namespace tessera::kernels {

template <class T>
constexpr DType kType = dtype_of<T>();

/// Ends of ranges, halves, limits of what functions take.
template <class T>
std::vector<T> interesting() {
  using L = std::numeric_limits<T>;
  if constexpr (std::is_floating_point_v<T>) {
    std::vector<T> v = {0,
                        T(-0.0),
                        1,
                        -1,
                        T(0.5),
                        T(-0.5),
                        T(1.5),
                        T(2.5),
                        T(-2.5),
                        T(0.49999997),
                        2,
                        3,
                        10,
                        -10,
                        30,
                        -30,
                        88,
                        -88,
                        89,
                        -104,
                        710,
                        -746,
                        T(1e-3),
                        T(-1e-3),
                        T(1e-10),
                        T(1e-30),
                        T(1e10),
                        T(1e30),
                        L::min(),
                        L::denorm_min(),
                        -L::denorm_min(),
                        L::max(),
                        L::lowest(),
                        L::infinity(),
                        -L::infinity(),
                        L::quiet_NaN(),
                        T(0.999),
                        T(-0.999),
                        T(5),
                        T(9),
                        T(-7.3),
                        T(8388609.5),
                        T(127.5),
                        T(255.9),
                        T(-0.9)};
    return v;
  } else {
    return {0, 1, T(-1), 2, T(-2), 3, 7, T(100), L::max(), L::min(), T(L::max() - 1), T(L::min() + 1), 8, 15, 31, 63};
  }
}

/// Those first, then random ones.
template <class T>
std::vector<T> random_values(std::size_t n, unsigned seed) {
  std::mt19937_64 rng(seed);
  std::vector<T> v = interesting<T>();
  while (v.size() < n) {
    auto bits = rng();
    if constexpr (std::is_same_v<T, float>) {
      // Half of them any bits at all, half of a size that functions like.
      v.push_back(bits & 1 ? std::bit_cast<float>(static_cast<std::uint32_t>(bits >> 32))
                           : static_cast<float>((static_cast<double>(bits >> 11) / 9007199254740992.0 - 0.5) * 40));
    } else if constexpr (std::is_same_v<T, double>) {
      v.push_back(bits & 1 ? std::bit_cast<double>(rng())
                           : (static_cast<double>(bits >> 11) / 9007199254740992.0 - 0.5) * 40);
    } else {
      v.push_back(static_cast<T>(bits >> (bits & 7)));
    }
  }
  v.resize(n);
  return v;
}

}  // namespace tessera::kernels
