// SPDX-License-Identifier: Apache-2.0
// Reducing functions that have a name.
#pragma once

#include "hlo/import/import.h"

namespace tessera::hlo {

/// On bools "add" and "maximum" are "or", "multiply" and "minimum" are "and".
std::string reducer_for(std::string name, DType t);
/// Whether the text fixes a start value, and it changes nothing that the operation of this name is done with.
bool is_identity(const Item& start, const std::string& name);
/// x and y taken together by "add", "multiply", "maximum", "minimum", "and", "or", "xor".
Value combine(const std::string& name, Value x, Value y);
/// x reduced over the dimensions by one of these.
Value reduce_by(const std::string& name, Value x, const Dims& axes);
/// base[places[i]] = region(base[places[i]], updates[i]) for each i in turn; all have one dimension. Places outside are
/// left out.
Value scatter_elements(OpCall& c, const AstRegion& region, Value base, Value places, Value updates);

}  // namespace tessera::hlo
