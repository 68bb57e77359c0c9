// SPDX-License-Identifier: Apache-2.0
// Rows that go straight to the instance of a collective that needs them, where how many go where is data.
#pragma once

#include "ops/collective/collectives.h"
#include "ops/define_op.h"
#include "ops/shared_attrs.h"

namespace tessera::ops {

/// i32[].
Value number(Builder& b, std::int64_t value);
/// Entries `numbers` (i32[k], all inside) of dimension 0.
Value rows_at(Value x, Value numbers);
/// Row `number` of a matrix, without its dimension.
Value line_of(Value matrix, Value number);
/// The numbers of elements (i32[n]) in the order of ascending keys, equal ones as they come; of a permutation, its
/// inverse.
Value order_of(Value keys);

/// What an instance sends to each and receives from each.
class RowRoutes {
 public:
  /// Tables i32[instances, instances], by source and destination: the first row that is sent, and how many are.
  RowRoutes(Value first, Value size, const Collective& c);
  /// What the others send this instance of their `rows` [n, …]: `count` rows, in the order of sources.
  Value sent(Value rows, std::int64_t count) const;

 private:
  Collective c_;
  Value first_, size_, to_, received_;
};

/// A slice that is split along the dimension of its computed place as its array is: each position sends what it has.
std::optional<ir::Division> slice_by_routes(Builder& b, const ir::DivideArgs& a, const DynamicSlice& p);

}  // namespace tessera::ops
