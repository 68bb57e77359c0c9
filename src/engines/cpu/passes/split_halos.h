// SPDX-License-Identifier: Apache-2.0
// What element-wise operations read of shifted arrays is read where it is: only the edges of other shards move.
#pragma once

#include "ir/graph.h"
#include "ir/op_def.h"

namespace tessera::cpu {

/// Operands: an array that is split evenly along `dimension`, and for each part, stacked along a dimension 0 that is
/// split as that one is, the `|by|` elements that its shard lacks. Element o of the result is element o + by of the
/// array; the part's own edge stands for what lies beyond the shard.
struct HaloShift {
  std::int64_t dimension = 0;
  std::int64_t by = 0;
  static constexpr auto fields =
      std::tuple{ir::field("dimension", &HaloShift::dimension), ir::field("by", &HaloShift::by)};
};
const ir::OpDef& halo_shift();

/// The same program in which halos that are shifts by one dimension, read by element-wise operations alone, are halos
/// of the edges and shifts, which fused blocks read in place.
ir::GraphPtr split_halos(const ir::GraphPtr& graph);

}  // namespace tessera::cpu
