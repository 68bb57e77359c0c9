// SPDX-License-Identifier: Apache-2.0
// Custom derivative rules, and host callbacks inside programs.
#pragma once

#include <functional>
#include <tuple>
#include <utility>
#include <vector>

#include "tessera/control.h"
#include "tessera/detail/custom.h"
#include "tessera/jit.h"

namespace tessera {

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
