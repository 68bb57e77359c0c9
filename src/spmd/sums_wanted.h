// SPDX-License-Identifier: Apache-2.0
// Which sums over positions nobody needs complete: those that the program gives away, constrains or maps as addends.
#pragma once

#include <cstddef>
#include <vector>

#include "ir/module.h"
#include "spmd/factoring.h"

namespace tessera::spmd {

/// How many operands, from the first on, an op may be linear in.
std::size_t linear_operands(const ir::Eqn& e);
/// The op takes sums apart, whatever the layouts are: op(sum of x) = sum of op(x) in operand `i`.
bool linear_in(const ir::Graph& g, const ir::Eqn& e, std::size_t i);

/// By value the axes over which all that read it take it as a sum, directly or through linear ops, so that a sum that
/// is left open over them costs nothing. 0 for all values of a program without unreduced ones.
std::vector<AxisMask> sums_wanted(const ir::Module& m);
/// The same, all axes for values that nobody reads.
std::vector<AxisMask> read_as_sums(const ir::Module& m);

}  // namespace tessera::spmd
