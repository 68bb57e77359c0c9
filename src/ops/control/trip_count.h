// SPDX-License-Identifier: Apache-2.0
// How often loops that count run.
#pragma once

#include <cstdint>
#include <optional>

#include "ir/graph.h"

namespace tessera::ops {

/// Rounds of a `while` of `g` whose condition is that a counter is less than a number, where the counter begins at a
/// number and every round adds a positive one to it, and all three are constants. Empty for other equations.
std::optional<std::int64_t> trip_count(const ir::Graph& g, const ir::Eqn& e);

}  // namespace tessera::ops
