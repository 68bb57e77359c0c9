// SPDX-License-Identifier: Apache-2.0
// Runs of element-wise equations, with the repetitions and row reductions between them, become one step whose
// intermediate values never reach memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "engines/cpu/step_program.h"

namespace tessera::cpu {

/// How a value lies over the space of a group, whose dimensions from `split` on are the columns of its rows. Values of
/// columns are reductions over all rows; nothing in the group reads them.
enum class Role : std::uint8_t { Full, Row, Column };

struct FusionGroup {
  std::vector<std::size_t> eqns;  ///< in order
  Shape space;
  ir::DimAxes dims;  ///< tiling of the space
  ir::AxisMask distinct = 0;
  std::int64_t split = -1;  ///< -1: nothing depends on it
  std::map<ir::ValueId, Role> produced;
  std::vector<ir::ValueId> results;  ///< those of the values produced that others read

  bool has_columns() const;
};

/// Every equation of the graph, in groups in an order of execution; groups of more than one are for `make_fused_step`.
std::vector<FusionGroup> fusion_groups(const ir::Graph& g, bool fuse);

StepPtr make_fused_step(const ir::Graph& g, const FusionGroup& group, Context& context);

}  // namespace tessera::cpu
