// SPDX-License-Identifier: Apache-2.0
#include "oracle/table.h"

namespace tessera::oracle {

namespace {

void add_unary(Table& t) {
  const std::map<std::string, Array (*)(const Operand&)> same = {
      {"neg", negative},
      {"sign", sign},
      {"floor", floor},
      {"ceil", ceil},
      {"is_finite", isfinite},
      {"exp", exp},
      {"exp2", exp2},
      {"expm1", expm1},
      {"log", log},
      {"log1p", log1p},
      {"sqrt", sqrt},
      {"rsqrt", rsqrt},
      {"cbrt", cbrt},
      {"sin", sin},
      {"cos", cos},
      {"tan", tan},
      {"asin", arcsin},
      {"acos", arccos},
      {"atan", arctan},
      {"sinh", sinh},
      {"cosh", cosh},
      {"tanh", tanh},
      {"asinh", arcsinh},
      {"acosh", arccosh},
      {"atanh", arctanh},
      {"logistic", logistic},
      {"erf", erf},
      {"erfc", erfc},
      {"erf_inv", erf_inv},
      {"lgamma", lgamma},
      {"digamma", digamma},
      {"bessel_i0e", bessel_i0e},
      {"bessel_i1e", bessel_i1e},
      {"abs", abs},
      {"square", square},
      {"reciprocal", reciprocal},
      {"real", real},
      {"imag", imag},
      {"conj", conj},
      {"bitwise_not", bitwise_not},
      {"population_count", population_count},
      {"clz", clz},
  };
  for (const auto& [name, f] : same) t["lax." + name] = unary(f);
  t["lax.integer_pow"] = one([](const Arrays& a, const Params& p) { return integer_pow(a[0], p.integer("y")); });
}

void add_binary(Table& t) {
  const std::map<std::string, Array (*)(const Operand&, const Operand&)> same = {
      {"add", add},
      {"sub", subtract},
      {"mul", multiply},
      {"max", maximum},
      {"min", minimum},
      {"pow", power},
      {"atan2", arctan2},
      {"nextafter", nextafter},
      {"bitwise_and", bitwise_and},
      {"bitwise_or", bitwise_or},
      {"bitwise_xor", bitwise_xor},
      {"complex", complex},
      {"igamma", igamma},
      {"igammac", igammac},
      {"zeta", zeta},
      {"polygamma", polygamma},
  };
  for (const auto& [name, f] : same) t["lax." + name] = binary(f);
  t["lax.eq"] = one([](const Arrays& a, const Params&) { return a[0] == a[1]; });
  t["lax.ne"] = one([](const Arrays& a, const Params&) { return a[0] != a[1]; });
  t["lax.lt"] = one([](const Arrays& a, const Params&) { return a[0] < a[1]; });
  t["lax.le"] = one([](const Arrays& a, const Params&) { return a[0] <= a[1]; });
  t["lax.gt"] = one([](const Arrays& a, const Params&) { return a[0] > a[1]; });
  t["lax.ge"] = one([](const Arrays& a, const Params&) { return a[0] >= a[1]; });
  t["lax.betainc"] = ternary(betainc);
  t["lax.clamp"] = ternary(clamp);
  t["jnp.where"] = ternary(where);
}

void add_operators(Table& t) {
  t["operator.add"] = one([](const Arrays& a, const Params&) { return a[0] + a[1]; });
  t["operator.mul"] = one([](const Arrays& a, const Params&) { return a[0] * a[1]; });
  t["operator.truediv"] = one([](const Arrays& a, const Params&) { return a[0] / a[1]; });
  t["operator.floordiv"] = binary(floor_divide);
  t["operator.mod"] = binary(remainder);
  t["operator.pow"] = binary(power);
  t["operator.matmul"] = one([](const Arrays& a, const Params&) { return matmul(a[0], a[1]); });
  t["operator.neg"] = one([](const Arrays& a, const Params&) { return -a[0]; });
  t["operator.invert"] = one([](const Arrays& a, const Params&) { return ~a[0]; });
  t["operator.and_"] = one([](const Arrays& a, const Params&) { return a[0] & a[1]; });
  t["operator.or_"] = one([](const Arrays& a, const Params&) { return a[0] | a[1]; });
  t["operator.xor"] = one([](const Arrays& a, const Params&) { return a[0] ^ a[1]; });
  t["operator.lshift"] = one([](const Arrays& a, const Params&) { return a[0] << a[1]; });
  t["operator.rshift"] = one([](const Arrays& a, const Params&) { return a[0] >> a[1]; });
  t["operator.eq"] = one([](const Arrays& a, const Params&) { return a[0] == a[1]; });
  t["operator.ne"] = one([](const Arrays& a, const Params&) { return a[0] != a[1]; });
  t["operator.lt"] = one([](const Arrays& a, const Params&) { return a[0] < a[1]; });
  t["operator.le"] = one([](const Arrays& a, const Params&) { return a[0] <= a[1]; });
  t["operator.gt"] = one([](const Arrays& a, const Params&) { return a[0] > a[1]; });
  t["operator.ge"] = one([](const Arrays& a, const Params&) { return a[0] >= a[1]; });
}

}  // namespace

void add_elementwise(Table& t) {
  add_unary(t);
  add_binary(t);
  add_operators(t);
  t["lax.convert_element_type"] =
      one([](const Arrays& a, const Params& p) { return astype(a[0], p.dtype("new_dtype")); });
  t["lax.bitcast_convert_type"] =
      one([](const Arrays& a, const Params& p) { return bitcast_convert_type(a[0], p.dtype("new_dtype")); });
  t["lax.reduce_precision"] = one([](const Arrays& a, const Params& p) {
    return reduce_precision(a[0], p.integer("exponent_bits"), p.integer("mantissa_bits"));
  });
}

}  // namespace tessera::oracle
