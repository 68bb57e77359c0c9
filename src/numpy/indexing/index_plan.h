// SPDX-License-Identifier: Apache-2.0
// A NumPy index taken apart: reading goes forward through a plan, writing goes back.
#pragma once

#include "ops/shape/indexing_ops.h"
#include "program/composite.h"
#include "tessera/indexing.h"

namespace tessera::program {

/// Three steps: a static slice (turned round in `reversed`), one gather at the index arrays, one reshape that drops
/// numbers and adds new axes.
struct IndexPlan {
  Dims starts, limits, strides, reversed;
  bool whole = true;  ///< the slice takes everything in order
  Shape operand, sliced;

  Arrays arrays;       ///< integers; none: no gather
  Dims array_dims;     ///< dimension of each
  Shape picked;        ///< what they broadcast to
  ops::Gather gather;  ///< over `sliced`
  Shape gathered;      ///< what it gives (`sliced` where there are no arrays)

  Shape result;
};

/// Throws `IndexError`, `TypeError` for index arrays of floats, `ConcretizationError` for bool arrays under a trace.
IndexPlan plan_index(const Shape& shape, const IndexItems& items, const Loc& loc);
/// The index vectors of the plan's gather, negative numbers counted from the end if asked.
Array index_vectors(const IndexPlan& plan, const Arrays& arrays, bool wrap_negative);
/// The slice of the plan's first step.
Array sliced(const IndexPlan& plan, const Array& x);
ops::IndexMode mode_of(IndexMode mode);

}  // namespace tessera::program
