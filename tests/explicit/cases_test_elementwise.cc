// SPDX-License-Identifier: Apache-2.0
#include "explicit/ops.h"

namespace tessera::test {

namespace {
Array equal_to(const Operand& x, const Operand& y) { return x == y; }
Array less_than(const Operand& x, const Operand& y) { return x < y; }
Array at_least(const Operand& x, const Operand& y) { return x >= y; }
}  // namespace

void add_elementwise(Table& t) {
  const std::map<std::string, Array (*)(const Operand&)> unaries = {
      {"lax.neg", negative},
      {"lax.sin", sin},
      {"lax.cos", cos},
      {"lax.tanh", tanh},
      {"lax.exp", exp},
      {"lax.log", log},
      {"lax.sqrt", sqrt},
      {"lax.rsqrt", rsqrt},
      {"lax.cbrt", cbrt},
      {"lax.abs", abs},
      {"lax.sign", sign},
      {"lax.floor", floor},
      {"lax.logistic", logistic},
      {"lax.erf", erf},
      {"lax.is_finite", isfinite},
      {"lax.square", square},
      {"lax.reciprocal", reciprocal},
      {"lax.log1p", log1p},
      {"lax.lgamma", special::gammaln},
      {"lax.stop_gradient", stop_gradient},
      {"lax.bitwise_not", bitwise_not},
      {"lax.population_count", population_count},
      {"lax.clz", clz},
      {"lax.real", real},
      {"lax.conj", conj},
      {"lax.copy", copy},
      {"jax.nn.relu", nn::relu},
      {"jnp.isnan", isnan},
  };
  for (const auto& [name, f] : unaries) t[name] = unary(f);
  t["lax.integer_pow"] = one([](const Call& c) { return integer_pow(c.x(), c.integer("y")); });
  t["lax.reduce_precision"] = one(
      [](const Call& c) { return reduce_precision(c.x(), c.integer("exponent_bits"), c.integer("mantissa_bits")); });
  t["lax.convert_element_type"] = one([](const Call& c) { return astype(c.x(), c.dtype("new_dtype")); });
  t["jnp.astype"] = one([](const Call& c) { return astype(c.x(), c.dtype("dtype")); });
  t["lax.bitcast_convert_type"] = one([](const Call& c) { return bitcast_convert_type(c.x(), c.dtype("new_dtype")); });

  const std::map<std::string, Array (*)(const Operand&, const Operand&)> binaries = {
      {"lax.add", add},
      {"lax.sub", subtract},
      {"lax.mul", multiply},
      {"lax.div", lax::div},
      {"lax.max", maximum},
      {"lax.min", minimum},
      {"lax.pow", power},
      {"lax.rem", lax::rem},
      {"lax.atan2", arctan2},
      {"lax.eq", equal_to},
      {"lax.lt", less_than},
      {"lax.ge", at_least},
      {"lax.nextafter", nextafter},
      {"lax.bitwise_and", bitwise_and},
      {"lax.bitwise_xor", bitwise_xor},
      {"lax.shift_left", lax::shift_left},
      {"lax.complex", complex},
      {"jnp.add", add},
      {"jnp.subtract", subtract},
      {"jnp.multiply", multiply},
      {"jnp.divide", divide},
      {"jnp.maximum", maximum},
      {"jnp.equal", equal_to},
      {"jnp.less", less_than},
      {"jnp.power", power},
      {"jnp.hypot", hypot},
      {"jnp.logaddexp", logaddexp},
      {"jnp.arctan2", arctan2},
      {"jnp.mod", mod},
  };
  for (const auto& [name, f] : binaries) t[name] = binary(f);
  t["add_scalar"] = one([](const Call& c) { return c.x() + c.params.at("value").get<double>(); });
  t["mul_scalar"] = one([](const Call& c) {
    const json& v = c.params.at("value");
    return v.is_number_integer() ? c.x() * v.get<int>() : c.x() * v.get<double>();
  });

  t["lax.select"] = ternary(lax::select);
  t["jnp.where"] = ternary(where);
  t["lax.select_n"] = one([](const Call& c) { return lax::select_n(c.x(), Arrays(c.in.begin() + 1, c.in.end())); });
  t["lax.clamp"] = ternary(clamp);
  t["jnp.clip"] = one([](const Call& c) { return clip(c.x(), Operand(c.x(1)), Operand(c.x(2))); });
}

}  // namespace tessera::test
