// SPDX-License-Identifier: Apache-2.0
// Transformations of whole graphs, equation by equation: forward mode, linearization, transposition, batching. They are
// built from the rules of single ops and serve both the public transformations and the ops that hold sub-graphs (cond,
// while, scan, remat, custom rules).
//
// Each comes in two forms: `…_inline` writes into a builder that the caller owns, `…_graph` makes a graph of its own.
// Every equation keeps the source line of the one that it comes from.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ops/ops.h"

namespace tessera::ops {

using ir::Duals;
using ir::Graph;
using ir::GraphPtr;
using ir::TypeSpan;
/// One mark an input, an output or an operand. Where a function takes flags "to force", an empty list forces nothing.
using Flags = std::vector<bool>;
/// Flags may be shorter than what they are about: the rest is false.
inline bool is_set(const Flags& flags, std::size_t i) { return i < flags.size() && flags[i]; }

// --- forward mode -----------------------------------------------------------------------------------------------

/// Results of `op` and their tangents (empty = zero). With `split`, no equation that the results need reads a tangent.
Duals dual_of(Builder& b, const ir::OpDef& op, const ir::DualArgs& args, const ir::Attrs& attrs);

/// Outputs of `g` and their tangents for inputs `in` with tangents `tangents` (empty = zero).
/// `split`: as in `dual_of`, so that the result can be cut in a known and a linear part.
Duals jvp_inline(Builder& b, const Graph& g, ValueSpan in, ValueSpan tangents, bool split = false);

/// (inputs, tangents of the active inputs) -> (outputs, tangents of the active outputs).
struct JvpGraph {
  GraphPtr graph;
  Flags active_out;
};
/// Inputs without tangents (integers, bool) count as not active. Outputs to force are active even where their tangent
/// is zero; only inexact ones can be.
JvpGraph jvp_graph(const Graph& g, const Flags& active_in, const Flags& force_out = {});

// --- reverse mode: linearize, then transpose --------------------------------------------------------------------

struct Linearized {
  GraphPtr known;   ///< inputs -> outputs, residuals
  GraphPtr linear;  ///< residuals, tangents of the active inputs -> tangents of the active outputs
  std::size_t num_residuals = 0;
  Flags active_out;
};
/// Residuals are what the linear part reads of the known one, without what it can cheaply make again: constants,
/// counters and repetitions. Throws `UnimplementedError` at an op that only forward mode can pass (while).
Linearized linearize_graph(const Graph& g, const Flags& active_in, const Flags& force_out = {});

/// Cotangents of the inputs of `g` that are empty in `in`; `g` must be linear in those together. Empty = zero, also in
/// `ct`, which has one value an output. Equations that do not depend on the linear inputs are evaluated as they are.
Values transpose_inline(Builder& b, const Graph& g, ValueSpan in, ValueSpan ct);

/// (non-linear inputs, cotangents of the outputs with `has_ct`) -> cotangents of the linear inputs with `nonzero`.
struct Transposed {
  GraphPtr graph;
  Flags nonzero;  ///< one an input of the original; false for non-linear ones
};
Transposed transpose_graph(const Graph& g, const Flags& linear_in, const Flags& has_ct, const Flags& force = {});

// --- batching ---------------------------------------------------------------------------------------------------

/// While it lives, the batch carries this name (as collectives spell it): collectives over the name become local work,
/// also in the sub-graphs of control flow. An empty name carries none.
class BatchName {
 public:
  explicit BatchName(std::string name);
  ~BatchName();
  BatchName(const BatchName&) = delete;
  BatchName& operator=(const BatchName&) = delete;
  static const std::string& current();

 private:
  std::string before_;
};

/// Outputs of `g` where dimension 0 of the marked inputs is a batch of `size` independent calls.
ir::Batched batch_inline(Builder& b, const Graph& g, ValueSpan in, const Flags& batched, std::int64_t size);

struct BatchedGraph {
  GraphPtr graph;
  Flags batched_out;
};
/// Outputs to force get the batch in front even where all calls give the same.
BatchedGraph batch_graph(const Graph& g, const Flags& batched_in, std::int64_t size, const Flags& force_out = {});

// --- small tools -------------------------------------------------------------------------------------------------

/// `x` repeated `size` times along a new dimension 0.
Value repeat_in_front(Value x, std::int64_t size);
/// Type with one more dimension 0.
Type stacked(const Type& t, std::int64_t size);

}  // namespace tessera::ops
