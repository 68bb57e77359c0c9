// SPDX-License-Identifier: Apache-2.0
// Control flow on graph values. Sub-graphs are closed: what they capture is an operand.
#pragma once

#include "ops/shared_attrs.h"
#include "ops/transform/graph_rules.h"

namespace tessera::ops {

/// Results of the branch that `which` numbers: i32 (clamped to the branches there are), or bool (false takes branch 0).
Values cond(Value which, const std::vector<GraphPtr>& branches, ValueSpan operands);

/// Runs `body` on the carry while `cond` gives true.
struct WhileArgs {
  GraphPtr cond, body;
  Values cond_consts, body_consts, carry;
};
Values while_loop(Builder& b, const WhileArgs& args);

/// Runs `body` once an element of dimension 0 of `xs`, from the last one where `reverse`.
struct ScanArgs {
  GraphPtr body;
  std::int64_t length = 0;
  bool reverse = false;
  Values consts, carry, xs;
};
/// Final carry, then the stacked outputs.
Values scan(Builder& b, const ScanArgs& args);

// --- what the files of control-flow ops share ------------------------------------------------------------------

/// Throws `TypeError` unless both types agree in dtype, shape and sharding: "[op] what is f32[3]; expected f32[4]".
void check_type(const char* op, const std::string& what, const Type& got, const Type& want);
void check_inputs(const char* op, const std::string& which, const Graph& g, const std::vector<Type>& want);

/// The same graph with its inputs (outputs) in another order: new number i is the old number `order[i]`.
GraphPtr with_inputs(const Graph& g, const std::vector<std::size_t>& order);
GraphPtr with_outputs(const Graph& g, const std::vector<std::size_t>& order);

/// Which values are there.
Flags present(ValueSpan values);
/// Those of `values` whose flag is set.
Values selected(ValueSpan values, const Flags& flags);
/// Sets each flag of `into` that is set in `from`; true when one was not set before.
bool merge(Flags& into, const Flags& from);
/// Values [begin, end).
inline ValueSpan subrange(ValueSpan v, std::size_t begin, std::size_t end) { return v.subspan(begin, end - begin); }
inline Flags subrange(const Flags& v, std::size_t begin, std::size_t end) {
  return Flags(v.begin() + static_cast<std::ptrdiff_t>(begin), v.begin() + static_cast<std::ptrdiff_t>(end));
}
template <class V>
void append(V& to, const auto& from) {
  to.insert(to.end(), from.begin(), from.end());
}
std::size_t count(const Flags& flags);

}  // namespace tessera::ops
