// SPDX-License-Identifier: Apache-2.0
// A partitioned graph as the program that each device runs.
#pragma once

#include <string>

#include "ir/graph.h"

namespace tessera::hlo {

/// StableHLO of one device: a module of as many replicas as the mesh has positions. Values have the shapes of their
/// shards, reshards are collectives. Throws `UnimplementedError` where shards of one value differ in shape, and for ops
/// without a form in StableHLO.
std::string partitioned_text(const ir::GraphPtr& g, const std::string& name);

}  // namespace tessera::hlo
