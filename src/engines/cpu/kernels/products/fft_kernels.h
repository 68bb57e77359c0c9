// SPDX-License-Identifier: Apache-2.0
// Discrete Fourier transforms of any length.
#pragma once

#include <cstdint>
#include <span>

#include "tessera/dtype.h"

namespace tessera::kernels {

enum class FftKind : std::uint8_t {
  Forward,      // complex to complex
  Inverse,      // complex to complex, divided by the number of points
  RealForward,  // real to the first half (n / 2 + 1) of the spectrum along the last axis
  RealInverse,  // the other way, divided by the number of points
};

/// Transforms the last `axes` dims of a contiguous array. `shape` is that of the complex array for Forward and Inverse,
/// that of the real array for the real kinds; the half spectrum has shape.back() / 2 + 1 in its last dim. `precision`
/// is F32 or F64: the dtype of the real parts. Throws `UnimplementedError` for another.
void fft(FftKind kind, DType precision, std::span<const std::int64_t> shape, std::int64_t axes, const void* in,
         void* out);

}  // namespace tessera::kernels
