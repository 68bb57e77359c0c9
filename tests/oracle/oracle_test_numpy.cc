// SPDX-License-Identifier: Apache-2.0
#include "oracle/table.h"
#include "tessera/numpy.h"

namespace tessera::oracle {

namespace {

void add_functions(Table& t) {
  const std::map<std::string, Array (*)(const Operand&)> one_operand = {
      {"abs", abs},
      {"negative", negative},
      {"sign", sign},
      {"square", square},
      {"exp", exp},
      {"expm1", expm1},
      {"exp2", exp2},
      {"log", log},
      {"log2", log2},
      {"log10", log10},
      {"log1p", log1p},
      {"sqrt", sqrt},
      {"cbrt", cbrt},
      {"sin", sin},
      {"cos", cos},
      {"tan", tan},
      {"sinh", sinh},
      {"cosh", cosh},
      {"tanh", tanh},
      {"arctan", arctan},
      {"arcsinh", arcsinh},
      {"isnan", isnan},
      {"isinf", isinf},
      {"isfinite", isfinite},
      {"reciprocal", reciprocal},
      {"conjugate", conj},
      {"real", real},
      {"imag", imag},
      {"rint", rint},
      {"trunc", trunc},
      {"floor", floor},
      {"ceil", ceil},
      {"logical_not", logical_not},
  };
  for (const auto& [name, f] : one_operand) t["jnp." + name] = unary(f);
  const std::map<std::string, Array (*)(const Operand&, const Operand&)> two_operands = {
      {"add", add},
      {"subtract", subtract},
      {"multiply", multiply},
      {"divide", divide},
      {"true_divide", divide},
      {"maximum", maximum},
      {"minimum", minimum},
      {"power", power},
      {"arctan2", arctan2},
      {"floor_divide", floor_divide},
      {"remainder", remainder},
      {"fmod", fmod},
      {"nextafter", nextafter},
      {"logical_and", logical_and},
      {"logical_or", logical_or},
      {"logical_xor", logical_xor},
  };
  for (const auto& [name, f] : two_operands) t["jnp." + name] = binary(f);
  t["jnp.equal"] = one([](const Arrays& a, const Params&) { return a[0] == a[1]; });
  t["jnp.greater"] = one([](const Arrays& a, const Params&) { return a[0] > a[1]; });
  t["jnp.less_equal"] = one([](const Arrays& a, const Params&) { return a[0] <= a[1]; });
  t["jnp.not_equal"] = one([](const Arrays& a, const Params&) { return a[0] != a[1]; });
  t["jnp.round"] = one([](const Arrays& a, const Params& p) { return round(a[0], p.integer("decimals", 0)); });
  t["jnp.clip"] = one([](const Arrays& a, const Params& p) {
    std::optional<Operand> low, high;
    if (a.size() > 1) low = Operand(a[1]), high = Operand(a[2]);
    if (p.has("min")) low = Operand(p.real("min"));
    if (p.has("max")) high = Operand(p.real("max"));
    return clip(a[0], low, high);
  });
}

void add_constructors(Table& t) {
  t["jnp.zeros"] =
      one([](const Arrays&, const Params& p) { return zeros(p.dims("shape"), p.dtype("dtype", float32)); });
  t["jnp.ones"] = one([](const Arrays&, const Params& p) { return ones(p.dims("shape"), p.dtype("dtype", float32)); });
  t["jnp.zeros_like"] = unary(zeros_like);
  t["jnp.ones_like"] = one([](const Arrays& a, const Params& p) {
    return p.has("dtype") ? astype(ones_like(a[0]), p.dtype("dtype")) : ones_like(a[0]);
  });
  t["jnp.full"] = one([](const Arrays&, const Params& p) {
    const auto dtype = p.maybe_dtype("dtype");
    if (p.is_integer("fill_value")) return full(p.dims("shape"), p.integer("fill_value"), dtype);
    if (p.is_bool("fill_value")) return full(p.dims("shape"), p.flag("fill_value"), dtype);
    return full(p.dims("shape"), p.real("fill_value"), dtype);
  });
  t["jnp.full_like"] =
      one([](const Arrays& a, const Params& p) { return full(a[0].shape(), p.real("fill_value"), a[0].dtype()); });
  t["jnp.eye"] = one([](const Arrays&, const Params& p) {
    return eye(p.integer("N"), p.maybe_integer("M"), p.integer("k", 0), p.dtype("dtype", float32));
  });
  t["jnp.identity"] = one([](const Arrays&, const Params& p) { return eye(p.integer("n")); });
  t["jnp.tri"] =
      one([](const Arrays&, const Params& p) { return tri(p.integer("N"), p.maybe_integer("M"), p.integer("k", 0)); });
}

void add_layers(Table& t) {
  t["nn.softmax"] = one([](const Arrays& a, const Params& p) { return softmax(a[0], p.integer("axis", -1)); });
  t["nn.log_softmax"] = one([](const Arrays& a, const Params& p) { return log_softmax(a[0], p.integer("axis", -1)); });
  t["nn.one_hot"] = one([](const Arrays& a, const Params& p) {
    return one_hot(a[0], p.integer("num_classes"), p.dtype("dtype", float32), p.integer("axis", -1));
  });
}

void add_programs(Table& t) {
  t["program.layer_norm"] = one([](const Arrays& a, const Params&) {
    const ReduceOptions last{.axis = Dims{-1}, .keepdims = true};
    const Array centred = a[0] - mean(a[0], last);
    return centred * rsqrt(mean(square(centred), last) + 1e-5) * a[1] + a[2];
  });
  t["program.attention"] = one([](const Arrays& a, const Params&) {
    const Array w =
        matmul(a[0], swapaxes(a[1], -1, -2)) / sqrt(Array(HostArray::scalar(static_cast<float>(a[0].shape(-1)))));
    const Array mask = tril(ones({a[0].shape(-2), a[1].shape(-2)}, bool_));
    return matmul(softmax(where(mask, w, -1e9)), a[2]);
  });
  t["program.cross_entropy"] = one([](const Arrays& a, const Params&) {
    return -mean(take_along_axis(log_softmax(a[0]), expand_dims(a[1], {-1}), -1));
  });
  t["program.mlp"] =
      one([](const Arrays& a, const Params&) { return sum(matmul(tanh(matmul(a[3], a[0]) + a[1]), a[2])); });
  t["program.sgd_momentum"] = [](const Arrays& a, const Params&) {
    const Array m = 0.9 * a[1] + a[2];
    return Arrays{a[0] - 0.1 * m, m};
  };
  t["program.adam"] = [](const Arrays& a, const Params&) {
    const Array t1 = a[3] + 1;
    const Array m = 0.9 * a[1] + 0.1 * a[4];
    const Array v = 0.999 * a[2] + 0.001 * a[4] * a[4];
    const Array step = 1e-3 * (m / (1 - power(0.9, t1))) / (sqrt(v / (1 - power(0.999, t1))) + 1e-8);
    return Arrays{a[0] - step, m, v, t1};
  };
}

}  // namespace

void add_numpy(Table& t) {
  add_functions(t);
  add_constructors(t);
  add_layers(t);
  add_programs(t);
}

}  // namespace tessera::oracle
