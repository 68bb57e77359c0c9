// SPDX-License-Identifier: Apache-2.0
// Placements of gathers and scatters in types: derived where nothing has to move, refused otherwise.
#pragma once

#include "ir/derive_sharding.h"
#include "ops/shape/indexing_ops.h"

namespace tessera::ops {

void place_gather(const ir::PlaceArgs& args, ir::Types& out, const Gather& p);
void place_scatter(const ir::PlaceArgs& args, ir::Types& out, const Scatter& p);

}  // namespace tessera::ops
