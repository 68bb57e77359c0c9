// SPDX-License-Identifier: Apache-2.0
// erf and erfc of f32, for kernels and compiled code alike. All polynomials have the least largest error relative to
// the function, the highest power first; their error is 6e-9, 2e-9 and 1e-8.
//
// erf(x) = x + x q(x^2) below `kErfSplit`, and 1 - exp(p(x)) above.
//
// erfc(x) = exp(-x^2) g(x) for x >= 0, where g falls from 1 as slowly as 1 / x: with w = 1 / (x + kErfcPole) and
// t = 1 - 2 kErfcPole w, which lies between -1 and 1, g = c w (1 + t s(t)). What x^2 and w lose to rounding, and log c,
// are added to the exponent: the error h of w, relative to it, is one of `kErfcSlope` (t) h of g.
#pragma once

#include <array>

namespace tessera::kernels {

inline constexpr float kErfSplit = 0.85F;
inline constexpr float kErfOne = 3.95F;  // from here on the result rounds to one
inline constexpr std::array<float, 6> kErfNear = {-6.315129e-4F,  5.0510946e-3F,  -2.6802547e-2F,
                                                  1.12827174e-1F, -3.7612572e-1F, 1.2837917e-1F};
inline constexpr std::array<float, 7> kErfFar = {2.036769e-4F,  -3.1178556e-3F, 2.251906e-2F,  -1.0452594e-1F,
                                                 -6.365189e-1F, -1.128061e0F,   -1.0452344e-4F};

inline constexpr float kErfcPole = 1.875F;
inline constexpr float kErfcZero = 10.1F;  // from here on the result rounds to zero
inline constexpr std::array<float, 9> kErfcRest = {-1.621723e-4F, -5.803441e-4F, 1.7075769e-4F,
                                                   3.7783685e-3F, 1.8692871e-3F, -2.3998065e-2F,
                                                   -7.99064e-3F,  2.2786795e-1F, -6.42589e-1F};
inline constexpr float kErfcLogScale = 1.0309133e-2F;  // log c
inline constexpr std::array<float, 2> kErfcSlope = {-5.580938e-1F, 1.6126574F};

}  // namespace tessera::kernels
