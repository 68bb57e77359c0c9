// SPDX-License-Identifier: Apache-2.0
// Aliases: other names that NumPy and JAX have for functions, and the names of the library's own namespace under
// jax.lax, jax.nn, jax.numpy.linalg, jax.scipy.special and jax.random, so that a program can be ported word by word.
// The functions that an alias calls specify shapes, dtypes and errors. (`lax` functions promote their operands here;
// JAX requires equal dtypes and shapes.)
#pragma once

#include "tessera/collectives.h"
#include "tessera/control.h"
#include "tessera/creation.h"
#include "tessera/elementary.h"
#include "tessera/indexing.h"
#include "tessera/lax.h"
#include "tessera/linalg.h"
#include "tessera/nn.h"
#include "tessera/numpy.h"
#include "tessera/ops.h"
#include "tessera/products.h"
#include "tessera/random.h"
#include "tessera/shaping.h"
#include "tessera/special.h"

namespace tessera {

// --- NumPy's ---------------------------------------------------------------------------------------------------------
/// `abs`.
inline Array absolute(const Operand& x) { return abs(x); }
/// `arccos`.
inline Array acos(const Operand& x) { return arccos(x); }
/// `arccosh`.
inline Array acosh(const Operand& x) { return arccosh(x); }
/// `arcsin`.
inline Array asin(const Operand& x) { return arcsin(x); }
/// `arcsinh`.
inline Array asinh(const Operand& x) { return arcsinh(x); }
/// `arctan`.
inline Array atan(const Operand& x) { return arctan(x); }
/// `arctan2`.
inline Array atan2(const Operand& y, const Operand& x) { return arctan2(y, x); }
/// `arctanh`.
inline Array atanh(const Operand& x) { return arctanh(x); }
/// `max`.
inline Array amax(const Operand& x, const ReduceOptions& options = {}) { return max(x, options); }
/// `min`.
inline Array amin(const Operand& x, const ReduceOptions& options = {}) { return min(x, options); }
/// `round`.
inline Array around(const Operand& x, std::int64_t decimals = 0) { return round(x, decimals); }
/// `bitwise_not`.
inline Array bitwise_invert(const Operand& x) { return bitwise_not(x); }
/// `bitwise_not`.
inline Array invert(const Operand& x) { return bitwise_not(x); }
/// `left_shift`.
inline Array bitwise_left_shift(const Operand& x, const Operand& y) { return left_shift(x, y); }
/// `right_shift`.
inline Array bitwise_right_shift(const Operand& x, const Operand& y) { return right_shift(x, y); }
/// `concatenate`.
inline Array concat(const std::vector<Array>& arrays, std::int64_t axis = 0, const Loc& loc = Loc::current()) {
  return concatenate(arrays, axis, loc);
}
/// `conj`.
inline Array conjugate(const Operand& x) { return conj(x); }
/// x == y, element-wise; it takes arrays, not scalars.
inline Array equal(const Array& x, const Array& y, const Loc& loc = Loc::current()) {
  return Operand(x, loc) == Operand(y, loc);
}
/// x != y, element-wise.
inline Array not_equal(const Operand& x, const Operand& y) { return x != y; }
/// x < y, element-wise.
inline Array less(const Operand& x, const Operand& y) { return x < y; }
/// x <= y, element-wise.
inline Array less_equal(const Operand& x, const Operand& y) { return x <= y; }
/// x > y, element-wise.
inline Array greater(const Operand& x, const Operand& y) { return x > y; }
/// x >= y, element-wise.
inline Array greater_equal(const Operand& x, const Operand& y) { return x >= y; }
/// `remainder`.
inline Array mod(const Operand& x, const Operand& y) { return remainder(x, y); }
/// `power`.
inline Array pow(const Operand& x, const Operand& y) { return power(x, y); }
/// `divide`.
inline Array true_divide(const Operand& x, const Operand& y) { return divide(x, y); }

// One axis, as the second argument.
/// `prod` over one axis.
inline Array prod(const Operand& x, std::int64_t axis) { return prod(x, ReduceOptions{.axis = axis}); }
/// `any` over one axis.
inline Array any(const Operand& x, std::int64_t axis) { return any(x, ReduceOptions{.axis = axis}); }
/// `all` over one axis.
inline Array all(const Operand& x, std::int64_t axis) { return all(x, ReduceOptions{.axis = axis}); }
/// `logsumexp` over one axis.
inline Array logsumexp(const Operand& x, std::int64_t axis) { return logsumexp(x, ReduceOptions{.axis = axis}); }
/// `var` over one axis.
inline Array var(const Operand& x, std::int64_t axis) { return var(x, VarOptions{.axis = axis}); }
/// `std_` over one axis.
inline Array std_(const Operand& x, std::int64_t axis) { return std_(x, VarOptions{.axis = axis}); }

/// `checkpoint`.
template <class F>
auto remat(F f) {
  return checkpoint(std::move(f));
}
/// JAX's name.
using named_scope = NamedScope;

namespace lax {
using tessera::abs;
using tessera::acos;
using tessera::acosh;
using tessera::add;
using tessera::all_gather;
using tessera::all_to_all;
using tessera::asin;
using tessera::asinh;
using tessera::associative_scan;
using tessera::atan;
using tessera::atan2;
using tessera::atanh;
using tessera::axis_index;
using tessera::axis_size;
using tessera::bessel_i0e;
using tessera::bessel_i1e;
using tessera::betainc;
using tessera::bitcast_convert_type;
using tessera::bitwise_and;
using tessera::bitwise_not;
using tessera::bitwise_or;
using tessera::bitwise_xor;
using tessera::broadcast_in_dim;
using tessera::cbrt;
using tessera::ceil;
using tessera::clamp;
using tessera::clz;
using tessera::complex;
using tessera::cond;
using tessera::conj;
using tessera::cos;
using tessera::cosh;
using tessera::digamma;
using tessera::dot;
using tessera::dot_general;
using tessera::empty;
using tessera::erf;
using tessera::erf_inv;
using tessera::erfc;
using tessera::exp;
using tessera::exp2;
using tessera::expm1;
using tessera::floor;
using tessera::fori_loop;
using tessera::full;
using tessera::full_like;
using tessera::igamma;
using tessera::igammac;
using tessera::imag;
using tessera::integer_pow;
using tessera::iota;
using tessera::lgamma;
using tessera::log;
using tessera::log1p;
using tessera::logistic;
using tessera::map;
using tessera::nextafter;
using tessera::pbroadcast;
using tessera::pcast;
using tessera::pmax;
using tessera::pmean;
using tessera::pmin;
using tessera::polygamma;
using tessera::population_count;
using tessera::pow;
using tessera::ppermute;
using tessera::pshuffle;
using tessera::psum;
using tessera::psum_scatter;
using tessera::pswapaxes;
using tessera::ragged_all_to_all;
using tessera::real;
using tessera::reciprocal;
using tessera::reduce_precision;
using tessera::reshape;
using tessera::rsqrt;
using tessera::scan;
using tessera::sign;
using tessera::sin;
using tessera::sinh;
using tessera::sqrt;
using tessera::square;
using tessera::stack;
using tessera::stop_gradient;
using tessera::switch_;
using tessera::tan;
using tessera::tanh;
using tessera::tile;
using tessera::transpose;
using tessera::unstack;
using tessera::while_loop;
using tessera::with_sharding_constraint;
using tessera::zeta;
/// x == y, element-wise.
inline Array eq(const Operand& x, const Operand& y) { return x == y; }
/// x != y, element-wise.
inline Array ne(const Operand& x, const Operand& y) { return x != y; }
/// x < y, element-wise.
inline Array lt(const Operand& x, const Operand& y) { return x < y; }
/// x <= y, element-wise.
inline Array le(const Operand& x, const Operand& y) { return x <= y; }
/// x > y, element-wise.
inline Array gt(const Operand& x, const Operand& y) { return x > y; }
/// x >= y, element-wise.
inline Array ge(const Operand& x, const Operand& y) { return x >= y; }
/// `subtract`.
inline Array sub(const Operand& x, const Operand& y) { return subtract(x, y); }
/// `multiply`.
inline Array mul(const Operand& x, const Operand& y) { return multiply(x, y); }
/// `maximum`, element-wise.
inline Array max(const Operand& x, const Operand& y) { return maximum(x, y); }
/// `minimum`, element-wise.
inline Array min(const Operand& x, const Operand& y) { return minimum(x, y); }
/// `negative`.
inline Array neg(const Operand& x) { return negative(x); }
/// `isfinite`.
inline Array is_finite(const Operand& x) { return isfinite(x); }
/// `astype`.
inline Array convert_element_type(const Operand& x, DType dtype) { return astype(x, dtype); }
}  // namespace lax

namespace nn {
using tessera::log_softmax;
using tessera::logsumexp;
using tessera::one_hot;
using tessera::softmax;
using tessera::tanh;
}  // namespace nn

namespace linalg {
using tessera::cross;
using tessera::diagonal;
using tessera::matmul;
using tessera::matrix_transpose;
using tessera::outer;
using tessera::tensordot;
using tessera::trace;
using tessera::vecdot;
}  // namespace linalg

namespace special {
using tessera::betainc;
using tessera::digamma;
using tessera::erf;
using tessera::erfc;
using tessera::log_softmax;
using tessera::logsumexp;
using tessera::polygamma;
using tessera::softmax;
using tessera::zeta;
/// `erf_inv`.
inline Array erfinv(const Operand& x) { return erf_inv(x); }
}  // namespace special

namespace random {
/// `key`: older and newer keys of JAX are the same uint32[2] arrays here.
inline Array PRNGKey(std::int64_t seed, const Loc& loc = Loc::current()) { return key(seed, loc); }
/// The words of a key: the array itself.
inline Array key_data(const Operand& key) { return key.array(); }
/// A key from its words, uint32[2]: the array itself.
inline Array wrap_key_data(const Operand& bits) { return bits.array(); }
}  // namespace random

}  // namespace tessera
