// SPDX-License-Identifier: Apache-2.0
// Reducers that a program gives as a graph, as far as kernels know them.
#pragma once

#include <optional>

#include "engines/cpu/adapters/kernel_table.h"
#include "engines/cpu/kernels/elementwise/elementwise_kernels.h"
#include "engines/cpu/kernels/reduce_axes.h"
#include "ir/graph.h"

namespace tessera::cpu {

struct SimpleReducer {
  kernels::ReduceOp reduce;
  kernels::EwOp combine;
};
/// The one commutative op that the body (two numbers -> one number) applies to its inputs, if it is no more than that.
std::optional<SimpleReducer> simple_reducer(const ir::Graph& body);

/// A reduction over axes that lie together, and windows that are a running reduction, by a body of element-wise ops: it
/// is called on many lines and blocks of lines together. The order of elements stays, their grouping follows from the
/// number of them alone. No kernel (`run` empty) for others.
Kernel reduce_by_body(const Request& r);
Kernel run_by_body(const Request& r);

}  // namespace tessera::cpu
