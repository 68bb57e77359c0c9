// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

namespace tessera::base {

/// Mixes `v` into the running hash `h` (the finalizer of SplitMix64).
inline std::size_t hash_mix(std::size_t h, std::size_t v) {
  std::uint64_t x = h + 0x9E3779B97F4A7C15ull + v;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}
template <class T>
std::size_t hash_range(std::size_t h, const T& range) {
  for (const auto& v : range) h = hash_mix(h, std::hash<std::decay_t<decltype(v)>>{}(v));
  return hash_mix(h, range.size());
}

}  // namespace tessera::base
