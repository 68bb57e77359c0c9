// SPDX-License-Identifier: Apache-2.0
// What one device computes in an equation: operations by kind, as clusters have rates of them.
#pragma once

#include "ir/graph.h"
#include "planner/schedule.h"
#include "tessera/shape.h"

namespace tessera::planner {

/// What one device holds of a value.
Shape local_shape(const ir::Graph& g, ir::ValueId v);
/// Rows along the last dimension of it.
double row_count(const ir::Graph& g, ir::ValueId v);

/// Sets the fields of `t` that say how much is computed, and its dtype. `native`: as the native engine does it.
void describe_work(const ir::Graph& g, const ir::Eqn& e, bool native, Task& t);

}  // namespace tessera::planner
