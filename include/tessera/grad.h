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

#include "tessera/function.h"
#include "tessera/tree.h"

namespace tessera {

namespace detail {

/// f(leaves) and the cotangents of the leaves marked in `active`, for cotangent 1 of output 0 (the first `num_values`
/// outputs are differentiated: one, of rank 0). Returns outputs, then gradients.
std::vector<Array> value_and_grad(const LeafFn& f, const std::vector<Array>& leaves, const std::vector<bool>& active,
                                  const char* name, const LeafNames& names = {});
/// f(leaves), then the tangents of its outputs.
std::vector<Array> jvp(const LeafFn& f, const std::vector<Array>& leaves, const std::vector<Array>& tangents,
                       const LeafNames& names = {});

/// A function's value at a point, and its linear map there.
class Linear {
 public:
  std::vector<Array> outputs;
  /// Tangents of inputs -> tangents of outputs.
  std::vector<Array> push(const std::vector<Array>& tangents) const;
  /// Cotangents of outputs -> cotangents of inputs.
  std::vector<Array> pull(const std::vector<Array>& cotangents) const;

  struct Impl;
  std::shared_ptr<const Impl> impl;
};
Linear linearize(const LeafFn& f, const std::vector<Array>& leaves, const LeafNames& names = {});

/// Pushes (forward) or pulls the rows of the identity in one batch; f has one output.
Array jacobian(const LeafFn& f, const Array& x, bool forward);

template <std::size_t... N, class Tuple>
std::vector<bool> active_leaves(const Tuple& args) {
  std::vector<bool> out;
  std::size_t arg = 0;
  std::apply(
      [&](const auto&... a) { ((out.insert(out.end(), tree_leaves(a).size(), ((arg == N) || ...)), ++arg), ...); },
      args);
  return out;
}

/// Auxiliary results follow a first element that is the value.
enum class Aux { no, yes };
template <class R>
inline constexpr bool has_aux = false;
template <class A>
inline constexpr bool has_aux<std::pair<Array, A>> = true;

template <Aux A, std::size_t... N, class F, class... Args>
auto value_and_grad_of(const F& f, const Args&... given) {
  static_assert(takes<F, Leafy<Args>...>, "grad: the function does not take arguments of these types in this number");
  if constexpr (takes<F, Leafy<Args>...>) {
    using R = std::decay_t<std::invoke_result_t<const F&, Leafy<Args>...>>;
    constexpr bool fits = A == Aux::no ? std::is_same_v<R, Array> : has_aux<R>;
    static_assert(A != Aux::no || fits,
                  "grad: the function must return one Array, the value to differentiate; for a pair (value, auxiliary "
                  "results) use grad_aux or value_and_grad_aux");
    static_assert(A != Aux::yes || fits, "grad_aux: the function must return std::pair(value, auxiliary results)");
    constexpr bool in_range = ((N < sizeof...(Args)) && ...);
    static_assert(in_range, "grad: an argument number to differentiate is beyond the function's arguments");
    if constexpr (fits && in_range) {
      std::tuple<Leafy<Args>...> args{leafy(given)...};
      FlatFunction flat(f, args);
      std::vector<Array> all =
          value_and_grad(flat, tree_leaves(args), active_leaves<N...>(args), "grad", LeafNames(args));
      std::size_t next = 0;
      auto value = flat.rebuild(all, next);
      auto grads = [&] {
        if constexpr (sizeof...(N) == 1) {
          return with_leaves(std::get<(N, ...)>(args), all, next);
        } else {
          return std::tuple{with_leaves(std::get<N>(args), all, next)...};
        }
      };
      return std::pair{std::move(value), grads()};
    }
  }
}
template <Aux A, std::size_t... N, class F>
auto value_and_grad_function(F f) {
  return [f = std::move(f)](const auto&... args) {
    if constexpr (sizeof...(N) == 0) {
      return value_and_grad_of<A, 0>(f, args...);
    } else {
      return value_and_grad_of<A, N...>(f, args...);
    }
  };
}

}  // namespace detail

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

namespace detail {
template <class F, class... Args>
auto vjp_of(const F& f, const Args&... primals) {
  static_assert(takes<F, Args...>, "vjp: the function does not take arguments of these types in this number");
  std::tuple<Args...> args{primals...};
  FlatFunction flat(f, args);
  Linear linear = detail::linearize(flat, tree_leaves(args), LeafNames(args));
  auto value = flat.rebuild(linear.outputs);
  auto pull = [linear, args](const decltype(value)& cotangents, const Loc& = Loc::current()) {
    std::vector<Array> out = linear.pull(tree_leaves(cotangents));
    std::size_t next = 0;
    return std::apply([&](const auto&... a) { return std::tuple<Args...>{with_leaves(a, out, next)...}; }, args);
  };
  return std::pair{std::move(value), std::move(pull)};
}
template <class F, class... Args>
auto linear_transpose_of(const F& f, const Args&... like) {
  return vjp_of(f, like...).second;
}
template <class F, class... Args>
auto linearize_of(const F& f, const Args&... primals) {
  static_assert(takes<F, Args...>, "linearize: the function does not take arguments of these types in this number");
  std::tuple<Args...> args{primals...};
  FlatFunction flat(f, args);
  Linear linear = detail::linearize(flat, tree_leaves(args), LeafNames(args));
  auto push = [linear, flat](const Args&... tangents, const Loc& = Loc::current()) {
    return flat.rebuild(linear.push(tree_leaves(std::tuple<Args...>{tangents...})));
  };
  return std::pair{flat.rebuild(linear.outputs), std::move(push)};
}
}  // namespace detail

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
