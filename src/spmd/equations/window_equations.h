// SPDX-License-Identifier: Apache-2.0
// Convolutions and window reductions along split dimensions: every position computes the windows of its part of the
// result, for which it takes the edge of its neighbours' parts.
#pragma once

#include <optional>
#include <vector>

#include "ir/op_def.h"
#include "ops/shared_attrs.h"

namespace tessera::spmd {

/// A dimension over which windows slide.
struct WindowDim {
  std::size_t number;   ///< among those of the op
  std::size_t in, out;  ///< dimension of operand 0 and of the result
  std::int64_t size, stride, dilation, low, high, spread;
};
/// Empty for other ops.
std::vector<WindowDim> window_dims(const ir::Eqn& e, ir::TypeSpan in);

/// Whether windows slide along a dimension of the equation's operand 0.
bool slides_windows(const ir::Eqn& e);
/// Whether windows of the equation's operands can take in what pads these.
bool meets_padding(const ir::Eqn& e);
/// Whether a slice of the equation's result can be made without the rest.
bool can_be_cut(const ir::Eqn& e);
/// With a `halo` equation and stacks of windows in place of an equation that slides windows along a dimension that is
/// split alike in operand and result; nothing for others.
std::optional<ir::Division> divide_windows(ir::Builder& b, const ir::Eqn& e, const ir::DivideArgs& args);

/// An equation that meets padding, with stacks of windows; where `cut` is not null, what that slice of its result
/// gives.
std::optional<ir::Division> divide_padded_windows(ir::Builder& b, const ir::Eqn& e, const ir::DivideArgs& args,
                                                  const ops::StaticSlice* cut);

}  // namespace tessera::spmd
