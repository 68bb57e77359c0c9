// SPDX-License-Identifier: Apache-2.0
// Placements of reads and updates at indices over explicit axes: an update is a scatter to the types, whatever it is
// computed by.
#pragma once

#include "numpy/indexing/index_plan.h"
#include "numpy/placed.h"

namespace tessera::program {

/// The update, of the plan's shape `gathered`, placed as what it meets in x: as x in dimensions taken whole, as the
/// index arrays in theirs. Throws `ValueError` where it is split otherwise.
Array placed_update(const IndexPlan& plan, const char* name, const Array& x, const Array& indices, const Array& update);
/// Throws `DuplicateAxisError` where the index arrays are split over an axis that splits what they read of x.
void check_read(const IndexPlan& plan, const char* name, const Array& x, const Array& indices);
/// Throws `ShardingTypeError` naming `out_sharding` where a range or a number of the plan takes a part of a split
/// dimension.
void check_written_ranges(const IndexPlan& plan, const char* name, const Array& x);

}  // namespace tessera::program
