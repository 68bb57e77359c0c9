// SPDX-License-Identifier: Apache-2.0
// Bytes that a partitioned graph moves between devices.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/graph.h"
#include "ir/layout.h"
#include "ops/shape/halo.h"

namespace tessera::ops {

/// Every tile of `fine` lies inside the tile of `coarse` of the same position.
bool nested(std::int64_t extent, const ir::AxisList& coarse, const ir::AxisList& fine, const ir::MeshAxes& mesh);

/// Bytes of the largest shard.
std::int64_t local_bytes(const ir::Type& type, const ir::Layout& layout, const ir::MeshAxes& mesh);

/// Bytes that the device which receives most receives when a value goes from one layout to another in one step.
std::int64_t received(const ir::Type& type, const ir::Layout& from, const ir::Layout& to, const ir::MeshAxes& mesh);

/// The same of a halo. Layouts without partial axes.
std::int64_t halo_received(const Halo& h, ir::TypeSpan in, const ir::Type& out, const std::vector<ir::Layout>& from,
                           const ir::Layout& to, const ir::MeshAxes& mesh);

/// The same of any equation of a partitioned graph; 0 for those that move nothing.
std::int64_t received(const ir::Graph& partitioned, const ir::Eqn& e);

/// Numbers of the mesh axes over which an equation of a partitioned graph moves data; none for those that move nothing.
Dims exchange_axes(const ir::Graph& partitioned, const ir::Eqn& e);

}  // namespace tessera::ops
