// SPDX-License-Identifier: Apache-2.0
// What reductions share: which options they take, masks and counts of elements.
#pragma once

#include <optional>

#include "program/promote.h"
#include "tessera/reduce_options.h"

namespace tessera::program {

enum class Takes { Neither, Where, InitialAndWhere };
/// Throws `ValueError` naming an option that the reduction does not take.
void only(const char* name, const ReduceOptions& o, Takes takes);

/// The mask at the array's shape, or as it is where it has rank 0. Throws `TypeError`, `ValueError`.
Array mask_of(const char* name, const Operand& where, const Shape& shape, const Loc& loc);

/// How many elements a reduction takes: a scalar without a mask, else an array of the result's shape and this dtype.
Array count_of(const char* name, const Array& x, const MaybeDims& axis, bool keepdims,
               const std::optional<Operand>& where, DType dtype, const Loc& loc);

}  // namespace tessera::program
