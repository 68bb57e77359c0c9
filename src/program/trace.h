// SPDX-License-Identifier: Apache-2.0
// Tracing: running a user's function on tracers so that what it does becomes a graph.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "array/array_impl.h"
#include "ir/builder.h"
#include "ops/collective/varying.h"
#include "ops/ops.h"
#include "tessera/leaf_names.h"

namespace tessera::program {

/// The program being traced on this thread; inner ones (nested transformations) point outward.
class Trace {
 public:
  /// Throws `StateError` where traces nest so deep that the thread's stack would end.
  Trace();
  ~Trace();
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

  static Trace* current();
  /// The active trace with this id, or null.
  static Trace* find(std::uint64_t id);

  std::uint64_t id() const { return id_; }
  ir::Builder& builder() { return builder_; }
  /// A stand-in for a new input. `varying`: the mesh axes that it varies over, where a map checks that.
  Array input(const ir::Type& type, ops::NameSet varying = {});
  /// The value of an operand here: its own, a constant for a number, or an extra input for an array from outside.
  ir::Value lift(const Array& a, const char* function);
  /// The same for an array that messages call `who(i)`: "operand 1".
  ir::Value lift(const Array& a, const char* function, const char* what, std::size_t i);
  Array wrap(ir::Value v, std::string_view op = {}, const Loc& loc = {});
  /// Mesh axes that a value of this trace varies over (checked maps only).
  const ops::NameSet& varying(ir::ValueId v);
  /// Arrays from outside, in the order of their extra inputs (which follow the explicit ones).
  const std::vector<Array>& captures() const { return captures_; }

 private:
  ir::Value lifted(const Array& a, const char* function);

  std::uint64_t id_;
  Trace* outer_;
  std::shared_ptr<arrays::TraceLife> life_ = std::make_shared<arrays::TraceLife>();
  ir::Builder builder_;
  std::vector<Array> captures_;
  std::unordered_map<const arrays::ArrayImpl*, ir::ValueId> captured_;
  std::vector<ops::NameSet> varying_;  ///< by value, as far as equations were looked at
  std::size_t looked_at_ = 0;          ///< equations
};

/// While it lives no trace is current: what runs inside runs at once (callbacks, placement).
class TraceSuspension {
 public:
  TraceSuspension();
  ~TraceSuspension();
  TraceSuspension(const TraceSuspension&) = delete;
  TraceSuspension& operator=(const TraceSuspension&) = delete;

 private:
  Trace* before_;
};

/// While it lives, the current trace, and those begun inside it, take any placement of operands: what a rule cannot
/// keep is left unsplit. `open`: axes over which sums and contractions of operands that are split alike stay unreduced.
class LenientTyping {
 public:
  explicit LenientTyping(ir::AxisMask open = 0);
  ~LenientTyping();
  LenientTyping(const LenientTyping&) = delete;
  LenientTyping& operator=(const LenientTyping&) = delete;

 private:
  Trace* trace_;
  ir::Typing before_ = ir::Typing::Off;
};

using LeafFunction = std::function<std::vector<Array>(const std::vector<Array>&)>;

/// A traced function: graph inputs are the explicit ones, then the captures.
struct Traced {
  ir::GraphPtr graph;
  std::size_t num_inputs = 0;
  std::vector<Array> captures;
};
/// Runs `f` on tracers of these types. Outputs of `f` that do not depend on the trace become part of the graph too.
/// `varying`: of the inputs, where a map checks varying types; unknown ones are left out.
Traced trace(const LeafFunction& f, const ir::Types& inputs, const std::vector<ops::NameSet>& varying = {});

/// Mesh axes that an array of the current traces varies over; empty outside checked maps.
ops::NameSet varying_of(const Array& a);
std::vector<ops::NameSet> varying_of(const std::vector<Array>& leaves);
/// Inside a checked map: makes the sets of a loop's carried inputs (the first `carried` of `inputs`) what its body
/// gives them; true when one grew, so that the body must be traced again.
bool grow_varying(const Traced& body, std::vector<ops::NameSet>& inputs, std::size_t carried);
/// Inside a checked map: gives a graph, traced for a derivative at these arguments, its casts to varying.
void cast_varying(Traced& traced, const std::vector<Array>& args);

ir::Type type_of(const Array& a, const char* function);
/// Throws `StateError`, `DeletedArrayError` or `UnexpectedTracerError` naming the first leaf that has no value here.
void check_leaves(const std::vector<Array>& leaves, const char* function, const detail::LeafNames& names,
                  bool needs_data = true);

/// Operands as an op takes them that wants float operands of one dtype: scalars that have digits (`arrays::has_digits`)
/// leave them beside narrower arrays.
std::vector<Array> matched(const std::vector<Array>& in, const char* function, const Loc& loc);
/// Results of an op whose float operands all had digits, with the dtype that users expect: strong ones are float32.
std::vector<Array> seen(std::vector<Array> out, const std::vector<Array>& in, const Loc& loc);

/// One operation: an equation of the current trace, or a run eagerly.
std::vector<Array> bind(const ir::OpDef& op, const std::vector<Array>& in, ir::Attrs attrs, const Loc& loc);
inline Array bind1(const ir::OpDef& op, const std::vector<Array>& in, ir::Attrs attrs, const Loc& loc) {
  return bind(op, in, std::move(attrs), loc)[0];
}
/// A whole graph: its equations in the current trace, or a run at once. `args` are the graph's inputs.
std::vector<Array> bind_graph(const ir::GraphPtr& graph, const std::vector<Array>& args, const Loc& loc);

/// Types of operands as an op sees them, without running it.
template <class P>
ir::Attrs attrs(P p) {
  return ir::make_attrs(std::move(p));
}

}  // namespace tessera::program
