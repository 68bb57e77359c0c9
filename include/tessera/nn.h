// SPDX-License-Identifier: Apache-2.0
// Functions of neural networks as jax.nn; the optimizers of tessera/optim.h come along. Activations are element-wise;
// integers become floats. They communicate nothing, unless a comment states a reduction.
#pragma once

#include <utility>

#include "tessera/numpy.h"
#include "tessera/optim.h"
#include "tessera/tree.h"

namespace tessera::nn {

/// x where x > 0, else 0, in x's dtype; the derivative at 0 is 0.
Array relu(const Operand& x);
/// min(max(x, 0), 6).
Array relu6(const Operand& x);
/// 1 / (1 + exp(-x)).
Array sigmoid(const Operand& x);
/// x * sigmoid(x) (Hendrycks and Gimpel, 2016).
Array silu(const Operand& x);
/// `silu`.
inline Array swish(const Operand& x) { return silu(x); }
/// log(1 + exp(x)) without overflow.
Array softplus(const Operand& x);
/// log(sigmoid(x)) = -softplus(-x).
Array log_sigmoid(const Operand& x);
/// x / (|x| + 1).
Array soft_sign(const Operand& x);
/// x clipped to [-1, 1].
Array hard_tanh(const Operand& x);
/// relu6(x + 3) / 6.
Array hard_sigmoid(const Operand& x);
/// x * hard_sigmoid(x).
Array hard_silu(const Operand& x);
/// x where x >= 0, else negative_slope * x.
Array leaky_relu(const Operand& x, double negative_slope = 0.01);
/// x where x > 0, else alpha * (exp(x) - 1).
Array elu(const Operand& x, double alpha = 1.0);
/// max(x, 0) + alpha * (exp(min(x, 0) / alpha) - 1).
Array celu(const Operand& x, double alpha = 1.0);
/// Scaled `elu` that keeps mean and variance (Klambauer et al., 2017).
Array selu(const Operand& x);
/// x times the standard normal distribution function of x; `approximate`: its tanh form.
Array gelu(const Operand& x, bool approximate = true);
/// x * tanh(softplus(x)).
Array mish(const Operand& x);
/// (x + sqrt(x^2 + b)) / 2.
Array squareplus(const Operand& x, double b = 4.0);
/// Gated linear unit: the first half times the sigmoid of the second along `axis`, whose extent halves. Throws
/// `ValueError` for an odd extent.
Array glu(const Operand& x, std::int64_t axis = -1);
/// (x - mean) / sqrt(variance + epsilon) along one axis; a sharded axis needs an all-reduce.
Array standardize(const Operand& x, std::int64_t axis = -1, double epsilon = 1e-5);
/// Layer normalization (Ba et al., 2016): standardized over the last axis, times `scale`, plus `bias`. A sharded last
/// axis needs an all-reduce.
Array layer_norm(const Operand& x, const Operand& scale, const Operand& bias, double epsilon = 1e-5);

/// The operand itself.
Array identity(const Operand& x);
/// `hard_silu`.
inline Array hard_swish(const Operand& x) { return hard_silu(x); }
/// 0 below -1, x above 1, (x + 1)^2 / 4 in between.
Array sparse_plus(const Operand& x);
/// Derivative of `sparse_plus`: (x + 1) / 2 clipped to [0, 1].
Array sparse_sigmoid(const Operand& x);
/// log(1 - exp(-x)) for positive x, accurate for small and large ones.
Array log1mexp(const Operand& x);
/// log(mean(exp(x))) over the axes, without overflow.
Array logmeanexp(const Operand& x, const ReduceOptions& options = {});

/// Bias, mask and scale of `dot_product_attention`.
struct AttentionOptions {
  std::optional<Array> bias = std::nullopt;    ///< added to scores (batch, heads, queries, keys)
  std::optional<Array> mask = std::nullopt;    ///< bool of that shape: false takes no part
  std::optional<double> scale = std::nullopt;  ///< 1 / sqrt(head size) unless given
  bool is_causal = false;                      ///< query i attends to keys 0 … i
};
/// softmax(query key^T * scale + bias) value: query (batch, queries, heads, size), key and value (batch, keys, key
/// heads, size), where the number of key heads divides that of the query's; the batch may be left out. The softmax is
/// computed in at least float32; the result has query's shape. A sharded dimension of keys or of the head size needs an
/// all-reduce, sharded batches and heads nothing. Throws `ValueError` for shapes that do not fit.
Array dot_product_attention(const Operand& query, const Operand& key, const Operand& value,
                            const AttentionOptions& options = {});

}  // namespace tessera::nn
