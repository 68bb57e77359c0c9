// SPDX-License-Identifier: Apache-2.0
// What the templates of tessera/custom.h call.
#pragma once

#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "tessera/function.h"
#include "tessera/tree.h"

namespace tessera::detail {

/// `rule`: (primals, tangents) -> (results, tangents of results).
std::vector<Array> custom_jvp_leaves(const LeafFn& f, const LeafFn& rule, const std::vector<Array>& args,
                                     const Loc& loc);
/// `fwd`: primals -> (results, residuals); `bwd`: (residuals, cotangents of the `results` results) -> cotangents of the
/// primals.
std::vector<Array> custom_vjp_leaves(const LeafFn& f, const LeafFn& fwd, const LeafFn& bwd,
                                     const std::vector<Array>& args, const Loc& loc);

template <class P>
inline constexpr bool is_pair = false;
template <class A, class B>
inline constexpr bool is_pair<std::pair<A, B>> = true;

template <class F, class R, class... Args>
auto custom_jvp_of(const F& f, const R& rule, const Args&... args) {
  static_assert(takes<F, Args...>, "custom_jvp: the function does not take arguments of these types in this number");
  using Tuple = std::tuple<Args...>;
  constexpr bool ruled = takes<R, Tuple, Tuple>;
  static_assert(ruled, "custom_jvp: the rule must take (primals, tangents), two std::tuples of the arguments");
  if constexpr (takes<F, Args...> && ruled) {
    static_assert(is_pair<std::decay_t<std::invoke_result_t<const R&, Tuple, Tuple>>>,
                  "custom_jvp: the rule must return std::pair(result, tangent of the result)");
    Tuple like{args...};
    std::tuple<Tuple, Tuple> both{like, like};
    FlatFunction flat(f, like);
    return flat.rebuild(custom_jvp_leaves(flat, FlatFunction(rule, both), tree_leaves(like), Loc::current()));
  }
}

template <class F, class Fwd, class Bwd, class... Args>
auto custom_vjp_of(const F& f, const Fwd& fwd, const Bwd& bwd, const Args&... args) {
  constexpr bool called = takes<F, Args...> && takes<Fwd, Args...>;
  static_assert(called, "custom_vjp: the function and its forward rule must take these arguments");
  if constexpr (called) {
    using Tuple = std::tuple<Args...>;
    using Result = std::decay_t<std::invoke_result_t<const F&, Args...>>;
    using Forward = std::decay_t<std::invoke_result_t<const Fwd&, Args...>>;
    static_assert(is_pair<Forward>, "custom_vjp: the forward rule must return std::pair(result, residuals)");
    if constexpr (is_pair<Forward>) {
      using Residuals = typename Forward::second_type;
      constexpr bool back = std::is_invocable_v<const Bwd&, Residuals, Result>;
      static_assert(
          std::is_same_v<typename Forward::first_type, Result>,
          "custom_vjp: the forward rule must return std::pair(result, residuals), with the function's result");
      static_assert(back, "custom_vjp: the backward rule must take (residuals, cotangent of the result)");
      if constexpr (back) {
        static_assert(std::is_convertible_v<std::invoke_result_t<const Bwd&, Residuals, Result>, Tuple>,
                      "custom_vjp: the backward rule must return a std::tuple with one cotangent for each argument");
      }
      Tuple like{args...};
      FlatFunction flat(f, like);
      FlatFunction forward(fwd, like);
      LeafFn backward = [&](const std::vector<Array>& in) {
        std::tuple<Residuals, Result> inputs{forward.like().second, forward.like().first};
        auto cotangents = [&](const Residuals& r, const Result& ct) -> Tuple { return bwd(r, ct); };
        return FlatFunction(cotangents, inputs)(in);
      };
      return flat.rebuild(custom_vjp_leaves(flat, forward, backward, tree_leaves(like), Loc::current()));
    }
  }
}

}  // namespace tessera::detail
