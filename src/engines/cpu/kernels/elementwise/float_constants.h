// SPDX-License-Identifier: Apache-2.0
// Functions of f32, for kernels and compiled code alike. Polynomials have their coefficients with the highest power
// first, and the least largest error relative to the function.
#pragma once

#include <array>

namespace tessera::kernels {

// exp: x = n log 2 + r, and exp(x) = 2^n exp(r) with exp(r) = 1 + r + q r^2 and a polynomial q of r.
inline constexpr float kLog2E = 1.44269504088896341F;
inline constexpr float kMinusLog2 = -0.693147180559945309F;
/// In two parts, products of the first of which with n are exact (Cephes' expf).
inline constexpr std::array<float, 2> kMinusLog2Parts = {-0.693359375F, 2.12194440e-4F};
/// q, with an error of 3.7e-9: the best of those that end in a half.
inline constexpr std::array<float, 5> kExpRest = {1.3863144e-3F, 8.367441e-3F, 4.1667245e-2F, 1.6666535e-1F, 0.5F};
inline constexpr float kExpRound = 12582912.0F;  // 1.5 * 2^23: adding it rounds to an integer
/// The same with the bias of exponents: the low bits of a sum with n are the exponent of 2^n.
inline constexpr float kExpRoundBiased = kExpRound + 127;

// erf(x) = x + x q(x^2) below `kErfSplit`, and 1 - exp(p(x)) above; errors of 6e-9 and 2e-9.
inline constexpr float kErfSplit = 0.85F;
inline constexpr float kErfOne = 3.95F;  // from here on the result rounds to one
inline constexpr std::array<float, 6> kErfNear = {-6.315129e-4F,  5.0510946e-3F,  -2.6802547e-2F,
                                                  1.12827174e-1F, -3.7612572e-1F, 1.2837917e-1F};
inline constexpr std::array<float, 7> kErfFar = {2.036769e-4F,  -3.1178556e-3F, 2.251906e-2F,  -1.0452594e-1F,
                                                 -6.365189e-1F, -1.128061e0F,   -1.0452344e-4F};

// erfc(x) = exp(-x^2) g(x) for x >= 0, where g falls from 1 as slowly as 1 / x: with w = 1 / (x + 1) and t = 1 - 2 w,
// which lies between -1 and 1, g = w (1 + s(t)), with an error of 6e-9. What x^2 and w lose to rounding is added to the
// exponent: an error h of w, relative to it, is one of some `kErfcSlope` h of g.
inline constexpr float kErfcZero = 10.1F;  // from here on the result rounds to zero
inline constexpr float kErfcSlope = 1.2F;
inline constexpr std::array<float, 13> kErfcRest = {
    8.527143e-5F, 4.2024863e-4F, 5.904491e-4F,   -3.5374737e-4F, -2.3599898e-3F, -3.7594715e-3F, -1.2207342e-3F,
    9.568235e-3F, 2.5395172e-2F, 1.39065245e-2F, -9.555637e-2F,  -2.3768084e-1F, -1.4483285e-1F};

}  // namespace tessera::kernels
