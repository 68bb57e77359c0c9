// SPDX-License-Identifier: Apache-2.0
// Element-wise functions of the public interface beyond plain arithmetic.
#include <cmath>
#include <cstdlib>
#include <limits>

#include "ops/shared_attrs.h"
#include "program/graph_fragment.h"
#include "program/promote.h"
#include "tessera/ops.h"

namespace tessera {

using program::elementwise;
using program::elementwise_float;
using program::graph_fragment1;
using program::on;
namespace def = ops::def;

namespace {
// Both operands as floats of their common type.
Array float_binary(const ir::OpDef& op, const char* name, const Operand& x, const Operand& y) {
  return elementwise(op, name, on(program::inexact(name, x.array(), x.loc()), x.loc()),
                     on(program::inexact(name, y.array(), y.loc()), x.loc()));
}
// What depends on a float's own bits works on those that users see.
Operand shown(const Operand& x) {
  return on(program::cast_exactly(x.array(), x.array().dtype(), x.array().weak_type(), x.loc()), x.loc());
}
// Rounding leaves whole numbers alone.
Array rounding(const ir::OpDef& op, const char* name, const Operand& x) {
  DType t = x.array().dtype();
  return is_integer(t) || is_bool(t) ? x.array() : elementwise(op, name, x);
}
}  // namespace

Array exp2(const Operand& x) { return elementwise_float(def::exp2, "exp2", x); }
Array expm1(const Operand& x) { return elementwise_float(def::expm1, "expm1", x); }
Array log1p(const Operand& x) { return elementwise_float(def::log1p, "log1p", x); }
Array cbrt(const Operand& x) { return elementwise_float(def::cbrt, "cbrt", x); }
Array tan(const Operand& x) { return elementwise_float(def::tan, "tan", x); }
Array sinh(const Operand& x) { return elementwise_float(def::sinh, "sinh", x); }
Array cosh(const Operand& x) { return elementwise_float(def::cosh, "cosh", x); }
Array logistic(const Operand& x) { return elementwise_float(def::logistic, "logistic", x); }
Array erf(const Operand& x) { return elementwise_float(def::erf, "erf", x); }
Array erfc(const Operand& x) { return elementwise_float(def::erfc, "erfc", x); }
Array erf_inv(const Operand& x) { return elementwise_float(def::erf_inv, "erf_inv", x); }
Array lgamma(const Operand& x) { return elementwise_float(def::lgamma, "lgamma", x); }
Array digamma(const Operand& x) { return elementwise_float(def::digamma, "digamma", x); }
Array bessel_i0e(const Operand& x) { return elementwise_float(def::bessel_i0e, "bessel_i0e", x); }
Array bessel_i1e(const Operand& x) { return elementwise_float(def::bessel_i1e, "bessel_i1e", x); }
Array arcsin(const Operand& x) { return elementwise_float(def::asin, "arcsin", x); }
Array arccos(const Operand& x) { return elementwise_float(def::acos, "arccos", x); }
Array arctan(const Operand& x) { return elementwise_float(def::atan, "arctan", x); }
Array arcsinh(const Operand& x) { return elementwise_float(def::asinh, "arcsinh", x); }
Array arccosh(const Operand& x) { return elementwise_float(def::acosh, "arccosh", x); }
Array arctanh(const Operand& x) { return elementwise_float(def::atanh, "arctanh", x); }
Array log2(const Operand& x) { return log(x) / Operand(0.6931471805599453, x.loc()); }
Array log10(const Operand& x) { return log(x) / Operand(2.302585092994046, x.loc()); }
Array square(const Operand& x) { return elementwise(def::square, "square", x); }
Array reciprocal(const Operand& x) { return divide(Operand(1.0, x.loc()), x); }
Array polygamma(const Operand& n, const Operand& x) { return float_binary(def::polygamma, "polygamma", n, x); }
Array zeta(const Operand& x, const Operand& q) { return float_binary(def::zeta, "zeta", x, q); }
Array igamma(const Operand& a, const Operand& x) { return float_binary(def::igamma, "igamma", a, x); }
Array igammac(const Operand& a, const Operand& x) { return float_binary(def::igammac, "igammac", a, x); }
Array betainc(const Operand& a, const Operand& b, const Operand& x) {
  const Loc& loc = a.loc();
  std::vector<Array> in =
      program::promote("betainc",
                       {program::inexact("betainc", a.array(), loc), program::inexact("betainc", b.array(), loc),
                        program::inexact("betainc", x.array(), loc)},
                       loc);
  Shape shape = program::broadcast_shapes("betainc", {in[0].shape(), in[1].shape(), in[2].shape()});
  for (auto& v : in) v = program::widen(v, shape, loc);
  return program::bind1(def::regularized_incomplete_beta, in, nullptr, loc);
}
Array abs(const Operand& x) {
  DType t = x.array().dtype();
  return is_unsigned_int(t) || is_bool(t) ? x.array() : elementwise(def::abs, "abs", x);
}
Array sign(const Operand& x) { return elementwise(def::sign, "sign", x); }
Array floor(const Operand& x) { return rounding(def::floor, "floor", x); }
Array ceil(const Operand& x) { return rounding(def::ceil, "ceil", x); }
Array rint(const Operand& x) {
  Array a = program::inexact("rint", x.array(), x.loc());
  return graph_fragment1("rint", x.loc(), {a},
                         [](ir::Builder&, const ir::Values& v) { return ops::round(v[0], true); });
}
Array round(const Operand& x, std::int64_t decimals) {
  Array a = x.array();
  if (!is_inexact(a.dtype())) {
    if (decimals >= 0) return a;
    throw UnimplementedError(
        str("round: decimals = ", decimals, " for dtype ", dtype_name(a.dtype()), "; expected a float dtype"));
  }
  double factor = 1;
  for (std::int64_t i = 0; i < std::abs(decimals); ++i) factor *= 10;
  return graph_fragment1("round", x.loc(), {a}, [&](ir::Builder&, const ir::Values& v) {
    if (decimals == 0) return ops::round(v[0], true);
    // Halves have too few digits for the scaled value: JAX rounds them in float32.
    DType own = v[0].dtype();
    ir::Value y = own == DType::F16 || own == DType::BF16 ? ops::convert(v[0], DType::F32) : v[0];
    y = decimals > 0 ? ops::round(y * factor, true) / factor : ops::round(y / factor, true) * factor;
    return ops::convert(y, own);
  });
}
Array trunc(const Operand& x) {
  DType t = x.array().dtype();
  if (is_integer(t) || is_bool(t)) return x.array();
  return graph_fragment1("trunc", x.loc(), {x.array()}, [](ir::Builder& b, const ir::Values& v) {
    return ops::where(ops::lt(v[0], ops::scalar(b, 0, v[0].dtype())), ops::ceil(v[0]), ops::floor(v[0]));
  });
}
Array isfinite(const Operand& x) {
  DType t = x.array().dtype();
  if (!is_inexact(t)) return full(x.array().shape(), Operand(true, x.loc()));
  if (is_complex(t)) return isfinite(on(real(x), x.loc())) & isfinite(on(imag(x), x.loc()));
  return elementwise(def::is_finite, "isfinite", x);
}
Array isnan(const Operand& x) { return elementwise(def::ne, "isnan", x, x); }
Array isinf(const Operand& x) {
  DType t = x.array().dtype();
  if (!is_inexact(t)) return full(x.array().shape(), Operand(false, x.loc()));
  if (is_complex(t)) return isinf(on(real(x), x.loc())) | isinf(on(imag(x), x.loc()));
  Array a = abs(x);
  return elementwise(def::eq, "isinf", on(a, x.loc()), Operand(std::numeric_limits<double>::infinity(), x.loc()));
}
Array real(const Operand& x) { return is_complex(x.array().dtype()) ? elementwise(def::real, "real", x) : x.array(); }
Array imag(const Operand& x) {
  return is_complex(x.array().dtype()) ? elementwise(def::imag, "imag", x) : zeros_like(x);
}
Array conj(const Operand& x) { return is_complex(x.array().dtype()) ? elementwise(def::conj, "conj", x) : x.array(); }
Array complex(const Operand& re, const Operand& im) { return float_binary(def::complex, "complex", re, im); }
Array integer_pow(const Operand& x, std::int64_t y) {
  return graph_fragment1("integer_pow", x.loc(), {x.array()},
                         [&](ir::Builder&, const ir::Values& v) { return ops::integer_pow(v[0], y); });
}
Array arctan2(const Operand& y, const Operand& x) { return float_binary(def::atan2, "arctan2", y, x); }
Array nextafter(const Operand& x, const Operand& y) {
  return float_binary(def::nextafter, "nextafter", shown(x), shown(y));
}

namespace {
// Operands of one type and shape, as values of a fragment.
Array both(const char* name, const Operand& x, const Operand& y,
           const std::function<ir::Value(ir::Builder&, ir::Value, ir::Value)>& f) {
  std::vector<Array> in = program::promote(name, {x.array(), y.array()}, x.loc());
  Shape shape = program::broadcast_shapes(name, {in[0].shape(), in[1].shape()});
  for (auto& a : in) a = program::widen(a, shape, x.loc());
  return graph_fragment1(name, x.loc(), in, [&](ir::Builder& b, const ir::Values& v) { return f(b, v[0], v[1]); });
}
bool any_unsigned(const Operand& x, const Operand& y, const char* name) {
  DType t = program::common_type(name, {x.array(), y.array()}).dtype;
  return is_unsigned_int(t) || is_bool(t);
}
}  // namespace

namespace {
// Of whole numbers by 0 it is 0, as NumPy's and JAX's.
ir::Value truncated_remainder(ir::Builder& b, ir::Value p, ir::Value q) {
  if (!is_integer(q.dtype())) return ops::rem(p, q);
  ir::Value one = ops::scalar(b, 1, q.dtype());
  return ops::rem(p, ops::where(ops::eq(q, ops::scalar(b, 0, q.dtype())), one, q));
}
}  // namespace

Array fmod(const Operand& x, const Operand& y) { return both("fmod", x, y, truncated_remainder); }
Array remainder(const Operand& x, const Operand& y) {
  if (any_unsigned(x, y, "remainder")) return fmod(x, y);
  return both("remainder", x, y, [](ir::Builder& b, ir::Value p, ir::Value q) {
    ir::Value zero = ops::scalar(b, 0, p.dtype());
    ir::Value r = truncated_remainder(b, p, q);
    ir::Value other = ops::ne(ops::lt(r, zero), ops::lt(q, zero));
    return ops::where(ops::and_(other, ops::ne(r, zero)), r + q, r);
  });
}
Array floor_divide(const Operand& x, const Operand& y) {
  if (any_unsigned(x, y, "floor_divide")) return elementwise(def::div, "floor_divide", x, y);
  return both("floor_divide", x, y, [](ir::Builder& b, ir::Value p, ir::Value q) {
    ir::Value zero = ops::scalar(b, 0, p.dtype());
    if (is_integer(p.dtype())) {
      ir::Value d = ops::div(p, q);
      ir::Value cut = ops::and_(ops::ne(ops::sign(p), ops::sign(q)), ops::ne(ops::rem(p, q), zero));
      return ops::where(cut, d - 1.0, d);
    }
    // As NumPy: from the remainder, so that large quotients stay whole.
    ir::Value m = ops::rem(p, q);
    ir::Value d = ops::where(ops::eq(q, zero), p, p - m) / q;  // infinite where q is 0
    ir::Value cut = ops::and_(ops::ne(m, zero), ops::ne(ops::sign(q), ops::sign(m)));
    ir::Value one = ops::constant(b, HostArray::scalar(1.0).astype(p.dtype()), p.type().weak);
    return ops::round(ops::where(cut, d - one, d));
  });
}
Array operator%(const Operand& x, const Operand& y) { return remainder(x, y); }
Array logical_xor(const Operand& x, const Operand& y) {
  return elementwise(def::xor_, "logical_xor", on(program::cast(x.array(), bool_, false, x.loc()), x.loc()),
                     on(program::cast(y.array(), bool_, false, x.loc()), x.loc()));
}
Array bitwise_and(const Operand& x, const Operand& y) { return elementwise(def::and_, "bitwise_and", x, y); }
Array bitwise_or(const Operand& x, const Operand& y) { return elementwise(def::or_, "bitwise_or", x, y); }
Array bitwise_xor(const Operand& x, const Operand& y) { return elementwise(def::xor_, "bitwise_xor", x, y); }
Array bitwise_not(const Operand& x) { return elementwise(def::not_, "bitwise_not", x); }
Array operator^(const Operand& x, const Operand& y) { return bitwise_xor(x, y); }
Array left_shift(const Operand& x, const Operand& y) { return elementwise(def::shift_left, "left_shift", x, y); }
Array right_shift(const Operand& x, const Operand& y) {
  DType t = program::common_type("right_shift", {x.array(), y.array()}).dtype;
  return elementwise(is_unsigned_int(t) ? def::shift_right_logical : def::shift_right_arithmetic, "right_shift", x, y);
}
Array operator<<(const Operand& x, const Operand& y) { return left_shift(x, y); }
Array operator>>(const Operand& x, const Operand& y) { return right_shift(x, y); }
Array population_count(const Operand& x) { return elementwise(def::population_count, "population_count", x); }
Array clz(const Operand& x) { return elementwise(def::clz, "clz", x); }
Array clamp(const Operand& low, const Operand& x, const Operand& high) {
  return graph_fragment1("clamp", x.loc(), {low.array(), x.array(), high.array()},
                         [](ir::Builder&, const ir::Values& v) { return ops::clamp(v[0], v[1], v[2]); });
}
Array stop_gradient(const Operand& x) { return elementwise(def::stop_gradient, "stop_gradient", x); }
Array bitcast_convert_type(const Operand& x, DType dtype) {
  return graph_fragment1("bitcast_convert_type", x.loc(), {shown(x).array()},
                         [&](ir::Builder&, const ir::Values& v) { return ops::bitcast_convert_type(v[0], dtype); });
}
Array reduce_precision(const Operand& x, std::int64_t exponent_bits, std::int64_t mantissa_bits) {
  return graph_fragment1("reduce_precision", x.loc(), {shown(x).array()}, [&](ir::Builder&, const ir::Values& v) {
    return ops::reduce_precision(v[0], exponent_bits, mantissa_bits);
  });
}

}  // namespace tessera
