// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <numbers>

#include "program/promote.h"
#include "tessera/lax.h"
#include "tessera/nn.h"

namespace tessera::nn {

using program::on;

namespace {
// An operand and numbers with one line, so that formulas read as formulas.
struct Term {
  Operand x;
  Operand operator()(double v) const { return Operand(v, x.loc()); }
  Operand operator()(const Array& a) const { return on(a, x.loc()); }
};
Term term(const char* name, const Operand& x) { return {on(program::inexact(name, x.array(), x.loc()), x.loc())}; }
}  // namespace

Array relu(const Operand& x) {
  // At 0 the derivative is 0, as jax.nn.relu declares it: a maximum would share it. NaN is not below 0 and stays.
  Operand zero(0, x.loc());
  return where(on(x <= zero, x.loc()), zero, x);
}
Array relu6(const Operand& x) {
  Term t = term("relu6", x);
  return minimum(t(maximum(t.x, t(0))), t(6));
}
Array sigmoid(const Operand& x) { return tessera::logistic(x); }
Array silu(const Operand& x) {
  Term t = term("silu", x);
  return t.x * t(tessera::logistic(t.x));
}
Array softplus(const Operand& x) {
  // log(1 + exp(x)) = max(x, 0) + log1p(exp(-|x|)).
  Term t = term("softplus", x);
  Array tail = log1p(t(exp(t(-t(tessera::abs(t.x))))));
  return t(maximum(t.x, t(0))) + t(tail);
}
Array log_sigmoid(const Operand& x) {
  Term t = term("log_sigmoid", x);
  return -t(softplus(t(-t.x)));
}
Array soft_sign(const Operand& x) {
  Term t = term("soft_sign", x);
  return t.x / t(t(tessera::abs(t.x)) + t(1));
}
Array hard_tanh(const Operand& x) {
  Term t = term("hard_tanh", x);
  return where(t(t.x > t(1)), t(1), t(where(t(t.x < t(-1)), t(-1), t.x)));
}
Array hard_sigmoid(const Operand& x) {
  Term t = term("hard_sigmoid", x);
  return t(relu6(t(t.x + t(3)))) / t(6);
}
Array hard_silu(const Operand& x) {
  Term t = term("hard_silu", x);
  return t.x * t(hard_sigmoid(t.x));
}
Array leaky_relu(const Operand& x, double negative_slope) {
  Term t = term("leaky_relu", x);
  return where(t(t.x >= t(0)), t.x, t(t.x * t(negative_slope)));
}
Array elu(const Operand& x, double alpha) {
  Term t = term("elu", x);
  Array positive = t.x > t(0);
  // The branch that is not taken must stay finite for its derivative's sake.
  Array safe = where(t(positive), t(0), t.x);
  return where(t(positive), t.x, t(t(alpha) * t(expm1(t(safe)))));
}
Array celu(const Operand& x, double alpha) {
  Term t = term("celu", x);
  return t(maximum(t.x, t(0))) + t(t(alpha) * t(expm1(t(t(minimum(t.x, t(0))) / t(alpha)))));
}
Array selu(const Operand& x) {
  Term t = term("selu", x);
  return t(1.0507009873554804934193349852946) * t(elu(t.x, 1.6732632423543772848170429916717));
}
Array gelu(const Operand& x, bool approximate) {
  Term t = term("gelu", x);
  if (approximate) {
    double root = std::sqrt(2 / std::numbers::pi);
    Array inner = t(root) * t(t.x + t(t(0.044715) * t(integer_pow(t.x, 3))));
    return t.x * t(t(0.5) * t(t(1.0) + t(tanh(t(inner)))));
  }
  return t(t(0.5) * t.x) * t(erfc(t(-t(t.x / t(std::numbers::sqrt2)))));
}
Array mish(const Operand& x) {
  Term t = term("mish", x);
  return t.x * t(tanh(t(softplus(t.x))));
}
Array squareplus(const Operand& x, double b) {
  Term t = term("squareplus", x);
  return t(t.x + t(sqrt(t(t(square(t.x)) + t(b))))) / t(2);
}
Array glu(const Operand& x, std::int64_t axis) {
  std::int64_t d = program::axis_of("glu", axis, x.array().ndim());
  if (x.array().shape(d) % 2 != 0)
    throw ValueError(str("glu: axis ", d, " of shape ", x.array().shape(), " is odd; expected an even extent"));
  auto halves = tessera::split(x, 2, d);
  return on(halves[0], x.loc()) * on(sigmoid(on(halves[1], x.loc())), x.loc());
}
Array standardize(const Operand& x, std::int64_t axis, double epsilon) {
  Term t = term("standardize", x);
  Array mu = mean(t.x, {.axis = Dims{axis}, .keepdims = true});
  Array v = mean(t(square(t.x)), {.axis = Dims{axis}, .keepdims = true}) - t(square(t(mu)));
  return t(t.x - t(mu)) * t(rsqrt(t(t(v) + t(epsilon))));
}
Array layer_norm(const Operand& x, const Operand& scale, const Operand& bias, double epsilon) {
  Term t = term("layer_norm", x);
  Array mu = mean(t.x, {.axis = Dims{-1}, .keepdims = true});
  Array c = t.x - t(mu);
  Array v = mean(t(square(t(c))), {.axis = Dims{-1}, .keepdims = true});
  return t(t(t(c) * t(rsqrt(t(t(v) + t(epsilon))))) * scale) + bias;
}

}  // namespace tessera::nn
