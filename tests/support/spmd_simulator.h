// SPDX-License-Identifier: Apache-2.0
// A slow, plain evaluator of graphs by the ops' references: unpartitioned ones on whole arrays, partitioned ones
// position by position, on nothing but the definition of layouts. The judge of the partitioner and of engines.
#pragma once

#include <vector>

#include "ir/graph.h"
#include "ir/layout.h"
#include "tessera/host_array.h"

namespace tessera::test {

/// Results of one equation on whole arrays; sub-graphs of control flow are evaluated.
std::vector<HostArray> evaluate_eqn(const ir::Graph& g, const ir::Eqn& e, const std::vector<HostArray>& in);
/// Outputs of a graph on whole arrays.
std::vector<HostArray> evaluate(const ir::Graph& g, const std::vector<HostArray>& args);

/// What every position of the mesh holds of a value, row-major by position.
using Held = std::vector<HostArray>;
/// First element and extents of the tile of position p.
Index tile_index(const Shape& global, const ir::Layout& layout, const ir::MeshAxes& mesh, std::int64_t p);
/// Tiles of an array that all positions agree on.
Held scatter(const HostArray& global, const ir::Layout& layout, const ir::MeshAxes& mesh);
/// The array again. Throws `StateError` when positions that must agree do not.
HostArray gather(const Held& held, const Shape& global, const ir::Layout& layout, const ir::MeshAxes& mesh);

/// Outputs of a partitioned graph, by position. Throws `StateError` when an equation's shards do not have the shapes
/// that its layouts say, or when positions that a layout says are equal are not.
std::vector<Held> simulate(const ir::Graph& g, std::vector<Held> args);
/// Scatter, simulate, gather.
std::vector<HostArray> run_partitioned(const ir::Graph& g, const std::vector<HostArray>& args);

/// Empty when the arrays agree: exactly for integers and bool, else within `tolerance` of the largest magnitude (at
/// least 1); NaN equals NaN. Otherwise a text with the first difference.
std::string difference(const HostArray& got, const HostArray& want, double tolerance);

}  // namespace tessera::test
