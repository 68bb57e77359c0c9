// SPDX-License-Identifier: Apache-2.0
// Opens the maps of a program whose mesh is known: one flat graph, in which blocks are values with `manual_enter` and
// `manual_exit` at the boundaries, and collectives know their axes of the program's mesh.
#pragma once

#include <functional>
#include <vector>

#include "ir/graph.h"
#include "ops/collective/shard_map_op.h"

namespace tessera::spmd {

/// For each axis of a map's mesh the axes of the program's mesh that it is made of, major first; none for size 1.
using ResolveMap = std::function<std::vector<ir::AxisList>(const ops::ShardMap&)>;

bool has_maps(const ir::Graph& g);
ir::GraphPtr expand_maps(const ir::GraphPtr& g, const ResolveMap& resolve);

}  // namespace tessera::spmd
