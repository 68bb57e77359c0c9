// SPDX-License-Identifier: Apache-2.0
// Operations on arrays. Element-wise ones broadcast as NumPy does and promote dtypes as JAX does. Every function runs
// eagerly on arrays with data, and adds an equation to the program when it is called inside a traced function.
//
// Sharded operands: element-wise operations communicate only where their operands have different shardings (the
// partitioner then reshards one of them); reductions and contractions over a sharded dimension need an all-reduce or a
// reduce-scatter. `Lowered::comm_plan` lists the collectives of a program.
//
// Errors: `TypeError` for a dtype that the operation lacks, `ValueError` for shapes or attributes that do not fit,
// `DeviceMismatchError` for committed operands on different devices; the message names the operation and the operand.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tessera/array.h"
#include "tessera/operand.h"
#include "tessera/precision.h"
#include "tessera/reduce_options.h"
#include "tessera/sharding_arg.h"

namespace tessera {

// --- arithmetic -----------------------------------------------------------------------------------
/// `add`.
Array operator+(const Operand& x, const Operand& y);
/// `subtract`.
Array operator-(const Operand& x, const Operand& y);
/// `multiply`.
Array operator*(const Operand& x, const Operand& y);
/// `divide`: true division, integers give floats.
Array operator/(const Operand& x, const Operand& y);
/// `negative`.
Array operator-(const Operand& x);
/// `logical_not`, element-wise. It takes an `Array`, not an `Operand`, for which `!x` would be ambiguous with a test of
/// x; the equation therefore has no source line.
Array operator!(const Array& x);
/// `bitwise_not`.
Array operator~(const Operand& x);
/// `bitwise_and`; both operands are evaluated.
Array operator&(const Operand& x, const Operand& y);
/// `bitwise_or`; both operands are evaluated.
Array operator|(const Operand& x, const Operand& y);
/// Element-wise equality, bool. NaN equals nothing, itself included.
Array operator==(const Operand& x, const Operand& y);
/// Element-wise inequality, bool; true where an operand is NaN.
Array operator!=(const Operand& x, const Operand& y);
/// Element-wise x < y, bool; false where an operand is NaN. Throws `TypeError` for complex operands, as the three
/// below.
Array operator<(const Operand& x, const Operand& y);
/// Element-wise x <= y, bool.
Array operator<=(const Operand& x, const Operand& y);
/// Element-wise x > y, bool.
Array operator>(const Operand& x, const Operand& y);
/// Element-wise x >= y, bool.
Array operator>=(const Operand& x, const Operand& y);

/// x + y; integers wrap, bools give their logical or.
Array add(const Operand& x, const Operand& y);
/// x - y; integers wrap. Throws `TypeError` for bools.
Array subtract(const Operand& x, const Operand& y);
/// x * y; integers wrap, bools give their logical and.
Array multiply(const Operand& x, const Operand& y);
/// x / y as floats: integers become float32, 64-bit ones float64. A zero divisor gives an infinity or NaN.
Array divide(const Operand& x, const Operand& y);
/// -x; integers wrap. Throws `TypeError` for bool.
Array negative(const Operand& x);
/// The larger of x and y; NaN where either is NaN. Complex elements compare by real, then imaginary part.
Array maximum(const Operand& x, const Operand& y);
/// The smaller of x and y; NaN where either is NaN. Complex elements compare by real, then imaginary part.
Array minimum(const Operand& x, const Operand& y);
/// x to the power y. Integers stay integers and wrap; a negative exponent gives 0 where |x| > 1. Throws `TypeError` for
/// bools.
Array power(const Operand& x, const Operand& y);
/// e to the power x; floats (integers are converted) and complex, as the functions below.
Array exp(const Operand& x);
/// Natural logarithm; -infinity at 0, NaN below.
Array log(const Operand& x);
/// Square root; NaN below 0.
Array sqrt(const Operand& x);
/// 1 / sqrt(x); infinity at 0, NaN below.
Array rsqrt(const Operand& x);
/// Sine of x in radians.
Array sin(const Operand& x);
/// Cosine of x in radians.
Array cos(const Operand& x);
/// Hyperbolic tangent.
Array tanh(const Operand& x);
/// Bool: true where x is zero.
Array logical_not(const Operand& x);
/// Bool: true where neither x nor y is zero.
Array logical_and(const Operand& x, const Operand& y);
/// Bool: true where x or y is not zero.
Array logical_or(const Operand& x, const Operand& y);
/// New buffers with the same values and sharding.
Array copy(const Operand& x);
/// `condition ? x : y`, element-wise: the three broadcast, x and y are promoted, a condition that is no bool is true
/// where it is not zero.
Array where(const Operand& condition, const Operand& x, const Operand& y);
/// Converts to `dtype`, strongly typed. Floats to integers round toward zero and saturate, NaN gives 0; complex to real
/// drops the imaginary part; to bool is true where not zero.
Array astype(const Operand& x, DType dtype);

// --- more element-wise functions; those on floats convert integers first: 64-bit ones to float64, others to float32 --
/// 2 to the power x.
Array exp2(const Operand& x);
/// exp(x) - 1, accurate near 0.
Array expm1(const Operand& x);
/// log(1 + x), accurate near 0; -infinity at -1, NaN below.
Array log1p(const Operand& x);
/// Logarithm to base 2.
Array log2(const Operand& x);
/// Logarithm to base 10.
Array log10(const Operand& x);
/// Cube root of a real x; negative for negative x. Throws `TypeError` for complex.
Array cbrt(const Operand& x);
/// x * x; integers stay integers and wrap.
Array square(const Operand& x);
/// 1 / x; integers give floats.
Array reciprocal(const Operand& x);
/// Tangent of x in radians.
Array tan(const Operand& x);
/// Inverse sine in [-pi/2, pi/2]; NaN for real x outside [-1, 1].
Array arcsin(const Operand& x);
/// Inverse cosine in [0, pi]; NaN for real x outside [-1, 1].
Array arccos(const Operand& x);
/// Inverse tangent in (-pi/2, pi/2).
Array arctan(const Operand& x);
/// Hyperbolic sine.
Array sinh(const Operand& x);
/// Hyperbolic cosine.
Array cosh(const Operand& x);
/// Inverse hyperbolic sine.
Array arcsinh(const Operand& x);
/// Inverse hyperbolic cosine; NaN for real x below 1.
Array arccosh(const Operand& x);
/// Inverse hyperbolic tangent; infinite at -1 and 1, NaN for real x beyond.
Array arctanh(const Operand& x);
/// The logistic sigmoid 1 / (1 + exp(-x)).
Array logistic(const Operand& x);
/// Error function. The functions from here to `betainc` take real operands; `TypeError` for complex.
Array erf(const Operand& x);
/// 1 - erf(x), accurate where erf is near 1.
Array erfc(const Operand& x);
/// Inverse error function; infinite at -1 and 1, NaN beyond.
Array erf_inv(const Operand& x);
/// log |gamma(x)|; infinity at 0 and at negative integers.
Array lgamma(const Operand& x);
/// Derivative of log gamma; NaN at 0 and at negative integers.
Array digamma(const Operand& x);
/// Modified Bessel function of order 0, times exp(-|x|).
Array bessel_i0e(const Operand& x);
/// Modified Bessel function of order 1, times exp(-|x|).
Array bessel_i1e(const Operand& x);
/// n-th derivative of `digamma` at x; NaN where n is no natural number. No derivative by n (`UnimplementedError`).
Array polygamma(const Operand& n, const Operand& x);
/// Hurwitz zeta function, the sum of (q + k)^-x over k >= 0; NaN for x < 1, infinity at 1. No derivative by x.
Array zeta(const Operand& x, const Operand& q);
/// Regularized lower incomplete gamma function P(a, x); NaN for negative operands.
Array igamma(const Operand& a, const Operand& x);
/// Regularized upper incomplete gamma function Q(a, x) = 1 - P(a, x).
Array igammac(const Operand& a, const Operand& x);
/// Regularized incomplete beta function I_x(a, b); NaN outside 0 <= x <= 1. Differentiable in x alone.
Array betainc(const Operand& a, const Operand& b, const Operand& x);
/// Magnitude; real for complex operands, the operand itself for bool and unsigned ones.
Array abs(const Operand& x);
/// -1, 0 or 1; NaN at NaN, a zero keeps its sign. Complex: x / |x|, 0 at 0. Throws `TypeError` for bool.
Array sign(const Operand& x);
/// Largest integral value not above x, in x's dtype; integers and bools are returned as they are.
Array floor(const Operand& x);
/// Smallest integral value not below x, in x's dtype; integers and bools are returned as they are.
Array ceil(const Operand& x);
/// To `decimals` decimal places, ties to even. Integers are returned as they are; `UnimplementedError` for a negative
/// `decimals` with them.
Array round(const Operand& x, std::int64_t decimals = 0);
/// Nearest integral value, ties to even, as a float.
Array rint(const Operand& x);
/// x without its fraction, toward zero; integers and bools are returned as they are.
Array trunc(const Operand& x);
/// Bool: neither infinite nor NaN (complex: both parts); true for integers.
Array isfinite(const Operand& x);
/// Bool: x is NaN (complex: a part is).
Array isnan(const Operand& x);
/// Bool: x is infinite (complex: a part is); false for integers.
Array isinf(const Operand& x);
/// Real part; the operand itself where it is real.
Array real(const Operand& x);
/// Imaginary part; zeros of x's dtype where x is real.
Array imag(const Operand& x);
/// Complex conjugate; the operand itself where it is real.
Array conj(const Operand& x);
/// From real and imaginary parts of equal float dtype.
Array complex(const Operand& re, const Operand& im);
/// x to an integer power that is known while tracing. Integers stay integers; `TypeError` for a negative y with them
/// and for bool.
Array integer_pow(const Operand& x, std::int64_t y);
/// Angle of the point (x, y) in (-pi, pi], real floats.
Array arctan2(const Operand& y, const Operand& x);
/// The next float after x toward y. It has no derivative.
Array nextafter(const Operand& x, const Operand& y);
/// Remainder with the divisor's sign, as Python's %.
Array remainder(const Operand& x, const Operand& y);
/// Remainder with the dividend's sign, as C's %.
Array fmod(const Operand& x, const Operand& y);
/// floor(x / y) in the promoted dtype; of integers divided by 0 the result is unspecified.
Array floor_divide(const Operand& x, const Operand& y);
/// `remainder`.
Array operator%(const Operand& x, const Operand& y);
/// Bool: exactly one of x and y is not zero.
Array logical_xor(const Operand& x, const Operand& y);
/// Bitwise and of integers, logical and of bools. Throws `TypeError` for floats.
Array bitwise_and(const Operand& x, const Operand& y);
/// Bitwise or of integers, logical or of bools.
Array bitwise_or(const Operand& x, const Operand& y);
/// Bitwise exclusive or of integers, inequality of bools.
Array bitwise_xor(const Operand& x, const Operand& y);
/// Bitwise complement of integers, negation of bools.
Array bitwise_not(const Operand& x);
/// `bitwise_xor`.
Array operator^(const Operand& x, const Operand& y);
/// x * 2^y for integers, bits beyond the width are lost; 0 where y is negative or not below the width, as XLA.
Array left_shift(const Operand& x, const Operand& y);
/// Arithmetic shift for signed operands, logical for unsigned ones. Where y is negative or not below the width: 0, or
/// -1 for a negative x.
Array right_shift(const Operand& x, const Operand& y);
/// `left_shift`.
Array operator<<(const Operand& x, const Operand& y);
/// `right_shift`.
Array operator>>(const Operand& x, const Operand& y);
/// Count of one bits of an integer, in its dtype.
Array population_count(const Operand& x);
/// Count of leading zero bits of an integer, in its dtype.
Array clz(const Operand& x);
/// min(max(low, x), high) for operands of one dtype; low and high have x's shape or rank 0. NaN where any is NaN; where
/// low > high, high. Throws `TypeError` for complex operands and for dtypes that differ.
Array clamp(const Operand& low, const Operand& x, const Operand& high);
/// The same bits under another dtype (StableHLO's bitcast_convert): a narrower dtype adds a last dimension, a wider one
/// consumes it. Throws `TypeError` for bool and complex, `ValueError` where the last dimension does not fit.
Array bitcast_convert_type(const Operand& x, DType dtype);
/// Rounds a float to a format of so many exponent and mantissa bits, in x's own dtype. Throws `ValueError` for fewer
/// than 1 exponent bit or a negative count.
Array reduce_precision(const Operand& x, std::int64_t exponent_bits, std::int64_t mantissa_bits);
/// The value itself, with derivative zero.
Array stop_gradient(const Operand& x);

// --- creation --------------------------------------------------------------------------------------
/// Zeros on the default device, uncommitted. Throws `ValueError` for a negative extent.
Array zeros(const Shape& shape, DType dtype = float32, const Loc& loc = Loc::current());
/// Ones on the default device, uncommitted. Throws `ValueError` for a negative extent.
Array ones(const Shape& shape, DType dtype = float32, const Loc& loc = Loc::current());
/// Zeros that are made where `options.out_sharding` places them: each device makes its own part.
Array zeros(const Shape& shape, const PlaceOptions& options, const Loc& loc = Loc::current());
/// The same with a dtype.
Array zeros(const Shape& shape, DType dtype, const PlaceOptions& options, const Loc& loc = Loc::current());
/// Ones that are made where `options.out_sharding` places them.
Array ones(const Shape& shape, const PlaceOptions& options, const Loc& loc = Loc::current());
/// The same with a dtype.
Array ones(const Shape& shape, DType dtype, const PlaceOptions& options, const Loc& loc = Loc::current());
/// Every element is `value`, of rank 0. The dtype is that of `value` (weak float32 or int32 for a C++ scalar) unless
/// one is given.
Array full(const Shape& shape, const Operand& value, std::optional<DType> dtype = std::nullopt);
/// The same, placed as `options.out_sharding`.
Array full(const Shape& shape, const Operand& value, const PlaceOptions& options);
/// The same with a dtype.
Array full(const Shape& shape, const Operand& value, std::optional<DType> dtype, const PlaceOptions& options);
/// Zeros of x's shape and dtype; with x's sharding where x is committed and concrete, and with that of its type.
Array zeros_like(const Operand& x);
/// Ones of x's shape and dtype; with x's sharding where x is committed and concrete, and with that of its type.
Array ones_like(const Operand& x);
/// What `zeros_like` and its kin may have other than their template.
struct LikeOptions {
  std::optional<DType> dtype = std::nullopt;
  MaybeDims shape = {};           ///< with another shape the result is unsplit, unless `out_sharding` is given
  ShardingArg out_sharding = {};  ///< as in `PlaceOptions`
};
/// Zeros like x but for what the options give.
Array zeros_like(const Operand& x, const LikeOptions& options);
/// Ones like x but for what the options give.
Array ones_like(const Operand& x, const LikeOptions& options);
/// 0, 1, …, stop - 1 as int32; empty for a negative stop. tessera/creation.h has other dtypes and floats.
Array arange(std::int64_t stop, const Loc& loc = Loc::current());
/// start, start + step, … below stop (above it for a negative step) as int32. Throws `ValueError` for step 0.
Array arange(std::int64_t start, std::int64_t stop, std::int64_t step = 1, const Loc& loc = Loc::current());
/// 0, 1, …, stop - 1, placed as `options.out_sharding`.
Array arange(std::int64_t stop, const PlaceOptions& options, const Loc& loc = Loc::current());
/// The range of three arguments, placed as `options.out_sharding`.
Array arange(std::int64_t start, std::int64_t stop, std::int64_t step, const PlaceOptions& options,
             const Loc& loc = Loc::current());
/// 0, 1, … along `dimension`, constant along the others, as StableHLO's iota.
Array iota(DType dtype, const Shape& shape, std::int64_t dimension = 0, const Loc& loc = Loc::current());

// --- shapes ------------------------------------------------------------------------------------------
/// The elements of x in row-major order under another shape; one extent may be -1 and is computed. Throws `ValueError`
/// when sizes differ.
Array reshape(const Operand& x, const Shape& shape);
/// Order and placement of `reshape`.
struct ReshapeOptions {
  Dims dimensions = {};           ///< the order in which x's dimensions are read, as by `transpose`; none: as they are
  bool column_major = false;      ///< read and fill with the first index fastest: NumPy's order "F"
  ShardingArg out_sharding = {};  ///< as in `PlaceOptions`
};
/// The same with options. Throws `ValueError` for `dimensions` that are no permutation and for both orders together,
/// `ShardingTypeError` where x is split, is read in another order, and `out_sharding` is not given.
Array reshape(const Operand& x, const Shape& shape, const ReshapeOptions& options);
/// Reverses the order of the dimensions.
Array transpose(const Operand& x);
/// Dimension i of the result is dimension permutation[i] of x. Throws `ValueError` unless it is a permutation.
Array transpose(const Operand& x, const Dims& permutation);
/// Repeats x to `shape` by NumPy's rule. Throws `ValueError` where x's shape does not broadcast to it.
Array broadcast_to(const Operand& x, const Shape& shape);
/// The same, placed as `options.out_sharding`.
Array broadcast_to(const Operand& x, const Shape& shape, const PlaceOptions& options);
/// StableHLO's broadcast_in_dim: dimension i of x becomes dimension dims[i] of the result; extents of 1 are repeated.
Array broadcast_in_dim(const Operand& x, const Shape& shape, const Dims& dims);
/// The same, placed as `options.out_sharding`.
Array broadcast_in_dim(const Operand& x, const Shape& shape, const Dims& dims, const PlaceOptions& options);

// --- reductions: over all axes unless some are given; negative axes count from the end -----------------
/// Sum over the axes; 0 for no elements. The result has `options.dtype`, else x's dtype; bool, int8 and int16 are
/// summed as int32, uint8 and uint16 as uint32.
Array sum(const Operand& x, const ReduceOptions& options = {});
/// Product over the axes, with the dtypes of `sum`; 1 for no elements.
Array prod(const Operand& x, const ReduceOptions& options = {});
/// Mean over the axes: floats for integers; NaN for no elements. Half-precision values are summed in float32.
Array mean(const Operand& x, const ReduceOptions& options = {});
/// Largest element over the axes, in x's dtype; NaN where one is. Throws `ValueError` over an empty axis.
Array max(const Operand& x, const ReduceOptions& options = {});
/// Smallest element over the axes, in x's dtype; NaN where one is. Throws `ValueError` over an empty axis.
Array min(const Operand& x, const ReduceOptions& options = {});
/// Bool: no element is zero; true for no elements.
Array all(const Operand& x, const ReduceOptions& options = {});
/// Bool: some element is not zero; false for no elements.
Array any(const Operand& x, const ReduceOptions& options = {});
/// Sum over one axis.
inline Array sum(const Operand& x, std::int64_t axis) { return sum(x, ReduceOptions{.axis = Dims{axis}}); }
/// Mean over one axis.
inline Array mean(const Operand& x, std::int64_t axis) { return mean(x, ReduceOptions{.axis = Dims{axis}}); }
/// Largest element over one axis.
inline Array max(const Operand& x, std::int64_t axis) { return max(x, ReduceOptions{.axis = Dims{axis}}); }
/// Smallest element over one axis.
inline Array min(const Operand& x, std::int64_t axis) { return min(x, ReduceOptions{.axis = Dims{axis}}); }

// --- products ------------------------------------------------------------------------------------------
/// Which dimensions `dot_general` contracts and which it treats as batches, pairwise by position.
struct DotDimensionNumbers {
  Dims lhs_contracting = {}, rhs_contracting = {}, lhs_batch = {}, rhs_batch = {};
};
/// Result dtype, precision and placement of products.
struct DotOptions {
  std::optional<DType> preferred_element_type = std::nullopt;
  Precision precision = Precision::Default;
  /// As in `PlaceOptions`. Unreduced axes must be those of the contracted dimensions, split alike on both sides, else
  /// `ShardingTypeError`: the products of each device's part then stay unsummed.
  ShardingArg out_sharding = {};
};
/// StableHLO's dot_general: contracts and batches the given dimensions of two operands of one dtype. The result's
/// dimensions are the batch ones, the free ones of lhs, then those of rhs. Contracting a sharded dimension gives
/// partial sums, which an all-reduce or a reduce-scatter adds. Throws `TypeError` for dtypes that differ, `ValueError`
/// for dimensions and extents that do not fit.
Array dot_general(const Operand& lhs, const Operand& rhs, const DotDimensionNumbers& dims,
                  const DotOptions& options = {});
/// NumPy's matmul: dtypes are promoted, batch dimensions broadcast, an operand of rank 1 is a row (x) or a column (y)
/// whose dimension the result lacks. Communicates as `dot_general`. Throws `ValueError` for rank 0 and extents that
/// differ.
Array matmul(const Operand& x, const Operand& y, const DotOptions& options = {});

// --- placement -------------------------------------------------------------------------------------------
/// Inside a traced function: the value, and its gradient, have this sharding from here on; the partitioner inserts the
/// collectives that resharding needs. Over unreduced axes the value stays a sum of what devices hold, and nothing is
/// added up here. Eagerly: `device_put`. Throws `IndivisibleError` for an extent that does not
/// divide, `ValueError` for a null sharding, for more entries than dimensions and for axes that an enclosing
/// `shard_map` maps, `UnimplementedError` for anything but a `NamedSharding` inside a traced function.
Array with_sharding_constraint(const Operand& x, const ShardingPtr& sharding);
/// Over the mesh of the enclosing `shard_map`, else of the current scope. Throws `StateError` where there is none.
Array with_sharding_constraint(const Operand& x, const PartitionSpec& spec);

}  // namespace tessera
