// SPDX-License-Identifier: Apache-2.0
// Placements over explicit axes in functions that are written with others: what is asked for by `out_sharding`, and
// what a function sees to itself because its parts would refuse it.
#pragma once

#include <functional>
#include <vector>

#include "ir/builder.h"
#include "ir/type_sharding.h"
#include "tessera/explicit_sharding.h"

namespace tessera::program {

/// The options without the placement: those of what is done before a result is placed.
template <class Options>
Options unplaced(Options o) {
  o.out_sharding = {};
  return o;
}

/// Whether operations refuse placements that do not fit. Not inside what an `out_sharding` places.
bool checks_placements();
/// The sharding of the array's type where operations check it; null elsewhere and for types without one.
ir::TypeShardingPtr checked_sharding(const Array& x, const char* name);
/// True where axes split dimension d; false for null.
bool is_split(ir::TypeShardingPtr s, std::int64_t d);
/// True where axes split any dimension; false for null.
bool is_split(ir::TypeShardingPtr s);

/// What `f` makes with this sharding in its type; no rule for placements is checked on the way. Null asks for nothing:
/// f().
Array typed_as(ir::TypeShardingPtr want, const std::function<Array()>& f);
/// A value of x's shape that was made here, split as x is.
ir::Value split_like(ir::Value x, ir::Value made);

/// The sharding of operands that are broadcast to `shape`, as element-wise operations derive it, without marks. Null
/// where nothing is checked, and where an operand is unreduced or reduced, which the operations themselves see to.
/// Throws `ShardingTypeError` for operands whose entries differ.
ir::TypeShardingPtr broadcast_sharding(const char* name, const std::vector<Array>& in, const Shape& shape);

}  // namespace tessera::program
