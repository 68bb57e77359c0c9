// SPDX-License-Identifier: Apache-2.0
// The linear layer as one contraction.
#pragma once

#include <concepts>
#include <optional>

#include "tessera/array.h"
#include "tessera/loc.h"

namespace tessera {

/// y[…, m] = sum over n of x[…, n] weight[m, n] (+ bias[m]): one contraction over the last dimensions, so that the
/// leading ones keep their shardings (nothing is flattened). Its gradients are one contraction each: …m,mn->…n for x,
/// …m,…n->mn for the weight, …m->m for the bias; those without a consumer are not computed. Residuals: x and weight.
/// Communicates as `dot_general`. Throws `ValueError` naming `weight` or `bias` with the shapes that do not fit.
Array linear(const Array& x, const Array& weight, const std::optional<Array>& bias = std::nullopt,
             const Loc& loc = Loc::current());

/// Has a `weight`; a `bias` is optional, as a member and as a value.
template <class M>
concept LinearModule = requires(const M& m) {
  { m.weight } -> std::convertible_to<const Array&>;
};

/// `linear(x, m.weight, m.bias)`.
template <LinearModule M>
Array xla_patched_nn_linear_forward(const M& m, const Array& x, const Loc& loc = Loc::current()) {
  if constexpr (requires { std::optional<Array>(m.bias); }) {
    return linear(x, m.weight, std::optional<Array>(m.bias), loc);
  } else {
    return linear(x, m.weight, std::nullopt, loc);
  }
}

}  // namespace tessera
