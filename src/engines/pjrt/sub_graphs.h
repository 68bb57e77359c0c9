// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "ir/graph.h"

namespace tessera::pjrt_engine {

/// The graphs that an equation holds: bodies, branches, conditions and maps. Reducers and comparators are not among
/// them.
std::vector<ir::GraphPtr> sub_graphs(const ir::Eqn& e);

}  // namespace tessera::pjrt_engine
