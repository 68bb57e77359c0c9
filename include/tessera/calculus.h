// SPDX-License-Identifier: Apache-2.0
// NumPy's differences, integrals, interpolation, convolution of vectors, and polynomials (coefficients of the highest
// power first).
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "tessera/array.h"
#include "tessera/operand.h"

namespace tessera {

struct DiffOptions {
  std::int64_t n = 1;
  std::int64_t axis = -1;
  std::optional<Array> prepend = std::nullopt, append = std::nullopt;
};
/// Differences of neighbours, n times; of bools whether they differ.
Array diff(const Operand& x, const DiffOptions& options = {});
/// Differences of the flattened array, with more in front and behind.
Array ediff1d(const Operand& x, const std::optional<Array>& to_end = std::nullopt,
              const std::optional<Array>& to_begin = std::nullopt);
/// Central differences along each of the axes (all unless given), one-sided at the ends. `spacing`: one distance for
/// all, or one a given axis: a scalar, or the coordinates along it.
std::vector<Array> gradient(const Operand& f, const std::vector<Array>& spacing = {}, const MaybeDims& axis = {});
/// Trapezoidal rule along an axis, over coordinates x or at distances dx.
Array trapezoid(const Operand& y, const std::optional<Array>& x = std::nullopt, double dx = 1, std::int64_t axis = -1);
struct InterpOptions {
  std::optional<Array> left = std::nullopt, right = std::nullopt;  ///< beyond the ends; the end values if not given
  bool extrapolate = false;                                        ///< beyond the ends, the first and last line
  std::optional<double> period = std::nullopt;
};
/// Linear interpolation between the points (xp, fp), xp ascending.
Array interp(const Operand& x, const Operand& xp, const Operand& fp, const InterpOptions& options = {});
/// Adds periods where neighbours differ by more than `discont` (half a period unless given).
Array unwrap(const Operand& p, std::optional<double> discont = std::nullopt, std::int64_t axis = -1,
             double period = 6.283185307179586);

enum class ConvolveMode { Full, Same, Valid };
/// Of two vectors.
Array convolve(const Operand& a, const Operand& v, ConvolveMode mode = ConvolveMode::Full);
Array correlate(const Operand& a, const Operand& v, ConvolveMode mode = ConvolveMode::Valid);

Array polyval(const Operand& p, const Operand& x);
Array polyadd(const Operand& a, const Operand& b);
Array polysub(const Operand& a, const Operand& b);
Array polymul(const Operand& a, const Operand& b);
/// Quotient and remainder (of the length of `u`).
std::pair<Array, Array> polydiv(const Operand& u, const Operand& v);
Array polyder(const Operand& p, std::int64_t m = 1);
/// m-fold integral; `constants` are of integration, one or m (0 unless given).
Array polyint(const Operand& p, std::int64_t m = 1, const std::optional<Array>& constants = std::nullopt);
/// Coefficients of the polynomial with these zeros.
Array poly(const Operand& zeros);
/// Least-squares coefficients of degree `deg`; `weights` multiply residuals.
Array polyfit(const Operand& x, const Operand& y, std::int64_t deg, const std::optional<Array>& weights = std::nullopt);

}  // namespace tessera
