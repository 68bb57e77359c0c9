// SPDX-License-Identifier: Apache-2.0
// Arrays that are gathered in the order of a sort: x[argsort(x)], y[argsort(x)], take_along_axis(y, argsort(x)). Along
// a split dimension the gather moves whole lines of the array, where the sort moves each element once or twice.
#pragma once

#include "ir/graph.h"

namespace tessera::spmd {

/// The program with such arrays as operands of the sort, and sorts without the operands that nobody reads then. The
/// same values.
ir::GraphPtr with_gathers_in_order(const ir::GraphPtr& graph);

}  // namespace tessera::spmd
