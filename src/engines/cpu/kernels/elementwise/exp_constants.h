// SPDX-License-Identifier: Apache-2.0
// exp of f32, for kernels and compiled code alike: x = n log 2 + r, and exp(x) = 2^n exp(r) with exp(r) = 1 + r + q r^2
// and a polynomial q of r.
#pragma once

#include <array>

namespace tessera::kernels {

inline constexpr float kLog2E = 1.44269504088896341F;
inline constexpr float kMinusLog2 = -0.693147180559945309F;
/// In two parts, products of the first of which with n are exact (Cephes' expf).
inline constexpr std::array<float, 2> kMinusLog2Parts = {-0.693359375F, 2.12194440e-4F};
/// The coefficients of q, the highest power first. It has the least largest error relative to exp, 3.7e-9, of those
/// that end in a half.
inline constexpr std::array<float, 5> kExpRest = {1.3863144e-3F, 8.367441e-3F, 4.1667245e-2F, 1.6666535e-1F, 0.5F};
inline constexpr float kExpRound = 12582912.0F;  // 1.5 * 2^23: adding it rounds to an integer
/// The same with the bias of exponents: the low bits of a sum with n are the exponent of 2^n.
inline constexpr float kExpRoundBiased = kExpRound + 127;

}  // namespace tessera::kernels
