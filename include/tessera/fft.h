// SPDX-License-Identifier: Apache-2.0
// Fourier transforms as jax.numpy.fft, of any length. Real operands become complex; results are complex64, or
// complex128 for 64-bit operands, or their real parts' dtype. A sharded axis of a transform is all-gathered first,
// other dimensions stay sharded. Throws `ValueError` for a length below 1 and for axes that do not fit.
#pragma once

#include <optional>

#include "tessera/array.h"
#include "tessera/operand.h"

namespace tessera::fft {

/// Which transform is scaled: the inverse by 1/n, both by 1/sqrt(n), the forward one by 1/n.
enum class Norm { Backward, Ortho, Forward };
/// Points, axis and scale of transforms of one dimension.
struct Options {
  /// Points of the transform: operands are truncated or padded with zeros. Their extent unless given (irfft, hfft:
  /// twice the terms less 2).
  std::optional<std::int64_t> n = std::nullopt;
  std::int64_t axis = -1;
  Norm norm = Norm::Backward;
};
/// Discrete Fourier transform along one axis: sum over j of x[j] exp(-2 pi i j k / n).
Array fft(const Operand& x, const Options& options = {});
/// Inverse of `fft`.
Array ifft(const Operand& x, const Options& options = {});
/// `fft` of a real operand: the first n / 2 + 1 terms. Throws `TypeError` for a complex one.
Array rfft(const Operand& x, const Options& options = {});
/// Inverse of `rfft`: real, of n points.
Array irfft(const Operand& x, const Options& options = {});
/// `fft` of a signal with Hermitian symmetry, given by its first n / 2 + 1 terms: real.
Array hfft(const Operand& x, const Options& options = {});
/// Inverse of `hfft`: n / 2 + 1 complex terms from a real operand.
Array ihfft(const Operand& x, const Options& options = {});

/// Points, axes and scale of transforms of several dimensions.
struct OptionsN {
  MaybeDims s = {};     ///< points along the axes
  MaybeDims axes = {};  ///< all, or as many at the end as `s` has
  Norm norm = Norm::Backward;
};
/// `fft` along several axes.
Array fftn(const Operand& x, const OptionsN& options = {});
/// Inverse of `fftn`.
Array ifftn(const Operand& x, const OptionsN& options = {});
/// `rfft` along the last of the axes, `fft` along the others.
Array rfftn(const Operand& x, const OptionsN& options = {});
/// Inverse of `rfftn`.
Array irfftn(const Operand& x, const OptionsN& options = {});
/// `fftn` over the last two axes unless two are given. The functions of two axes throw `ValueError` for another count.
Array fft2(const Operand& x, OptionsN options = {});
/// `ifftn` over two axes.
Array ifft2(const Operand& x, OptionsN options = {});
/// `rfftn` over two axes.
Array rfft2(const Operand& x, OptionsN options = {});
/// `irfftn` over two axes.
Array irfft2(const Operand& x, OptionsN options = {});

/// Frequencies of the terms of `fft`, in cycles per unit of d, for n points at distance d. Throws `ValueError` for n
/// < 1.
Array fftfreq(std::int64_t n, double d = 1, DType dtype = float32, const Loc& loc = Loc::current());
/// Frequencies of the n / 2 + 1 terms of `rfft`.
Array rfftfreq(std::int64_t n, double d = 1, DType dtype = float32, const Loc& loc = Loc::current());
/// Moves frequency 0 to the middle of the axes (all unless given).
Array fftshift(const Operand& x, const MaybeDims& axes = {});
/// Inverse of `fftshift`.
Array ifftshift(const Operand& x, const MaybeDims& axes = {});

}  // namespace tessera::fft
