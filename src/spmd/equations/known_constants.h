// SPDX-License-Identifier: Apache-2.0
// Constants of a graph, for rewrites that recognize an algorithm in what programs write for it.
#pragma once

#include <cstdint>
#include <optional>

#include "spmd/late_completion.h"

namespace tessera::spmd {

/// The constant that an array has at all places, as far as one is written; null where none is.
const ir::Eqn* constant_of(const GraphUses& uses, ir::ValueId v);
/// The same as a number, of integers other than u64.
std::optional<std::int64_t> number_of(const ir::Graph& g, const GraphUses& uses, ir::ValueId v);

}  // namespace tessera::spmd
