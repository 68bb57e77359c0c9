// SPDX-License-Identifier: Apache-2.0
// Ops that speak of where a value is placed: members of a group are placed alike, and a caller learns which sharding a
// value got.
#pragma once

#include <cstdint>
#include <string_view>

#include "ir/attrs.h"
#include "ops/ops.h"

namespace tessera::ops {

// Not in ops.def: programs that are read have them, and no rule but propagation meets them.
namespace def {
extern const ir::OpDef& sharding_group;
extern const ir::OpDef& inspect_sharding;
}  // namespace def

/// `sharding_group` (Shardy's, jax.experimental.shard_alike): the identity. Results of all such equations with one
/// number take each other's axes. Partitioned graphs have none.
struct ShardingGroup {
  std::int64_t group = 0;
  static constexpr auto fields = std::tuple{ir::field("group", &ShardingGroup::group)};
};

/// What modules have before the number of an `InspectSharding` in its custom call's backend_config.
inline constexpr std::string_view kInspectKey = "tessera:";

/// `inspect_sharding` (jax.debug.inspect_array_sharding): who compiles the program finds in the partitioned graph which
/// layout the operand has there. Computes nothing.
struct InspectSharding {
  std::int64_t number = 0;  ///< the caller's
  static constexpr auto fields = std::tuple{ir::field("number", &InspectSharding::number)};
};

}  // namespace tessera::ops
