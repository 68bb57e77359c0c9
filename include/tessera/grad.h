// SPDX-License-Identifier: Apache-2.0
// Derivatives. All of them take and return trees of arrays, nest in any way, and flow through arrays that the function
// captures from an outer traced function.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "tessera/detail/grad.h"
#include "tessera/function.h"
#include "tessera/tree.h"

namespace tessera {

/// Reverse mode: `value_and_grad(f)(args…)` is (f(args…), gradient of f in argument 0); `value_and_grad<0, 2>(f)` gives
/// a tuple of gradients. f returns a real scalar, or (scalar, auxiliary tree) for the `_aux` form. Complex leaves
/// follow JAX: the conjugate of the steepest ascent. Throws `TypeError` when the result is not a real scalar, or a
/// differentiated leaf has no float dtype.
template <std::size_t... N, class F>
auto value_and_grad(F f) {
  return Callable(detail::value_and_grad_function<detail::Aux::no, N...>(std::move(f)));
}
/// The gradient alone of `value_and_grad`. Gradients have the shapes, dtypes and, where propagation can keep them,
/// shardings of their arguments; gradients of replicated arguments from sharded data need an all-reduce.
template <std::size_t... N, class F>
auto grad(F f) {
  return Callable([g = detail::value_and_grad_function<detail::Aux::no, N...>(std::move(f))](const auto&... args) {
    return g(args...).second;
  });
}
/// For f that returns (scalar, auxiliary tree): gives ((scalar, aux), gradient).
template <std::size_t... N, class F>
auto value_and_grad_aux(F f) {
  return Callable(detail::value_and_grad_function<detail::Aux::yes, N...>(std::move(f)));
}
/// For f that returns (scalar, auxiliary tree): gives (gradient, aux).
template <std::size_t... N, class F>
auto grad_aux(F f) {
  return Callable([g = detail::value_and_grad_function<detail::Aux::yes, N...>(std::move(f))](const auto&... args) {
    auto [value, gradient] = g(args...);
    return std::pair{std::move(gradient), std::move(value.second)};
  });
}

/// Forward mode: (f(primals…), its directional derivative along tangents…). Tangents have the primals' structure,
/// shapes and dtypes.
template <class F, class... Args>
auto jvp(const F& f, const std::tuple<Args...>& primals, const std::tuple<Args...>& tangents,
         const Loc& = Loc::current()) {
  static_assert(detail::takes<F, Args...>, "jvp: the function does not take the primals");
  detail::FlatFunction flat(f, primals);
  std::vector<Array> all = detail::jvp(flat, tree_leaves(primals), tree_leaves(tangents), detail::LeafNames(primals));
  std::size_t next = 0;
  auto value = flat.rebuild(all, next);
  auto tangent = flat.rebuild(all, next);
  return std::pair{std::move(value), std::move(tangent)};
}

/// vjp(f, primals…): (f(primals…), a function from cotangents of the result to the tuple of cotangents of the primals).
TESSERA_FUNCTION_OF_ARGUMENTS(vjp, detail::vjp_of)
/// linear_transpose(f, like…), the transpose of a linear function: from cotangents of its result to the tuple of
/// cotangents of its arguments, which `like` gives the shapes and dtypes of. What f adds besides is left out.
TESSERA_FUNCTION_OF_ARGUMENTS(linear_transpose, detail::linear_transpose_of)
/// linearize(f, primals…): (f(primals…), a function from tangents of the primals to the tangent of the result).
TESSERA_FUNCTION_OF_ARGUMENTS(linearize, detail::linearize_of)

/// Jacobian of an array-to-array function in its argument 0, by forward mode: its shape is that of the result followed
/// by that of the argument.
template <class F>
auto jacfwd(F f) {
  return Callable([f = std::move(f)](const Array& x, const auto&... rest) {
    detail::LeafFn flat = [&](const std::vector<Array>& in) { return std::vector<Array>{f(in[0], rest...)}; };
    return detail::jacobian(flat, x, true);
  });
}
/// The same by reverse mode: cheaper where the result is smaller than the argument.
template <class F>
auto jacrev(F f) {
  return Callable([f = std::move(f)](const Array& x, const auto&... rest) {
    detail::LeafFn flat = [&](const std::vector<Array>& in) { return std::vector<Array>{f(in[0], rest...)}; };
    return detail::jacobian(flat, x, false);
  });
}
/// `jacrev`.
template <class F>
auto jacobian(F f) {
  return jacrev(std::move(f));
}
/// Second derivatives of a scalar function of one array, forward over reverse: shape is that of the array twice.
template <class F>
auto hessian(F f) {
  return jacfwd(jacrev(std::move(f)));
}

}  // namespace tessera
