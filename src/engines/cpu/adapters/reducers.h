// SPDX-License-Identifier: Apache-2.0
// Reducers that a program gives as a graph, as far as kernels know them.
#pragma once

#include <optional>

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

}  // namespace tessera::cpu
