// SPDX-License-Identifier: Apache-2.0
// exp of f32, for kernels and compiled code alike: scale x = n log 2 + scale r, and exp(scale x) = 2^n exp(scale r)
// with exp(scale r) = 1 + scale (r + q r^2) and a polynomial q of r.
#pragma once

#include <array>
#include <cstddef>

namespace tessera::kernels {

struct ExpConstants {
  float log2e;
  std::array<float, 2> minus_log2;  // in two parts, products of the first of which with n are exact (Cephes' expf)
  std::array<float, 5> q;           // the highest power first
};

inline constexpr float kExpRound = 12582912.0F;  // 1.5 * 2^23: adding it rounds to an integer

/// For a power of two, which is exact in all of them. The polynomial has the least largest error relative to
/// exp, 3.7e-9, of those that end in a half.
constexpr ExpConstants exp_constants(float scale) {
  ExpConstants out{1.44269504088896341F * scale,
                   {-0.693359375F / scale, 2.12194440e-4F / scale},
                   {1.3863144e-3F, 8.367441e-3F, 4.1667245e-2F, 1.6666535e-1F, 0.5F}};
  float power = 1;
  for (std::size_t i = out.q.size(); i-- > 0;) out.q[i] *= power *= scale;
  return out;
}

}  // namespace tessera::kernels
