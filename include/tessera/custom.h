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

/// f whose derivative is `rule(primals, tangents)`: tuples of the arguments in, (result, tangent of the result) out.
/// Both modes follow from it, as the rule is linear in the tangents. Throws `TypeError` where the rule's results do not
/// match those of f.
template <class F, class R>
auto custom_jvp(F f, R rule) {
  return [f = std::move(f), rule = std::move(rule)](const auto&... args) {
    using Args = std::tuple<std::decay_t<decltype(args)>...>;
    Args like{args...};
    using Result = std::decay_t<decltype(std::apply(f, like))>;
    std::shared_ptr<void> result;
    std::shared_ptr<void> ignored;
    std::tuple<Args, Args> both{like, like};
    std::vector<Array> out =
        detail::custom_jvp_leaves(detail::flat_function(f, like, &result), detail::flat_function(rule, both, &ignored),
                                  tree_leaves(like), Loc::current());
    return tree_unflatten(*static_cast<Result*>(result.get()), out);
  };
}

/// f whose reverse derivative is bwd(residuals, cotangent of the result) -> tuple of the arguments' cotangents, where
/// fwd(args…) gives (result, residuals). Forward mode throws `UnimplementedError`. Throws `TypeError` where bwd's
/// cotangents do not match the arguments.
template <class F, class Fwd, class Bwd>
auto custom_vjp(F f, Fwd fwd, Bwd bwd) {
  return [f = std::move(f), fwd = std::move(fwd), bwd = std::move(bwd)](const auto&... args) {
    using Args = std::tuple<std::decay_t<decltype(args)>...>;
    Args like{args...};
    using Result = std::decay_t<decltype(std::apply(f, like))>;
    using Forward = std::decay_t<decltype(std::apply(fwd, like))>;
    using Residuals = typename Forward::second_type;
    std::shared_ptr<void> result;
    auto kept = std::make_shared<Forward>();
    detail::LeafFn forward = [&](const std::vector<Array>& in) {
      *kept = detail::on_leaves(fwd, like, in);
      return tree_leaves(*kept);
    };
    detail::LeafFn backward = [&](const std::vector<Array>& in) {
      std::tuple<Residuals, Result> shape{kept->second, kept->first};
      return tree_leaves(static_cast<Args>(detail::on_leaves(bwd, shape, in)));
    };
    std::vector<Array> out = detail::custom_vjp_leaves(detail::flat_function(f, like, &result), forward, backward,
                                                       tree_leaves(like), Loc::current());
    return tree_unflatten(*static_cast<Result*>(result.get()), out);
  };
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
