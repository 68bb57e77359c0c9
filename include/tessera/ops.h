// SPDX-License-Identifier: Apache-2.0
// Operations on arrays. Element-wise ones broadcast as NumPy does and promote dtypes as JAX does. Every function runs
// at once on arrays with data, and adds an equation to the program when it is called inside a traced function.
//
// Errors: `TypeError` for a dtype that the operation lacks, `ValueError` for shapes or attributes that do not fit,
// `DeviceMismatchError` for committed operands on different devices; the text names the operation and the operand.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tessera/array.h"
#include "tessera/operand.h"
#include "tessera/reduce_options.h"

namespace tessera {

// --- arithmetic -----------------------------------------------------------------------------------
Array operator+(const Operand& x, const Operand& y);
Array operator-(const Operand& x, const Operand& y);
Array operator*(const Operand& x, const Operand& y);
/// True division: integers give floats.
Array operator/(const Operand& x, const Operand& y);
Array operator-(const Operand& x);
/// Element by element, as `logical_not`, without the caller's line: for `Operand`, `!x` would as well be a test of x.
Array operator!(const Array& x);
Array operator~(const Operand& x);
Array operator&(const Operand& x, const Operand& y);
Array operator|(const Operand& x, const Operand& y);
Array operator==(const Operand& x, const Operand& y);
Array operator!=(const Operand& x, const Operand& y);
Array operator<(const Operand& x, const Operand& y);
Array operator<=(const Operand& x, const Operand& y);
Array operator>(const Operand& x, const Operand& y);
Array operator>=(const Operand& x, const Operand& y);

Array add(const Operand& x, const Operand& y);
Array subtract(const Operand& x, const Operand& y);
Array multiply(const Operand& x, const Operand& y);
Array divide(const Operand& x, const Operand& y);
Array negative(const Operand& x);
Array maximum(const Operand& x, const Operand& y);
Array minimum(const Operand& x, const Operand& y);
Array power(const Operand& x, const Operand& y);
Array exp(const Operand& x);
Array log(const Operand& x);
Array sqrt(const Operand& x);
Array rsqrt(const Operand& x);
Array sin(const Operand& x);
Array cos(const Operand& x);
Array tanh(const Operand& x);
Array logical_not(const Operand& x);
Array logical_and(const Operand& x, const Operand& y);
Array logical_or(const Operand& x, const Operand& y);
/// Other buffers with the same values and sharding.
Array copy(const Operand& x);
/// `condition ? x : y`, element by element.
Array where(const Operand& condition, const Operand& x, const Operand& y);
Array astype(const Operand& x, DType dtype);

// --- more element-wise functions; those of one float operand convert integers to float32 first -------------
Array exp2(const Operand& x);
Array expm1(const Operand& x);
Array log1p(const Operand& x);
Array log2(const Operand& x);
Array log10(const Operand& x);
Array cbrt(const Operand& x);
Array square(const Operand& x);
Array reciprocal(const Operand& x);
Array tan(const Operand& x);
Array arcsin(const Operand& x);
Array arccos(const Operand& x);
Array arctan(const Operand& x);
Array sinh(const Operand& x);
Array cosh(const Operand& x);
Array arcsinh(const Operand& x);
Array arccosh(const Operand& x);
Array arctanh(const Operand& x);
/// 1 / (1 + exp(-x)).
Array logistic(const Operand& x);
Array erf(const Operand& x);
Array erfc(const Operand& x);
Array erf_inv(const Operand& x);
Array lgamma(const Operand& x);
Array digamma(const Operand& x);
Array bessel_i0e(const Operand& x);
Array bessel_i1e(const Operand& x);
Array polygamma(const Operand& n, const Operand& x);
Array zeta(const Operand& x, const Operand& q);
Array igamma(const Operand& a, const Operand& x);
Array igammac(const Operand& a, const Operand& x);
Array betainc(const Operand& a, const Operand& b, const Operand& x);
/// Magnitude; real for complex operands.
Array abs(const Operand& x);
Array sign(const Operand& x);
Array floor(const Operand& x);
Array ceil(const Operand& x);
/// To `decimals` places, halves to even.
Array round(const Operand& x, std::int64_t decimals = 0);
Array rint(const Operand& x);
Array trunc(const Operand& x);
Array isfinite(const Operand& x);
Array isnan(const Operand& x);
Array isinf(const Operand& x);
Array real(const Operand& x);
Array imag(const Operand& x);
Array conj(const Operand& x);
/// From real and imaginary parts of equal float dtype.
Array complex(const Operand& re, const Operand& im);
/// x to a whole power known now; integers stay integers.
Array integer_pow(const Operand& x, std::int64_t y);
Array arctan2(const Operand& y, const Operand& x);
Array nextafter(const Operand& x, const Operand& y);
/// Remainder with the divisor's sign, as Python's %.
Array remainder(const Operand& x, const Operand& y);
/// Remainder with the dividend's sign, as C's %.
Array fmod(const Operand& x, const Operand& y);
Array floor_divide(const Operand& x, const Operand& y);
Array operator%(const Operand& x, const Operand& y);
Array logical_xor(const Operand& x, const Operand& y);
Array bitwise_and(const Operand& x, const Operand& y);
Array bitwise_or(const Operand& x, const Operand& y);
Array bitwise_xor(const Operand& x, const Operand& y);
Array bitwise_not(const Operand& x);
Array operator^(const Operand& x, const Operand& y);
Array left_shift(const Operand& x, const Operand& y);
/// Arithmetic for signed operands, logical for unsigned ones.
Array right_shift(const Operand& x, const Operand& y);
Array operator<<(const Operand& x, const Operand& y);
Array operator>>(const Operand& x, const Operand& y);
Array population_count(const Operand& x);
/// Count of leading zero bits.
Array clz(const Operand& x);
Array clamp(const Operand& low, const Operand& x, const Operand& high);
/// Same bits under another dtype; a wider or narrower one takes or adds a last dimension.
Array bitcast_convert_type(const Operand& x, DType dtype);
Array reduce_precision(const Operand& x, std::int64_t exponent_bits, std::int64_t mantissa_bits);
/// The value; its derivative is zero.
Array stop_gradient(const Operand& x);

// --- making ----------------------------------------------------------------------------------------
Array zeros(const Shape& shape, DType dtype = float32, const Loc& loc = Loc::current());
Array ones(const Shape& shape, DType dtype = float32, const Loc& loc = Loc::current());
/// The dtype of `value` (float32 or int32 for a number) unless one is given.
Array full(const Shape& shape, const Operand& value, std::optional<DType> dtype = std::nullopt);
Array zeros_like(const Operand& x);
Array ones_like(const Operand& x);
/// start, start + step, …, below stop; int32 when all three are whole numbers of int type.
Array arange(std::int64_t stop, const Loc& loc = Loc::current());
Array arange(std::int64_t start, std::int64_t stop, std::int64_t step = 1, const Loc& loc = Loc::current());
/// Numbers 0, 1, … along `dimension`.
Array iota(DType dtype, const Shape& shape, std::int64_t dimension = 0, const Loc& loc = Loc::current());

// --- shapes ------------------------------------------------------------------------------------------
/// One extent may be -1. Throws `ValueError` when sizes differ.
Array reshape(const Operand& x, const Shape& shape);
/// Reverses the dimensions, or permutes them.
Array transpose(const Operand& x);
Array transpose(const Operand& x, const Dims& permutation);
Array broadcast_to(const Operand& x, const Shape& shape);
/// StableHLO's: result dimension dims[i] is operand dimension i.
Array broadcast_in_dim(const Operand& x, const Shape& shape, const Dims& dims);

// --- reductions: over all axes unless some are given; negative axes count from the end -----------------
/// Bool and small integers are summed in int32 (uint32).
Array sum(const Operand& x, const ReduceOptions& options = {});
Array prod(const Operand& x, const ReduceOptions& options = {});
Array mean(const Operand& x, const ReduceOptions& options = {});
Array max(const Operand& x, const ReduceOptions& options = {});
Array min(const Operand& x, const ReduceOptions& options = {});
Array all(const Operand& x, const ReduceOptions& options = {});
Array any(const Operand& x, const ReduceOptions& options = {});
inline Array sum(const Operand& x, std::int64_t axis) { return sum(x, ReduceOptions{.axis = Dims{axis}}); }
inline Array mean(const Operand& x, std::int64_t axis) { return mean(x, ReduceOptions{.axis = Dims{axis}}); }
inline Array max(const Operand& x, std::int64_t axis) { return max(x, ReduceOptions{.axis = Dims{axis}}); }
inline Array min(const Operand& x, std::int64_t axis) { return min(x, ReduceOptions{.axis = Dims{axis}}); }

// --- products ------------------------------------------------------------------------------------------
struct DotDimensionNumbers {
  Dims lhs_contracting = {}, rhs_contracting = {}, lhs_batch = {}, rhs_batch = {};
};
struct DotOptions {
  std::optional<DType> preferred_element_type = std::nullopt;
  std::string precision = "default";  ///< "default", "high", "highest"
};
Array dot_general(const Operand& lhs, const Operand& rhs, const DotDimensionNumbers& dims,
                  const DotOptions& options = {});
/// NumPy's matmul: batch dimensions broadcast, rank 1 is a row or a column.
Array matmul(const Operand& x, const Operand& y, const DotOptions& options = {});

// --- placement -------------------------------------------------------------------------------------------
/// Inside a program: the value lies so (and its gradient too). At once: moves it there.
Array with_sharding_constraint(const Operand& x, const ShardingPtr& sharding);
Array with_sharding_constraint(const Operand& x, const PartitionSpec& spec);

}  // namespace tessera
