// SPDX-License-Identifier: Apache-2.0
// What the templates of tessera/grad.h call.
#pragma once

#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "tessera/function.h"
#include "tessera/tree.h"

namespace tessera::detail {

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

}  // namespace tessera::detail
