// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "ir/graph.h"

namespace tessera::pjrt_engine {

/// The graphs that an equation holds: bodies, branches, conditions and maps. Reducers and comparators are not among
/// them.
std::vector<ir::GraphPtr> sub_graphs(const ir::Eqn& e);
/// Its attributes with other graphs of the same types, in this order.
ir::Attrs with_sub_graphs(const ir::Eqn& e, std::vector<ir::GraphPtr> graphs);

}  // namespace tessera::pjrt_engine
