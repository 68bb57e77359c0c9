// SPDX-License-Identifier: Apache-2.0
// What a partitioned program costs one device, for those who ask before they run it.
#pragma once

#include <cstdint>

#include "ir/graph.h"

namespace tessera::pjrt {

struct Costs {
  double flops = 0;                  ///< additions and multiplications of products, one an element for other operations
  double transcendentals = 0;        ///< elements of exponentials, logarithms and the like
  double bytes = 0;                  ///< read and written by operations, fused or not
  std::int64_t temporary_bytes = 0;  ///< at most, between operations, without arguments and results
};
/// Of the device with the largest shards. Bodies of loops count once.
Costs costs_of(const ir::Graph& partitioned);

}  // namespace tessera::pjrt
