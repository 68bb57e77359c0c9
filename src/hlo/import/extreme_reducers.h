// SPDX-License-Identifier: Apache-2.0
// Reducers of variadic reductions that search for an extreme element and its place, as JAX's argmax and argmin have.
#pragma once

#include <optional>

#include "hlo/import/import.h"

namespace tessera::hlo {

enum class Extreme { Greatest, Least };

/// Which extreme of (number, place) pairs `body` keeps, NaN before all numbers and the first place of equal ones, where
/// places ascend; empty for any other reducer. The body may compare and choose, and do nothing else: then what it does
/// depends on how its numbers compare alone, and a trial of each way in which they can is a proof.
std::optional<Extreme> extreme_with_place(const ir::Graph& body);

/// argmax or argmin in place of a reduction of `c`, where it is one; an empty value for others.
Value place_of_extreme(OpCall& c, const ir::Graph& body, const Dims& axes);

}  // namespace tessera::hlo
