// SPDX-License-Identifier: Apache-2.0
// Convolutions and window reductions along split dimensions: every position computes the windows of its part of the
// result, for which it takes the edge of its neighbours' parts.
#pragma once

#include <optional>
#include <vector>

#include "spmd/spmd.h"

namespace tessera::spmd {

/// A dimension over which windows slide.
struct WindowDim {
  std::size_t number;   ///< among those of the op
  std::size_t in, out;  ///< dimension of operand 0 and of the result
  std::int64_t size, stride, dilation, low, spread;
};
/// Empty for other ops.
std::vector<WindowDim> window_dims(const ir::Eqn& e, ir::TypeSpan in);

/// A graph and a layout for each of its values.
struct LaidGraph {
  ir::GraphPtr graph;
  std::vector<ir::Layout> layouts;
};
/// With `halo` equations and stacks of windows in place of the equations that slide windows along a dimension that is
/// split alike in operand and result; nothing when there are none. `layouts` are propagate's.
std::optional<LaidGraph> split_windows(const ir::Module& m, const std::vector<ir::Layout>& layouts);

}  // namespace tessera::spmd
