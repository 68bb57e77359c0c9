// SPDX-License-Identifier: Apache-2.0
// How a reshape moves the entries of a type's sharding.
#pragma once

#include "ir/derive_sharding.h"

namespace tessera::ops {

/// Entries follow dimensions as long as extents of 1 alone come and go, one dimension is split up, or one group is
/// merged; what else is sharded throws `ShardingTypeError`.
void place_reshape(const ir::PlaceArgs& args, ir::Types& out);

}  // namespace tessera::ops
