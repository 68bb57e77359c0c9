// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "base/strings.h"
#include "hlo/export/export.h"
#include "ops/ops.h"
#include "ops/shared_attrs.h"

namespace tessera::hlo {

namespace {
namespace def = ops::def;
using ir::Eqn;
using ir::Types;

constexpr std::string_view kCompare = "stablehlo.compare ";  // and a direction

Texts widened(Writer& w, const Texts& in, const Shape& shape) {
  Texts out;
  for (const auto& t : in) out.push_back(w.wide(t, shape));
  return out;
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
  return {w.op(e.op->traits().stablehlo, widened(w, in, out[0].shape), out[0])};
}
Texts comparison(Writer& w, const Eqn& e, const Texts& in, const Types& out) {
  Texts x = widened(w, in, out[0].shape);
  return {w.compare(x[0], x[1], e.op->traits().stablehlo + kCompare.size())};
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
  for (const ir::OpDef* op : ops::all()) {
    if (const char* name = op->traits().stablehlo)
      t[op] = std::string_view(name).starts_with(kCompare) ? comparison : direct;
  }
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
