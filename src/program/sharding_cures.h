// SPDX-License-Identifier: Apache-2.0
// What a user may write in place of an operation whose operands' placements do not fit.
#pragma once

#include <string>

#include "ir/op_def.h"

namespace tessera::program {

/// Lines for the end of a `ShardingTypeError`, cheapest first: "reshard(operand 1, P('x', None)): 96 bytes a device".
/// Each was derived and partitioned: its bytes are those of the communication plan of the resharding and the operation
/// together. Empty where none of those that are tried fits.
std::string sharding_cures(const ir::OpDef& op, const ir::Types& in, const ir::Attrs& attrs);

}  // namespace tessera::program
