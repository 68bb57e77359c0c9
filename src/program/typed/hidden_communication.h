// SPDX-License-Identifier: Apache-2.0
// Which steps of a communication plan no operation of a program over explicit axes states.
#pragma once

#include <vector>

#include "ir/graph.h"
#include "tessera/comm_plan.h"

namespace tessera::program {

/// The steps on source lines of which no equation states that data moves. `typed` is the program as it was traced, with
/// shardings in its types. An equation states it by resharding, by a placement of its result that its rule does not
/// give (`out_sharding`), by summing over what is split, by an op that works along a split dimension (slices,
/// reversals, transforms …), by a collective, or by leaving its result to the partitioner.
std::vector<CommStep> hidden_steps(const ir::Graph& typed, const CommPlan& plan);

}  // namespace tessera::program
