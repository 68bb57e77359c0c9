// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "base/strings.h"
#include "hlo/export.h"
#include "ops/attrs.h"
#include "ops/ops.h"

namespace tessera::hlo {

namespace {
namespace def = ops::def;
using ir::Eqn;
using ir::Types;

Texts widened(Writer& w, const Texts& in, const Shape& shape) {
  Texts out;
  for (const auto& t : in) out.push_back(w.wide(t, shape));
  return out;
}

// Names are looked up by op, so that one function writes all that map to one operation.
const std::unordered_map<const ir::OpDef*, const char*>& direct_names() {
  static const auto* names = new std::unordered_map<const ir::OpDef*, const char*>{
      {&def::neg, "stablehlo.negate"},
      {&def::exp, "stablehlo.exponential"},
      {&def::log, "stablehlo.log"},
      {&def::sqrt, "stablehlo.sqrt"},
      {&def::rsqrt, "stablehlo.rsqrt"},
      {&def::sin, "stablehlo.sine"},
      {&def::cos, "stablehlo.cosine"},
      {&def::tanh, "stablehlo.tanh"},
      {&def::tan, "stablehlo.tan"},
      {&def::not_, "stablehlo.not"},
      {&def::floor, "stablehlo.floor"},
      {&def::ceil, "stablehlo.ceil"},
      {&def::is_finite, "stablehlo.is_finite"},
      {&def::expm1, "stablehlo.exponential_minus_one"},
      {&def::log1p, "stablehlo.log_plus_one"},
      {&def::logistic, "stablehlo.logistic"},
      {&def::cbrt, "stablehlo.cbrt"},
      {&def::abs, "stablehlo.abs"},
      {&def::real, "stablehlo.real"},
      {&def::imag, "stablehlo.imag"},
      {&def::population_count, "stablehlo.popcnt"},
      {&def::clz, "stablehlo.count_leading_zeros"},
      {&def::asin, "chlo.asin"},
      {&def::acos, "chlo.acos"},
      {&def::atan, "chlo.atan"},
      {&def::sinh, "chlo.sinh"},
      {&def::cosh, "chlo.cosh"},
      {&def::asinh, "chlo.asinh"},
      {&def::acosh, "chlo.acosh"},
      {&def::atanh, "chlo.atanh"},
      {&def::erf, "chlo.erf"},
      {&def::erfc, "chlo.erfc"},
      {&def::erf_inv, "chlo.erf_inv"},
      {&def::lgamma, "chlo.lgamma"},
      {&def::digamma, "chlo.digamma"},
      {&def::bessel_i1e, "chlo.bessel_i1e"},
      {&def::conj, "chlo.conj"},
      {&def::add, "stablehlo.add"},
      {&def::sub, "stablehlo.subtract"},
      {&def::mul, "stablehlo.multiply"},
      {&def::div, "stablehlo.divide"},
      {&def::pow, "stablehlo.power"},
      {&def::and_, "stablehlo.and"},
      {&def::or_, "stablehlo.or"},
      {&def::xor_, "stablehlo.xor"},
      {&def::shift_left, "stablehlo.shift_left"},
      {&def::shift_right_logical, "stablehlo.shift_right_logical"},
      {&def::shift_right_arithmetic, "stablehlo.shift_right_arithmetic"},
      {&def::rem, "stablehlo.remainder"},
      {&def::atan2, "stablehlo.atan2"},
      {&def::complex, "stablehlo.complex"},
      {&def::nextafter, "chlo.next_after"},
      {&def::polygamma, "chlo.polygamma"},
      {&def::zeta, "chlo.zeta"},
      {&def::eq, "EQ"},
      {&def::ne, "NE"},
      {&def::lt, "LT"},
      {&def::le, "LE"},
      {&def::gt, "GT"},
      {&def::ge, "GE"},
  };
  return *names;
}

Texts extreme(Writer& w, const Eqn& e, const Texts& in, const Types& out) {
  Texts x = widened(w, in, out[0].shape);
  return {w.combine(e.op == &def::max ? "maximum" : "minimum", x[0], x[1])};
}
// StableHLO knows signs of signed numbers only.
Texts sign(Writer& w, const Eqn&, const Texts& in, const Types& out) {
  if (!is_unsigned_int(out[0].dtype)) return {w.op("stablehlo.sign", in, out[0])};
  return {w.op("stablehlo.minimum", {in[0], w.constant(1, out[0].dtype, out[0].shape)}, out[0])};
}
Texts direct(Writer& w, const Eqn& e, const Texts& in, const Types& out) {
  return {w.op(direct_names().at(e.op), widened(w, in, out[0].shape), out[0])};
}
Texts compared(Writer& w, const Eqn& e, const Texts& in, const Types& out) {
  Texts x = widened(w, in, out[0].shape);
  return {w.compare(x[0], x[1], direct_names().at(e.op))};
}

Text product(Writer& w, const Text& x, const Text& y) { return w.op("stablehlo.multiply", {x, y}, x.type); }
Texts square(Writer& w, const Eqn&, const Texts& in, const Types&) { return {product(w, in[0], in[0])}; }
Texts integer_pow(Writer& w, const Eqn& e, const Texts& in, const Types& out) {
  std::int64_t n = ir::get<ops::IntegerPow>(e.attrs).y;
  Text base = in[0], result;
  for (std::int64_t k = std::abs(n); k > 0; k >>= 1) {
    if (k & 1) result = result.name.empty() ? base : product(w, result, base);
    if (k > 1) base = product(w, base, base);
  }
  Text one = w.constant(1, out[0].dtype, out[0].shape);
  if (n == 0) return {one};
  return {n > 0 ? result : w.op("stablehlo.divide", {one, result}, out[0])};
}
Texts exp2(Writer& w, const Eqn&, const Texts& in, const Types& out) {
  return {w.op("stablehlo.power", {w.constant(2, out[0].dtype, out[0].shape), in[0]}, out[0])};
}
Texts round(Writer& w, const Eqn& e, const Texts& in, const Types& out) {
  bool away = ir::get<ops::Round>(e.attrs).method == ops::Round::Method::AwayFromZero;
  return {w.op(away ? "stablehlo.round_nearest_afz" : "stablehlo.round_nearest_even", in, out[0])};
}
Texts reduce_precision(Writer& w, const Eqn& e, const Texts& in, const Types& out) {
  const auto& p = ir::get<ops::ReducePrecision>(e.attrs);
  return {w.line(str("stablehlo.reduce_precision ", in[0].name, ", format = e", p.exponent_bits, "m", p.mantissa_bits,
                     " : ", tensor_text(out[0])),
                 out[0])};
}
Texts select_n(Writer& w, const Eqn&, const Texts& in, const Types& out) {
  Text which = w.wide(in[0], out[0].shape);
  Texts cases;
  for (std::size_t i = 1; i < in.size(); ++i) cases.push_back(w.wide(in[i], out[0].shape));
  if (is_bool(which.type.dtype)) return {w.select(which, cases[1], cases[0])};
  Text result = cases.back();
  for (std::size_t i = cases.size() - 1; i-- > 0;) {
    Text number = w.constant(static_cast<double>(i), which.type.dtype, out[0].shape);
    result = w.select(w.compare(which, number, "EQ"), cases[i], result);
  }
  return {result};
}
Texts clamp(Writer& w, const Eqn&, const Texts& in, const Types& out) {
  return {w.op("stablehlo.clamp", widened(w, in, out[0].shape), out[0])};
}
Texts convert(Writer& w, const Eqn&, const Texts& in, const Types& out) {
  Text x = in[0];
  if (is_complex(x.type.dtype) && !is_complex(out[0].dtype) && !is_bool(out[0].dtype)) {
    x = w.op("stablehlo.real", {x}, {real_dtype(x.type.dtype), x.type.shape, false});
  }
  return {w.convert(x, out[0].dtype)};
}
Texts bitcast(Writer& w, const Eqn&, const Texts& in, const Types& out) {
  if (in[0].type == out[0]) return {in[0]};
  return {w.op("stablehlo.bitcast_convert", in, out[0])};
}
Texts barrier(Writer& w, const Eqn&, const Texts& in, const Types& out) {
  return w.line(str("stablehlo.optimization_barrier ", names_of(in), " : ", types_of(in)), out);
}
}  // namespace

void add_elementwise_writers(WriterTable& t) {
  for (const auto& [op, name] : direct_names()) t[op] = std::string_view(name).size() == 2 ? compared : direct;
  t[&def::sign] = sign;
  t[&def::max] = extreme;
  t[&def::min] = extreme;
  t[&def::backward_barrier] = same;
  t[&def::copy] = same;
  t[&def::stop_gradient] = same;
  t[&def::square] = square;
  t[&def::integer_pow] = integer_pow;
  t[&def::exp2] = exp2;
  t[&def::round] = round;
  t[&def::reduce_precision] = reduce_precision;
  t[&def::select_n] = select_n;
  t[&def::clamp] = clamp;
  t[&def::convert] = convert;
  t[&def::bitcast_convert_type] = bitcast;
  t[&def::optimization_barrier] = barrier;
}

}  // namespace tessera::hlo
