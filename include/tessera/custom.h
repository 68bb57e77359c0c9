// SPDX-License-Identifier: Apache-2.0
// Custom derivative rules, and host callbacks inside programs.
#pragma once

#include <functional>
#include <tuple>
#include <utility>
#include <vector>

#include "tessera/control.h"
#include "tessera/jit.h"

namespace tessera {

namespace detail {
/// `rule`: (primals, tangents) -> (results, tangents of results).
std::vector<Array> custom_jvp_leaves(const LeafFn& f, const LeafFn& rule, const std::vector<Array>& args,
                                     const Loc& loc);
/// `fwd`: primals -> (results, residuals); `bwd`: (residuals, cotangents of the `results` results) -> cotangents of the
/// primals.
std::vector<Array> custom_vjp_leaves(const LeafFn& f, const LeafFn& fwd, const LeafFn& bwd,
                                     const std::vector<Array>& args, const Loc& loc);
}  // namespace detail

namespace detail {
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
      FlatFunction flat(f, like), forward(fwd, like);
      LeafFn backward = [&](const std::vector<Array>& in) {
        std::tuple<Residuals, Result> inputs{forward.like().second, forward.like().first};
        auto cotangents = [&](const Residuals& r, const Result& ct) -> Tuple { return bwd(r, ct); };
        return FlatFunction(cotangents, inputs)(in);
      };
      return flat.rebuild(custom_vjp_leaves(flat, forward, backward, tree_leaves(like), Loc::current()));
    }
  }
}
}  // namespace detail

/// f whose derivative is `rule(primals, tangents)`: tuples of the arguments in, (result, tangent of the result) out.
/// Both modes follow from it, as the rule is linear in the tangents. Throws `TypeError` where the rule's results do not
/// match those of f.
template <class F, class R>
auto custom_jvp(F f, R rule) {
  return Callable([f = std::move(f), rule = std::move(rule)](const auto&... args) {
    return detail::custom_jvp_of(f, rule, args...);
  });
}

/// f whose reverse derivative is bwd(residuals, cotangent of the result) -> tuple of the arguments' cotangents, where
/// fwd(args…) gives (result, residuals). Forward mode throws `UnimplementedError`. Throws `TypeError` where bwd's
/// cotangents do not match the arguments.
template <class F, class Fwd, class Bwd>
auto custom_vjp(F f, Fwd fwd, Bwd bwd) {
  return Callable([f = std::move(f), fwd = std::move(fwd), bwd = std::move(bwd)](const auto&... args) {
    return detail::custom_vjp_of(f, fwd, bwd, args...);
  });
}

/// A host callback on values with data: called once per distinct value, on any thread.
using HostFunction = std::function<std::vector<HostArray>(const std::vector<HostArray>&)>;
/// Calls the host inside a program. The function must depend on its arguments alone: calls may be left out, repeated
/// and moved. `results` are the types that it returns. Derivatives throw `UnimplementedError`; what it throws, and
/// `ValueError` for another count of results, is thrown where a result is waited for.
std::vector<Array> pure_callback(const HostFunction& f, const std::vector<ShapeDtype>& results,
                                 const std::vector<Array>& args, const Loc& loc = Loc::current());
/// Calls the host exactly as often as the program specifies, in program order.
std::vector<Array> io_callback(const HostFunction& f, const std::vector<ShapeDtype>& results,
                               const std::vector<Array>& args, const Loc& loc = Loc::current());
/// Shows values to the host and returns none; for printing and recording.
void debug_callback(const std::function<void(const std::vector<HostArray>&)>& f, const std::vector<Array>& args,
                    const Loc& loc = Loc::current());
/// Prints `label` and the values to standard output, in one line, when the program runs.
void debug_print(const std::string& label, const std::vector<Array>& args = {}, const Loc& loc = Loc::current());

}  // namespace tessera
