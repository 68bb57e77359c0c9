// SPDX-License-Identifier: Apache-2.0
// The older form of manual computations: operations between the custom calls SPMDFullToShardShape and
// SPMDShardToFullShape are a program of one device.
#pragma once

#include <string>
#include <vector>

#include "hlo/text/ast.h"

namespace tessera::hlo {

/// Name of the operation that `with_manual_groups` makes.
inline constexpr std::string_view kManualShards = "%manual_shards";

/// "Sharding" of `stablehlo.custom_call @Sharding(…)`; "" for any other operation.
std::string custom_call_target(const AstOp& op);
/// Whether one of the operations, in this block, is one of the two calls.
bool has_shard_marks(const std::vector<AstOp>& ops);
/// The operations of a block in which each connected set of manual operations has become one of name `kManualShards`:
/// its region is the program of one device, `in_shardings` and `out_shardings` say the tiles of operands and results,
/// `manual` which devices are told apart. The ASTs that it was made from must outlive it.
std::vector<AstOp> with_manual_groups(const std::vector<AstOp>& ops);

}  // namespace tessera::hlo
