// SPDX-License-Identifier: Apache-2.0
// Bits of the 16-bit floats, for tessera/dtype.h.
#pragma once

#include <bit>
#include <cstdint>

namespace tessera::detail {

float half_to_float(std::uint16_t bits);
std::uint16_t float_to_half(float v);
constexpr float bf16_to_float(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}
/// Round to nearest, ties to even; NaN stays NaN.
constexpr std::uint16_t float_to_bf16(float v) {
  auto u = std::bit_cast<std::uint32_t>(v);
  if ((u & 0x7fffffffu) > 0x7f800000u) return static_cast<std::uint16_t>((u >> 16) | 0x40u);
  u += 0x7fffu + ((u >> 16) & 1u);
  return static_cast<std::uint16_t>(u >> 16);
}

}  // namespace tessera::detail
