// SPDX-License-Identifier: Apache-2.0
// Functions that several workloads compute.
#pragma once

#include "tessera/tessera.h"

namespace tessera::bench {

inline Array gelu(const Array& v) { return 0.5 * v * (1 + tanh(0.79788456 * (v + 0.044715 * integer_pow(v, 3)))); }

inline Array layernorm(const Array& v) {
  const ReduceOptions rows{.axis = Dims{-1}, .keepdims = true};
  Array mu = mean(v, rows);
  return (v - mu) * rsqrt(mean(square(v - mu), rows) + 1e-5);
}

}  // namespace tessera::bench
