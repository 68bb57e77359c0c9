// SPDX-License-Identifier: Apache-2.0
// The first half of reverse mode, for those who write a gradient into a graph of their own.
#pragma once

#include <cstddef>
#include <vector>

#include "ops/transform/graph_rules.h"

namespace tessera::ops {

/// What `linearize_graph` makes, with the known part not yet written.
class LinearizedInline {
 public:
  LinearizedInline(const Graph& g, const Flags& active_in, const Flags& force_out = {});

  /// Writes the known part: outputs, then residuals.
  Values known(Builder& b, ValueSpan in) const;
  const GraphPtr& linear() const { return linear_; }
  std::size_t num_residuals() const { return known_.size() - active_out_.size(); }
  const Flags& active_out() const { return active_out_; }

 private:
  Graph all_;  // computes outputs and tangents from inputs and tangents
  std::size_t num_inputs_;
  std::vector<bool> stays_;  // by equation: in the known part
  std::vector<ir::ValueId> known_;
  GraphPtr linear_;
  Flags active_out_;
};

}  // namespace tessera::ops
