// SPDX-License-Identifier: Apache-2.0
// Tracing: running a user's function on stand-ins so that what it does becomes a graph.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "array/array_impl.h"
#include "ir/builder.h"
#include "ops/ops.h"

namespace tessera::api {

/// The program being traced on this thread; inner ones (nested transformations) point outward.
class Trace {
 public:
  Trace();
  ~Trace();
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

  static Trace* current();
  /// The active trace with this id, or null.
  static Trace* find(std::uint64_t id);

  std::uint64_t id() const { return id_; }
  ir::Builder& builder() { return builder_; }
  /// A stand-in for a new input.
  Array input(const ir::Type& type);
  /// The value of an operand here: its own, a constant for a number, or an extra input for an array from outside.
  ir::Value lift(const Array& a, const char* function);
  Array wrap(ir::Value v);
  /// Arrays from outside, in the order of their extra inputs (which follow the explicit ones).
  const std::vector<Array>& captures() const { return captures_; }

 private:
  std::uint64_t id_;
  Trace* outer_;
  ir::Builder builder_;
  std::vector<Array> captures_;
  std::unordered_map<const array::ArrayImpl*, ir::ValueId> captured_;
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

using LeafFunction = std::function<std::vector<Array>(const std::vector<Array>&)>;

/// A traced function: graph inputs are the explicit ones, then the captures.
struct Traced {
  ir::GraphPtr graph;
  std::size_t num_inputs = 0;
  std::vector<Array> captures;
};
/// Runs `f` on stand-ins of these types. Outputs of `f` that do not depend on the trace become part of the graph too.
Traced trace(const LeafFunction& f, const ir::Types& inputs);

ir::Type type_of(const Array& a, const char* function);

/// One operation: an equation of the current trace, or a run at once.
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

}  // namespace tessera::api
