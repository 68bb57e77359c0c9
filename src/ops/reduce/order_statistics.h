// SPDX-License-Identifier: Apache-2.0
// Few elements of an array that is sorted along a split dimension: medians, quantiles, the k-th smallest.
#pragma once

#include "ir/op_def.h"
#include "ops/shape/indexing_ops.h"
#include "ops/shared_attrs.h"

namespace tessera::ops {

/// Rules of `OpSpec::divide_with_maker` where the maker is a sort of one real operand: a bisection for the elements
/// that are wanted, in which the shards' counts are summed once for each bit of a key, in place of the sort. A zero is
/// negative where its line has no positive one.
std::optional<ir::Division> gather_of_sorted(Builder& b, const ir::DivideArgs& a, const Gather& p);
std::optional<ir::Division> slice_of_sorted(Builder& b, const ir::DivideArgs& a, const StaticSlice& p);
std::optional<ir::Division> dynamic_slice_of_sorted(Builder& b, const ir::DivideArgs& a, const DynamicSlice& p);

}  // namespace tessera::ops
