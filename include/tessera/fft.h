// SPDX-License-Identifier: Apache-2.0
// Fourier transforms as jax.numpy.fft, of any length. Real operands become complex; results are complex64, or
// complex128 for 64-bit operands, or their real parts' dtype.
#pragma once

#include <optional>

#include "tessera/array.h"
#include "tessera/operand.h"

namespace tessera::fft {

/// Where the scale stands: 1/n on the way back, 1/sqrt(n) on both, 1/n forward.
enum class Norm { Backward, Ortho, Forward };
struct Options {
  /// Points of the transform: operands are cut or filled with zeros. All there are unless given (irfft, hfft: twice the
  /// terms less 2).
  std::optional<std::int64_t> n = std::nullopt;
  std::int64_t axis = -1;
  Norm norm = Norm::Backward;
};
Array fft(const Operand& x, const Options& options = {});
Array ifft(const Operand& x, const Options& options = {});
/// Real to the first n / 2 + 1 terms, and back.
Array rfft(const Operand& x, const Options& options = {});
Array irfft(const Operand& x, const Options& options = {});
/// Of terms of a signal whose transform is real, and back.
Array hfft(const Operand& x, const Options& options = {});
Array ihfft(const Operand& x, const Options& options = {});

struct OptionsN {
  MaybeDims s = {};     ///< points along the axes
  MaybeDims axes = {};  ///< all, or as many at the end as `s` has
  Norm norm = Norm::Backward;
};
Array fftn(const Operand& x, const OptionsN& options = {});
Array ifftn(const Operand& x, const OptionsN& options = {});
/// Real along the last of the axes.
Array rfftn(const Operand& x, const OptionsN& options = {});
Array irfftn(const Operand& x, const OptionsN& options = {});
/// Over the last two axes unless two are given.
Array fft2(const Operand& x, OptionsN options = {});
Array ifft2(const Operand& x, OptionsN options = {});
Array rfft2(const Operand& x, OptionsN options = {});
Array irfft2(const Operand& x, OptionsN options = {});

/// Frequencies of the terms for n points at distance d.
Array fftfreq(std::int64_t n, double d = 1, DType dtype = float32, const Loc& loc = Loc::current());
Array rfftfreq(std::int64_t n, double d = 1, DType dtype = float32, const Loc& loc = Loc::current());
/// Frequency 0 to the middle of the axes (all unless given), and back.
Array fftshift(const Operand& x, const MaybeDims& axes = {});
Array ifftshift(const Operand& x, const MaybeDims& axes = {});

}  // namespace tessera::fft
