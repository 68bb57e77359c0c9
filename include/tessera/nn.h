// SPDX-License-Identifier: Apache-2.0
// Functions of neural networks as jax.nn, and optimisers as plain functions over trees.
#pragma once

#include <utility>

#include "tessera/numpy.h"
#include "tessera/tree.h"

namespace tessera::nn {

Array relu(const Operand& x);
Array relu6(const Operand& x);
Array sigmoid(const Operand& x);
/// x * sigmoid(x).
Array silu(const Operand& x);
inline Array swish(const Operand& x) { return silu(x); }
Array softplus(const Operand& x);
Array log_sigmoid(const Operand& x);
Array soft_sign(const Operand& x);
Array hard_tanh(const Operand& x);
Array hard_sigmoid(const Operand& x);
Array hard_silu(const Operand& x);
Array leaky_relu(const Operand& x, double negative_slope = 0.01);
Array elu(const Operand& x, double alpha = 1.0);
Array celu(const Operand& x, double alpha = 1.0);
Array selu(const Operand& x);
/// `approximate`: the tanh form.
Array gelu(const Operand& x, bool approximate = true);
Array mish(const Operand& x);
Array squareplus(const Operand& x, double b = 4.0);
/// First half times the sigmoid of the second along `axis`.
Array glu(const Operand& x, std::int64_t axis = -1);
/// (x - mean) / sqrt(variance + epsilon).
Array standardize(const Operand& x, std::int64_t axis = -1, double epsilon = 1e-5);
/// standardize over the last axis, then scale and bias.
Array layer_norm(const Operand& x, const Operand& scale, const Operand& bias, double epsilon = 1e-5);

Array identity(const Operand& x);
inline Array hard_swish(const Operand& x) { return hard_silu(x); }
/// 0 below -1, x above 1, a parabola in between; and its derivative.
Array sparse_plus(const Operand& x);
Array sparse_sigmoid(const Operand& x);
/// log(1 - exp(-x)) for positive x.
Array log1mexp(const Operand& x);
Array logmeanexp(const Operand& x, const ReduceOptions& options = {});

struct AttentionOptions {
  std::optional<Array> bias = std::nullopt;    ///< added to scores (batch, heads, queries, keys)
  std::optional<Array> mask = std::nullopt;    ///< bool of that shape: false takes no part
  std::optional<double> scale = std::nullopt;  ///< 1 / sqrt(head size) unless given
  bool is_causal = false;                      ///< query i sees keys 0 … i
};
/// Weighted means of `value`: query (batch, queries, heads, size), key and value (batch, keys, heads of their own,
/// size), whose number divides the queries'. Batch may be left out. Scores and weights are float32 at least.
Array dot_product_attention(const Operand& query, const Operand& key, const Operand& value,
                            const AttentionOptions& options = {});

}  // namespace tessera::nn

namespace tessera::optim {

/// Stochastic gradient descent: velocity = momentum * velocity + gradient; parameters -= rate * velocity.
struct SgdOptions {
  double learning_rate = 0.01;
  double momentum = 0.9;
};
template <class T>
T sgd_init(const T& params) {
  return tree_map([](const Array& p) { return zeros_like(p); }, params);
}
/// (new parameters, new velocity).
template <class T>
std::pair<T, T> sgd(const T& params, const T& gradients, const T& velocity, const SgdOptions& o = {}) {
  T v = tree_map([&](const Array& u, const Array& g) { return o.momentum * u + g; }, velocity, gradients);
  return {tree_map([&](const Array& p, const Array& u) { return p - o.learning_rate * u; }, params, v), v};
}

/// Adam (Kingma and Ba, 2015); with `weight_decay` AdamW (Loshchilov and Hutter, 2019).
struct AdamOptions {
  double learning_rate = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0;
};
template <class T>
struct AdamState {
  T m, v;
  Array step;  ///< int32
};
template <class T>
AdamState<T> adam_init(const T& params) {
  T zero = tree_map([](const Array& p) { return zeros_like(p); }, params);
  return {zero, zero, Array(HostArray::scalar(std::int32_t{0}))};
}
/// (new parameters, new state).
template <class T>
std::pair<T, AdamState<T>> adam(const T& params, const T& gradients, const AdamState<T>& state,
                                const AdamOptions& o = {}) {
  AdamState<T> next;
  next.step = state.step + 1;
  next.m =
      tree_map([&](const Array& m, const Array& g) { return o.beta1 * m + (1 - o.beta1) * g; }, state.m, gradients);
  next.v = tree_map([&](const Array& v, const Array& g) { return o.beta2 * v + (1 - o.beta2) * (g * g); }, state.v,
                    gradients);
  Array t = astype(next.step, float32);
  Array c1 = 1.0 - power(o.beta1, t);
  Array c2 = 1.0 - power(o.beta2, t);
  T p = tree_map(
      [&](const Array& w, const Array& m, const Array& v) {
        Array step = (m / c1) / (sqrt(v / c2) + o.epsilon);
        if (o.weight_decay != 0) step = step + o.weight_decay * w;
        return w - o.learning_rate * step;
      },
      params, next.m, next.v);
  return {p, next};
}
template <class T>
std::pair<T, AdamState<T>> adamw(const T& params, const T& gradients, const AdamState<T>& state,
                                 AdamOptions o = {.weight_decay = 1e-4}) {
  return adam(params, gradients, state, o);
}

}  // namespace tessera::optim
