// SPDX-License-Identifier: Apache-2.0
// What a user may write in place of an operation whose operands' placements do not fit.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/derive_sharding.h"
#include "program/trace.h"

namespace tessera::program {

/// Other placements of operands, or one of the result.
struct ShardingCure {
  std::vector<ir::TypeShardingPtr> operands;  ///< null: as it is
  ir::TypeShardingPtr out = nullptr;          ///< `out_sharding`; null: derived
  std::string text;                           ///< the line: "reshard(operand 1, P('x', None))"
  std::int64_t bytes = 0;                     ///< that the plan of the resharding and the operation moves a device
};
/// Those that were derived and partitioned without an error, cheapest first. Empty where none of those that are tried
/// fits.
std::vector<ShardingCure> sharding_cures(const ir::OpDef& op, const ir::Types& in, const ir::Attrs& attrs);
/// Lines for the end of a `ShardingTypeError`; empty where there is none.
std::string to_string(const std::vector<ShardingCure>& cures);

/// What `f` gives; where it is refused, the error is told again with its cures.
template <class F>
auto with_cures(F f) {
  try {
    return f();
  } catch (const ir::ShardingRefusal& refusal) {
    const TraceSuspension outside;  // the candidates are programs of their own
    throw ShardingTypeError(refusal.what() + to_string(sharding_cures(*refusal.op, refusal.in, refusal.attrs)));
  }
}

/// The program of an equation as a cure writes it. Throws what derivation throws.
ir::GraphPtr cured(const ir::OpDef& op, const ir::Types& in, const ir::Attrs& attrs, const ShardingCure& cure);

}  // namespace tessera::program
