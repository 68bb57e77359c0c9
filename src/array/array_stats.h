// SPDX-License-Identifier: Apache-2.0
// Counters of arrays, and the checks that trusted callers may skip.
#pragma once

#include <cstdint>
#include <memory>

#include "runtime/shard_set.h"
#include "sharding/placement.h"
#include "tessera/dtype.h"

namespace tessera::arrays {

/// `sharding::placement`, counted where several devices take part.
std::shared_ptr<const sharding::Placement> look_up(const ShardingPtr& sharding, const Shape& shape);
void count_shards(std::int64_t n);
void count_validation();
/// Where checks are on: the shards of a compiled program's result against its placement. Throws `InternalError`.
void check_result(const sharding::Placement& place, DType dtype, const runtime::ShardBuffers& shard_buffers,
                  bool by_position);

}  // namespace tessera::arrays
