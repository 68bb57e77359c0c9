// SPDX-License-Identifier: Apache-2.0
// Inputs of the workloads: a formula that every language can repeat.
#pragma once

#include <cstdint>
#include <vector>

#include "tessera/tessera.h"

namespace tessera::bench {

inline constexpr double kMB = 1 << 20;

/// 32-bit hash of element i (row-major): i + seed * 0x9E3779B9 through MurmurHash3's finalizer.
inline std::uint32_t mix(std::uint64_t i, std::uint64_t seed) {
  auto h = static_cast<std::uint32_t>(i + seed * 0x9E3779B9ULL);
  h ^= h >> 16;
  h *= 0x85EBCA6BU;
  h ^= h >> 13;
  h *= 0xC2B2AE35U;
  return h ^ (h >> 16);
}

/// Element i is mix(i) / 2^32 - 0.5, computed in double, rounded to float, times `scale`.
inline HostArray fill(const Shape& shape, std::uint64_t seed = 0, float scale = 1.0F) {
  HostArray a(float32, shape);
  auto out = a.span<float>();
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = static_cast<float>(mix(i, seed) / 4294967296.0 - 0.5) * scale;
  }
  return a;
}

/// Element i is (mix(i) >> 8) mod `below`.
inline HostArray fill_int(const Shape& shape, std::uint32_t below, std::uint64_t seed) {
  HostArray a(int32, shape);
  auto out = a.span<std::int32_t>();
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<std::int32_t>((mix(i, seed) >> 8) % below);
  return a;
}

/// One axis "x" over all devices.
inline Mesh mesh1(std::int64_t devices) { return make_mesh({devices}, "x"); }
/// Axes "x" and "y", the latter of two, or of one where there is one device.
inline Mesh mesh2(std::int64_t devices) {
  const std::int64_t y = devices == 1 ? 1 : 2;
  return make_mesh({devices / y, y}, {"x", "y"});
}

inline Array put(const Shape& shape, const Mesh& mesh, const P& spec, std::uint64_t seed = 0) {
  return device_put(fill(shape, seed), NamedSharding(mesh, spec));
}

/// A call of `f` whose results are waited for.
template <class F, class... Args>
auto call(const F& f, const Args&... args) {
  return [f, args...] {
    std::vector<Array> results = tree_leaves(f(args...));
    for (const Array& r : results) r.block_until_ready();
    return results;
  };
}

}  // namespace tessera::bench
