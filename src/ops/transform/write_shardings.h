// SPDX-License-Identifier: Apache-2.0
// What stands in types becomes equations, before a program is placed and partitioned.
#pragma once

#include "ir/graph.h"

namespace tessera::ops {

/// The graph without shardings in its types. Each result that had one gets a `sharding_constraint`, as in JAX's
/// lowering: closed over `Explicit` axes, and open to others where the mesh has `Auto` ones. Operands of element-wise
/// equations that are placed otherwise than the result are constrained to it. The graph itself where no type has one.
ir::GraphPtr write_shardings(const ir::GraphPtr& graph);

}  // namespace tessera::ops
