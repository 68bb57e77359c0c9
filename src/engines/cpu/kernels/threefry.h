// SPDX-License-Identifier: Apache-2.0
// Random bits: Threefry-2x32 with 20 rounds over a 64-bit counter, bit-equal to JAX's partitionable generator.
#pragma once

#include <array>
#include <cstdint>

namespace tessera::kernels {

/// The cipher itself: one block of two words for one counter (x0, x1) under a key.
std::array<std::uint32_t, 2> threefry2x32(std::uint32_t k0, std::uint32_t k1, std::uint32_t x0, std::uint32_t x1);

/// Element i of `out` is made from counter `first_counter + i` (high word first) alone, so any part of an array can be
/// made anywhere. `bit_width` 8, 16, 32 or 64: both output words xor-ed and truncated, or for 64 the first word as the
/// high half. Throws `ValueError` for another width.
void threefry_bits(std::uint32_t k0, std::uint32_t k1, std::uint64_t first_counter, std::int64_t n, int bit_width,
                   void* out);

}  // namespace tessera::kernels
