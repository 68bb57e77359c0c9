// SPDX-License-Identifier: Apache-2.0
// Optimizers, gradient clipping and learning rate schedules as plain functions, with the formulas of optax. Parameters
// and what belongs to them are trees; every leaf keeps its dtype, and float64 leaves are updated in float64.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "tessera/array.h"
#include "tessera/numpy.h"
#include "tessera/operand.h"
#include "tessera/ops.h"
#include "tessera/tree.h"

namespace tessera::optim {

namespace detail {
/// 1 - beta^step in the dtype (float32 for narrower ones), without cancellation.
Array bias_correction(double beta, const Array& step, DType dtype);
Array global_norm(const std::vector<Array>& leaves);
Array clip_to_norm(const Array& x, const Array& norm, const Operand& max_norm);
}  // namespace detail

// --- optimizers ------------------------------------------------------------------------------------------------------

/// Stochastic gradient descent: velocity = momentum * velocity + gradient; parameters -= rate * velocity.
struct SgdOptions {
  Operand learning_rate = 0.01;  ///< a scalar, or what a schedule gives for this step
  double momentum = 0.9;
};
/// Zero velocity for every parameter.
template <class T>
T sgd_init(const T& params, const Loc& = Loc::current()) {
  return tree_map([](const Array& p) { return zeros_like(p); }, params);
}
/// One step: (new parameters, new velocity). Element-wise: sharded trees of one structure communicate nothing. Throws
/// `ValueError` for trees of different structures.
template <class T>
std::pair<T, T> sgd(const T& params, const T& gradients, const T& velocity, const SgdOptions& o = {},
                    const Loc& = Loc::current()) {
  T v = tree_map([&](const Array& u, const Array& g) { return astype(o.momentum * u + g, u.dtype()); }, velocity,
                 gradients);
  return {
      tree_map([&](const Array& p, const Array& u) { return astype(p - o.learning_rate * u, p.dtype()); }, params, v),
      v};
}

/// Adam (Kingma and Ba, 2015); with `weight_decay` AdamW (Loshchilov and Hutter, 2019).
struct AdamOptions {
  Operand learning_rate = 1e-3;  ///< a scalar, or what a schedule gives for this step
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0;
};
/// First and second moments, and the steps that were done.
template <class T>
struct AdamState {
  T m, v;
  Array step;  ///< int32
};
/// Zero moments for every parameter, step 0.
template <class T>
AdamState<T> adam_init(const T& params, const Loc& = Loc::current()) {
  T zero = tree_map([](const Array& p) { return zeros_like(p); }, params);
  return {zero, zero, Array(HostArray::scalar(std::int32_t{0}))};
}
/// One step: (new parameters, new state). Element-wise: communicates nothing. Throws `ValueError` for trees of
/// different structures.
template <class T>
std::pair<T, AdamState<T>> adam(const T& params, const T& gradients, const AdamState<T>& state,
                                const AdamOptions& o = {}, const Loc& = Loc::current()) {
  AdamState<T> next;
  next.step = state.step + 1;
  next.m = tree_map([&](const Array& m, const Array& g) { return astype(o.beta1 * m + (1 - o.beta1) * g, m.dtype()); },
                    state.m, gradients);
  next.v =
      tree_map([&](const Array& v, const Array& g) { return astype(o.beta2 * v + (1 - o.beta2) * (g * g), v.dtype()); },
               state.v, gradients);
  std::map<DType, std::pair<Array, Array>> corrections;  // of both moments, by dtype
  T p = tree_map(
      [&](const Array& w, const Array& m, const Array& v) {
        auto& [c1, c2] = corrections[m.dtype()];
        if (!c1.defined()) {
          c1 = detail::bias_correction(o.beta1, next.step, m.dtype());
          c2 = detail::bias_correction(o.beta2, next.step, m.dtype());
        }
        Array step = (m / c1) / (sqrt(v / c2) + o.epsilon);
        if (o.weight_decay != 0) step = step + o.weight_decay * w;
        return astype(w - o.learning_rate * step, w.dtype());
      },
      params, next.m, next.v);
  return {p, next};
}
/// `adam` with decoupled weight decay, 1e-4 by default: (new parameters, new state).
template <class T>
std::pair<T, AdamState<T>> adamw(const T& params, const T& gradients, const AdamState<T>& state,
                                 AdamOptions o = {.weight_decay = 1e-4}, const Loc& = Loc::current()) {
  return adam(params, gradients, state, o);
}

// --- gradient clipping -----------------------------------------------------------------------------------------------

/// The Euclidean norm of all leaves together.
template <class T>
Array global_norm(const T& tree, const Loc& = Loc::current()) {
  return detail::global_norm(tree_leaves(tree));
}
/// Every element between -max_delta and max_delta.
template <class T>
T clip_by_value(const T& tree, const Operand& max_delta) {
  return tree_map([&](const Array& x) { return astype(clip(x, -max_delta, max_delta), x.dtype()); }, tree);
}
/// Every leaf whose Euclidean norm is above `max_norm` is scaled down to it.
template <class T>
T clip_by_norm(const T& tree, const Operand& max_norm) {
  return tree_map([&](const Array& x) { return detail::clip_to_norm(x, detail::global_norm({x}), max_norm); }, tree);
}
/// All leaves are scaled by one factor where their norm together is above `max_norm`.
template <class T>
T clip_by_global_norm(const T& tree, const Operand& max_norm) {
  const Array norm = global_norm(tree);
  return tree_map([&](const Array& x) { return detail::clip_to_norm(x, norm, max_norm); }, tree);
}

// --- learning rate schedules -----------------------------------------------------------------------------------------

/// The rate at a step, which may be a counter of a traced function: a scalar that takes the dtype of what it meets,
/// with float64's digits beside float64.
///   auto rate = optim::warmup_cosine_decay_schedule(0, 1e-3, 100, 10'000);
///   std::tie(p, state) = optim::adam(p, g, state, {.learning_rate = rate(state.step)});
using Schedule = std::function<Array(const Operand& step)>;

/// The same rate at every step.
Schedule constant_schedule(double value);
/// From `init_value` to `end_value` by (1 - share)^power, over `transition_steps` steps after `transition_begin`. A
/// count of steps that is not positive gives `init_value` throughout.
Schedule polynomial_schedule(double init_value, double end_value, double power, std::int64_t transition_steps,
                             std::int64_t transition_begin = 0);
/// `polynomial_schedule` of power 1.
Schedule linear_schedule(double init_value, double end_value, std::int64_t transition_steps,
                         std::int64_t transition_begin = 0);
/// Multiplied by a factor at each of these steps, and so from there on. Throws `ValueError` for a negative factor.
Schedule piecewise_constant_schedule(double init_value, const std::map<std::int64_t, double>& boundaries_and_scales);
/// Beginning, steps and end of `exponential_decay`.
struct ExponentialDecayOptions {
  std::int64_t transition_begin = 0;
  bool staircase = false;                          ///< whole powers only
  std::optional<double> end_value = std::nullopt;  ///< the rate never goes beyond it
};
/// init_value * decay_rate^(step / transition_steps).
Schedule exponential_decay(double init_value, std::int64_t transition_steps, double decay_rate,
                           const ExponentialDecayOptions& options = {});
/// Half a cosine from `init_value` to alpha * init_value in `decay_steps` steps. Throws `ValueError` unless that count
/// is positive.
Schedule cosine_decay_schedule(double init_value, std::int64_t decay_steps, double alpha = 0, double exponent = 1);
/// schedules[i] between boundaries[i - 1] and boundaries[i], its steps counted from its boundary. Throws `ValueError`
/// unless there is one boundary fewer than schedules.
Schedule join_schedules(const std::vector<Schedule>& schedules, const std::vector<std::int64_t>& boundaries);
/// Linear to `peak_value` in `warmup_steps`, and constant from there on.
Schedule warmup_constant_schedule(double init_value, double peak_value, std::int64_t warmup_steps);
/// Linear to `peak_value` in `warmup_steps`, then a cosine to `end_value`, in `decay_steps` together. Throws
/// `ValueError` unless these are more than the steps of the warm-up, as Optax does.
Schedule warmup_cosine_decay_schedule(double init_value, double peak_value, std::int64_t warmup_steps,
                                      std::int64_t decay_steps, double end_value = 0, double exponent = 1);
/// Linear to `peak_value` in `warmup_steps`, then exponential decay.
Schedule warmup_exponential_decay_schedule(double init_value, double peak_value, std::int64_t warmup_steps,
                                           std::int64_t transition_steps, double decay_rate,
                                           const ExponentialDecayOptions& options = {});

}  // namespace tessera::optim
