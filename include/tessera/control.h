// SPDX-License-Identifier: Apache-2.0
// Control flow inside programs, as jax.lax: the functions are traced once, may capture arrays, and are differentiated
// and batched with the rest. Operands, carries and results are trees of arrays.
#pragma once

#include <functional>
#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "tessera/detail/control.h"
#include "tessera/grad.h"
#include "tessera/operand.h"
#include "tessera/ops.h"
#include "tessera/tree.h"

namespace tessera {

/// on_true(operands…) where `pred` (a scalar) holds, else on_false(operands…): both are traced, one of them runs. Both
/// give the same tree of types. Throws `TypeError` where they differ, `ValueError` unless `pred` has rank 0.
template <class T, class F, class... Args>
auto cond(const Operand& pred, const T& on_true, const F& on_false, const Args&... operands) {
  constexpr bool takes = detail::takes<T, Args...> && detail::takes<F, Args...>;
  static_assert(takes, "cond: both branches must take exactly the operands that follow them");
  if constexpr (takes) {
    using R = std::decay_t<std::invoke_result_t<const T&, Args...>>;
    constexpr bool same = std::is_same_v<R, std::decay_t<std::invoke_result_t<const F&, Args...>>>;
    static_assert(same, "cond: both branches must return the same type");
    if constexpr (same) {
      std::tuple<Args...> like{operands...};
      std::shared_ptr<R> first;
      detail::FlatFunction no(on_false, like);
      detail::FlatFunction yes(on_true, like);
      std::vector<Array> out = detail::cond_leaves(
          detail::branch_predicate(pred),
          {detail::checked_branch<R>(no, &first, "cond"), detail::checked_branch<R>(yes, &first, "cond")},
          tree_leaves(like), pred.loc());
      return tree_unflatten(*first, out);
    }
  }
}

/// branches[index](operands…), the index (an integer scalar) clamped into range; all are traced, one runs. Throws
/// `TypeError` where their results' types differ, `ValueError` without branches.
template <class R, class... Args>
R switch_(const Operand& index, const std::vector<std::function<R(Args...)>>& branches,
          const std::type_identity_t<std::decay_t<Args>>&... operands) {
  std::tuple<std::decay_t<Args>...> like{operands...};
  std::shared_ptr<R> first;
  std::vector<detail::LeafFn> flat;
  for (const auto& b : branches) {
    flat.push_back(detail::checked_branch<R>(detail::FlatFunction(b, like), &first, "switch_"));
  }
  std::vector<Array> out =
      detail::cond_leaves(detail::branch_index(index, flat.size()), flat, tree_leaves(like), index.loc());
  return tree_unflatten(*first, out);
}

/// carry = body(carry) while condition(carry), which returns one bool scalar. Differentiable in forward mode only.
/// Throws `TypeError` when the body changes the carry's types or the condition returns something else.
template <class C, class B, class T>
T while_loop(const C& condition, const B& body, const T& init, const Loc& loc = Loc::current()) {
  constexpr bool tests = detail::takes<C, T>;
  constexpr bool steps = std::is_invocable_r_v<T, const B&, T>;
  static_assert(tests, "while_loop: the condition must take the carry");
  static_assert(steps, "while_loop: the body must take the carry and return the next one, of the same type");
  if constexpr (tests && steps) {
    std::tuple<T> like{init};
    auto test = [&](const T& carry) { return Array(condition(carry)); };
    auto step = [&](const T& carry) -> T { return body(carry); };
    return tree_unflatten(
        init, detail::while_leaves(detail::FlatFunction(test, like),
                                   detail::checked_step(detail::FlatFunction(step, like), init, "while_loop"),
                                   tree_leaves(init), loc));
  }
}

/// (carry, y) = f(carry, x) for every x along dimension 0 of the leaves of `xs`, from the last to the first where
/// `reverse`; returns the final carry and the stacked ys. `length` is needed where xs has no leaves. f is traced once;
/// reverse-mode derivatives store the residuals of every iteration. Throws `ValueError` for leaves of different
/// lengths, `TypeError` when the carry changes its types.
template <class F, class C, class X>
auto scan(const F& f, const C& init, const X& xs, bool reverse = false, std::int64_t length = -1,
          const Loc& loc = Loc::current()) {
  static_assert(detail::takes<F, C, X>, "scan: the function must take (carry, x), of the types of `init` and `xs`");
  static_assert(!detail::takes<F, C, X> || detail::is_scan_step<F, C, X>,
                "scan: the function must return std::pair(carry, y) with a carry of the type of `init`");
  if constexpr (detail::is_scan_step<F, C, X>) {
    std::tuple<C, X> like{init, xs};
    using R = std::decay_t<std::invoke_result_t<const F&, C, X>>;
    auto step = [&](const C& carry, const X& x) {
      R r = f(carry, x);
      detail::check_structure("scan", "the carry that the function returns", tree_structure(r.first),
                              tree_structure(init));
      return r;
    };
    detail::FlatFunction flat(step, like);
    return flat.rebuild(detail::scan_leaves(flat, tree_leaves(init), tree_leaves(xs), length, reverse, loc));
  }
}

/// carry = body(i, carry) for the int32 scalar i (int64 where a bound is beyond int32) in [lower, upper), which are
/// known while tracing: a scan, differentiable in both modes.
template <class B, class T>
T fori_loop(std::int64_t lower, std::int64_t upper, const B& body, const T& init, const Loc& loc = Loc::current()) {
  static_assert(std::is_invocable_r_v<T, const B&, Array, T>,
                "fori_loop: the body must take (i, carry) and return the next carry");
  if constexpr (std::is_invocable_r_v<T, const B&, Array, T>) {
    auto step = [&](const std::pair<Array, T>& carry, std::monostate) {
      return std::pair{std::pair<Array, T>{carry.first + 1, body(carry.first, carry.second)}, std::monostate{}};
    };
    bool narrow = lower >= INT32_MIN && upper <= INT32_MAX;
    const HostArray first = narrow ? HostArray::scalar(static_cast<std::int32_t>(lower)) : HostArray::scalar(lower);
    std::pair<Array, T> start{Array(first), init};
    return scan(step, start, std::monostate{}, false, upper > lower ? upper - lower : 0, loc).first.second;
  }
}
/// The same with bounds computed by the program: a while loop, differentiable in forward mode only.
template <class B, class T>
T fori_loop(const Array& lower, const Array& upper, const B& body, const T& init, const Loc& loc = Loc::current()) {
  static_assert(std::is_invocable_r_v<T, const B&, Array, T>,
                "fori_loop: the body must take (i, carry) and return the next carry");
  if constexpr (std::is_invocable_r_v<T, const B&, Array, T>) {
    auto go = [](const std::tuple<Array, Array, T>& c) { return std::get<0>(c) < std::get<1>(c); };
    auto step = [&](const std::tuple<Array, Array, T>& c) {
      return std::tuple<Array, Array, T>{std::get<0>(c) + 1, std::get<1>(c), body(std::get<0>(c), std::get<2>(c))};
    };
    return std::get<2>(while_loop(go, step, std::tuple<Array, Array, T>{lower, upper, init}, loc));
  }
}

/// f on every slice of dimension 0, one after another (a scan); results are stacked.
template <class F, class X>
auto map(const F& f, const X& xs, const Loc& loc = Loc::current()) {
  static_assert(detail::takes<F, X>, "map: the function must take one element of `xs`");
  auto step = [&](std::monostate, const X& x) { return std::pair{std::monostate{}, f(x)}; };
  return scan(step, std::monostate{}, xs, false, -1, loc).second;
}

/// All prefixes (suffixes where `reverse`) along `axis`, combined by an associative function of two trees that acts on
/// whole slices, in logarithmic depth (Blelloch, 1990). Throws `ValueError` for leaves of different extents.
template <class F, class T>
T associative_scan(const F& combine, const T& elems, bool reverse = false, std::int64_t axis = 0,
                   const Loc& loc = Loc::current()) {
  static_assert(std::is_invocable_r_v<T, const F&, T, T>,
                "associative_scan: the function must take two trees of the type of `elems` and return one");
  std::tuple<T, T> like{elems, elems};
  auto whole = [&](const T& a, const T& b) -> T { return combine(a, b); };
  return tree_unflatten(elems, detail::associative_scan_leaves(detail::FlatFunction(whole, like), tree_leaves(elems),
                                                               axis, reverse, loc));
}

/// f whose intermediate values are recomputed in the backward pass in place of being stored as residuals
/// (jax.checkpoint).
template <class F>
auto checkpoint(F f) {
  return Callable([f = std::move(f)](const auto&... args) {
    static_assert(detail::takes<F, std::decay_t<decltype(args)>...>,
                  "checkpoint: the function does not take arguments of these types in this number");
    std::tuple<std::decay_t<decltype(args)>...> like{args...};
    detail::FlatFunction flat(f, like);
    return flat.rebuild(detail::checkpoint_leaves(flat, tree_leaves(like), Loc::current()));
  });
}

}  // namespace tessera
