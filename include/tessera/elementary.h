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
/// Phase of a complex value in (-pi, pi], in degrees where `deg`; pi for negative real ones.
Array angle(const Operand& z, bool deg = false);
/// Degrees to radians.
Array deg2rad(const Operand& x);
/// Radians to degrees.
Array rad2deg(const Operand& x);
/// `deg2rad`.
Array radians(const Operand& x);
/// `rad2deg`.
Array degrees(const Operand& x);
/// x to the power y, always as floats.
Array float_power(const Operand& x, const Operand& y);
/// The larger of two; where one is NaN, the other.
Array fmax(const Operand& x, const Operand& y);
/// The smaller of two; where one is NaN, the other.
Array fmin(const Operand& x, const Operand& y);
/// sqrt(x^2 + y^2) without overflow.
Array hypot(const Operand& x, const Operand& y);
/// log(exp(x) + exp(y)) without overflow.
Array logaddexp(const Operand& x, const Operand& y);
/// log2(2^x + 2^y) without overflow; real operands.
Array logaddexp2(const Operand& x, const Operand& y);
/// 0 below zero, 1 above, `at_zero` at zero.
Array heaviside(const Operand& x, const Operand& at_zero);
/// sin(pi x) / (pi x), 1 at zero.
Array sinc(const Operand& x);
/// Modified Bessel function of order 0.
Array i0(const Operand& x);
/// Bool: the sign bit is set, also that of -0 and of a NaN; false for unsigned and bool.
Array signbit(const Operand& x);
/// Magnitude of the first with the sign of the second.
Array copysign(const Operand& x, const Operand& sign);
/// Distance to the next float away from zero (for float16: toward infinity, as NumPy).
Array spacing(const Operand& x);
/// Mantissa in [0.5, 1) and exponent (int32).
std::pair<Array, Array> frexp(const Operand& x);
/// x 2^exponent.
Array ldexp(const Operand& x, const Operand& exponent);
/// Fractional and integral part, both with the sign of x.
std::pair<Array, Array> modf(const Operand& x);
/// Floor quotient and remainder.
std::pair<Array, Array> divmod(const Operand& x, const Operand& y);
/// Greatest common divisor of the magnitudes of integers; 0 for two zeros. Throws `TypeError` for other dtypes.
Array gcd(const Operand& x, const Operand& y);
/// Least common multiple of the magnitudes of integers; 0 where one is 0. Throws `TypeError` for other dtypes.
Array lcm(const Operand& x, const Operand& y);
/// Count of one bits of the magnitude of integers, as uint8.
Array bitwise_count(const Operand& x);

/// Bool: x is positive infinity; false for integers. Throws `TypeError` for complex.
Array isposinf(const Operand& x);
/// Bool: x is negative infinity; false for integers. Throws `TypeError` for complex.
Array isneginf(const Operand& x);
/// Bool: the imaginary part is zero; true for real dtypes.
Array isreal(const Operand& x);
/// Bool: the imaginary part is not zero.
Array iscomplex(const Operand& x);
/// Tolerances of `isclose` and `allclose`: |x - y| <= atol + rtol |y|.
struct CloseOptions {
  double rtol = 1e-5, atol = 1e-8;
  bool equal_nan = false;
};
/// Bool: |x - y| <= atol + rtol |y|, or equal infinities; NaN is close to NaN where `equal_nan`.
Array isclose(const Operand& x, const Operand& y, const CloseOptions& options = {});
/// One bool: `isclose` holds for all elements after broadcasting.
Array allclose(const Operand& x, const Operand& y, const CloseOptions& options = {});
/// One bool: equal shapes and equal elements; NaN equals NaN where `equal_nan`.
Array array_equal(const Operand& x, const Operand& y, bool equal_nan = false);
/// One bool: equal after broadcasting; false where shapes do not broadcast.
Array array_equiv(const Operand& x, const Operand& y);
/// What `nan_to_num` puts in place of NaN and infinities.
struct NanToNum {
  double nan = 0;
  std::optional<double> posinf = std::nullopt, neginf = std::nullopt;  ///< largest finite values where not given
};
/// x with NaN and the infinities replaced, complex parts alike; integers are returned as they are.
Array nan_to_num(const Operand& x, const NanToNum& by = {});

/// Element-wise the choice of the first condition that holds, else `otherwise`; all broadcast, the choices are
/// promoted. Throws `ValueError` unless there are as many conditions as choices, at least one.
Array select(const std::vector<Array>& conditions, const std::vector<Array>& choices, const Operand& otherwise = 0);
/// Element-wise choices[a], all broadcast; indices outside are clipped, or counted around with `wrap`. Throws
/// `TypeError` unless `a` holds integers, `ValueError` without choices.
Array choose(const Operand& a, const std::vector<Array>& choices, bool wrap = false);

}  // namespace tessera
