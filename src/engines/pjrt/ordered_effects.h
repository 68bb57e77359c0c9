// SPDX-License-Identifier: Apache-2.0
// Calls of the host with effects, in the order of the program.
#pragma once

#include "ir/graph.h"
#include "ir/layout.h"

namespace tessera::pjrt_engine {

/// The same program, in which a number goes from each call with an effect to the next one, through loops, branches and
/// maps: XLA orders calls by their data alone. Outside of maps the first device of `mesh` makes the call, and the
/// others have its results from there, as sums of integers with their bits. Throws `UnimplementedError` for calls in
/// the condition of a loop, of one device inside a map, and of shards outside of every map.
ir::GraphPtr with_ordered_effects(const ir::GraphPtr& g, const ir::MeshAxes& mesh);

}  // namespace tessera::pjrt_engine
