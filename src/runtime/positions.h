// SPDX-License-Identifier: Apache-2.0
// Arithmetic of mesh positions and shard numbers: both are mixed-radix numbers over mesh axes.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/layout.h"

namespace tessera::runtime {

/// Row-major strides of the mesh axes in position numbers.
std::vector<std::int64_t> position_strides(const ir::MeshAxes& mesh);

/// What one step along an axis adds to the shard number; 0 for axes over which shards do not differ.
struct ShardStrides {
  std::vector<std::int64_t> of_axis;
  std::vector<std::int64_t> of_dim;  ///< one tile further along a dimension of the value
  std::int64_t count = 1;            ///< of shards
};
ShardStrides shard_strides(const ir::Layout& layout, const ir::MeshAxes& mesh);

}  // namespace tessera::runtime
