// SPDX-License-Identifier: Apache-2.0
// NumPy's element-wise functions beyond those of ops.h: they broadcast, promote dtypes as JAX does, and convert
// integers to floats where the result is a float. `TypeError` for a dtype that a function lacks.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "tessera/array.h"
#include "tessera/operand.h"

namespace tessera {

/// The operand itself, as an array.
Array positive(const Operand& x);
/// Magnitude as a float.
Array fabs(const Operand& x);
/// Phase of a complex number; pi for negative real ones.
Array angle(const Operand& z, bool deg = false);
Array deg2rad(const Operand& x);
Array rad2deg(const Operand& x);
Array radians(const Operand& x);
Array degrees(const Operand& x);
/// x to the power y, always as floats.
Array float_power(const Operand& x, const Operand& y);
/// The larger (smaller) of two; a NaN loses against a number.
Array fmax(const Operand& x, const Operand& y);
Array fmin(const Operand& x, const Operand& y);
/// sqrt(x^2 + y^2) without overflow.
Array hypot(const Operand& x, const Operand& y);
/// log(exp(x) + exp(y)), and with base 2.
Array logaddexp(const Operand& x, const Operand& y);
Array logaddexp2(const Operand& x, const Operand& y);
/// 0 below zero, 1 above, `at_zero` at zero.
Array heaviside(const Operand& x, const Operand& at_zero);
/// sin(pi x) / (pi x), 1 at zero.
Array sinc(const Operand& x);
/// Modified Bessel function of order 0.
Array i0(const Operand& x);
Array signbit(const Operand& x);
/// Magnitude of the first with the sign of the second.
Array copysign(const Operand& x, const Operand& sign);
/// Distance to the next number away from zero.
Array spacing(const Operand& x);
/// Mantissa in [0.5, 1) and exponent (int32).
std::pair<Array, Array> frexp(const Operand& x);
/// x 2^exponent.
Array ldexp(const Operand& x, const Operand& exponent);
/// Fraction and whole part, both with the sign of x.
std::pair<Array, Array> modf(const Operand& x);
/// Floor quotient and remainder.
std::pair<Array, Array> divmod(const Operand& x, const Operand& y);
/// Greatest common divisor and least common multiple of integers.
Array gcd(const Operand& x, const Operand& y);
Array lcm(const Operand& x, const Operand& y);
/// One bits of the magnitude, as uint8.
Array bitwise_count(const Operand& x);

Array isposinf(const Operand& x);
Array isneginf(const Operand& x);
/// Whether imaginary parts are (not) zero.
Array isreal(const Operand& x);
Array iscomplex(const Operand& x);
struct CloseOptions {
  double rtol = 1e-5, atol = 1e-8;
  bool equal_nan = false;
};
/// |x - y| <= atol + rtol |y|.
Array isclose(const Operand& x, const Operand& y, const CloseOptions& options = {});
Array allclose(const Operand& x, const Operand& y, const CloseOptions& options = {});
/// One bool: equal shapes and elements.
Array array_equal(const Operand& x, const Operand& y, bool equal_nan = false);
/// One bool: equal after broadcasting; false where shapes do not broadcast.
Array array_equiv(const Operand& x, const Operand& y);
struct NanToNum {
  double nan = 0;
  std::optional<double> posinf = std::nullopt, neginf = std::nullopt;  ///< largest finite numbers where not given
};
Array nan_to_num(const Operand& x, const NanToNum& by = {});

/// Element by element, the choice of the first condition that holds, else `otherwise`.
Array select(const std::vector<Array>& conditions, const std::vector<Array>& choices, const Operand& otherwise = 0);
/// choices[a], element by element; numbers outside are clipped, or counted around with `wrap`.
Array choose(const Operand& a, const std::vector<Array>& choices, bool wrap = false);

}  // namespace tessera
