// SPDX-License-Identifier: Apache-2.0
// What element-wise operations read of moved arrays is read where it is: fused blocks see padding, slices and shifts as
// windows of the array, and only the edges that a shard lacks are stored.
#pragma once

#include "ir/graph.h"
#include "ir/op_def.h"

namespace tessera::cpu {

/// Operands: an array whose dimension `dimension` is split evenly, or not at all, and for each part, stacked along a
/// dimension 0 that is split as that one is, the `|by|` elements that its shard lacks. Element o of the result is
/// element o + by of the array; the part's own edge stands for what lies beyond the shard.
struct HaloShift {
  std::int64_t dimension = 0;
  std::int64_t by = 0;
  static constexpr auto fields =
      std::tuple{ir::field("dimension", &HaloShift::dimension), ir::field("by", &HaloShift::by)};
};
const ir::OpDef& halo_shift();

/// The same program, in which what element-wise operations alone read is written for windows: halos that shift an array
/// along one dimension are halos of the edges and shifts, arrays that are put together from their own two parts are
/// shifts, and slices of padded arrays are padding.
ir::GraphPtr find_windows(const ir::GraphPtr& graph);

}  // namespace tessera::cpu
