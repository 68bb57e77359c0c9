// SPDX-License-Identifier: Apache-2.0
// NumPy's differences, integrals, interpolation, convolution of vectors, and polynomials (vectors of coefficients, the
// highest power first). Differences and windows over a sharded axis exchange the edges of the shards.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "tessera/array.h"
#include "tessera/operand.h"

namespace tessera {

/// Order, axis and borders of `diff`.
struct DiffOptions {
  std::int64_t n = 1;
  std::int64_t axis = -1;
  std::optional<Array> prepend = std::nullopt, append = std::nullopt;
};
/// Differences of neighbors along an axis, n times; of bools whether they differ. Throws `ValueError` for a negative n.
Array diff(const Operand& x, const DiffOptions& options = {});
/// Differences of neighbors of the flattened array, with `to_begin` in front and `to_end` behind.
Array ediff1d(const Operand& x, const std::optional<Array>& to_end = std::nullopt,
              const std::optional<Array>& to_begin = std::nullopt);
/// Central differences along each of the axes (all unless given), one-sided at the ends; one array per axis. `spacing`:
/// one distance for all, or one entry per axis: a scalar, or the coordinates along it. Throws `ValueError` for fewer
/// than 2 elements along an axis.
std::vector<Array> gradient(const Operand& f, const std::vector<Array>& spacing = {}, const MaybeDims& axis = {});
/// Trapezoidal rule along an axis, over coordinates x or at distances dx.
Array trapezoid(const Operand& y, const std::optional<Array>& x = std::nullopt, double dx = 1, std::int64_t axis = -1);
/// What `interp` gives beyond the ends.
struct InterpOptions {
  std::optional<Array> left = std::nullopt, right = std::nullopt;  ///< beyond the ends; the end values if not given
  bool extrapolate = false;                                        ///< beyond the ends, the first and last line
  std::optional<double> period = std::nullopt;
};
/// Linear interpolation between the points (xp, fp), xp ascending, in floats. Throws `ValueError` unless xp and fp are
/// vectors of one length, `TypeError` for complex x.
Array interp(const Operand& x, const Operand& xp, const Operand& fp, const InterpOptions& options = {});
/// Adds periods where neighbours differ by more than `discont` (half a period unless given).
Array unwrap(const Operand& p, std::optional<double> discont = std::nullopt, std::int64_t axis = -1,
             double period = 6.283185307179586);

/// Which part of a convolution is kept, as in NumPy.
enum class ConvolveMode { Full, Same, Valid };
/// Convolution of two vectors, as floats. Throws `ValueError` for other ranks and empty vectors.
Array convolve(const Operand& a, const Operand& v, ConvolveMode mode = ConvolveMode::Full);
/// Cross-correlation of two vectors, the second conjugated, as floats. Throws as `convolve`.
Array correlate(const Operand& a, const Operand& v, ConvolveMode mode = ConvolveMode::Valid);

/// Values at x of the polynomial with coefficients p, by Horner's scheme.
Array polyval(const Operand& p, const Operand& x);
/// Coefficients of the sum of two polynomials.
Array polyadd(const Operand& a, const Operand& b);
/// Coefficients of the difference of two polynomials.
Array polysub(const Operand& a, const Operand& b);
/// Coefficients of the product of two polynomials, as floats.
Array polymul(const Operand& a, const Operand& b);
/// Coefficients of quotient and remainder of u / v, as floats; the remainder keeps the length of `u`.
std::pair<Array, Array> polydiv(const Operand& u, const Operand& v);
/// Coefficients of the m-th derivative, as floats. Throws `ValueError` for a negative m.
Array polyder(const Operand& p, std::int64_t m = 1);
/// Coefficients of the m-fold integral, as floats; `constants` of integration are one or m (0 unless given). Throws
/// `ValueError` for another count.
Array polyint(const Operand& p, std::int64_t m = 1, const std::optional<Array>& constants = std::nullopt);
/// Coefficients of the monic polynomial with these zeros, as floats.
Array poly(const Operand& zeros);
/// Least-squares coefficients of degree `deg` for the points (x, y); `weights` multiply residuals. Throws `ValueError`
/// for a negative degree and for vectors of different lengths.
Array polyfit(const Operand& x, const Operand& y, std::int64_t deg, const std::optional<Array>& weights = std::nullopt);

}  // namespace tessera
