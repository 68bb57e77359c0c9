// SPDX-License-Identifier: Apache-2.0
// What collectives by axis name share: the axes of a call, and their way to every leaf of a tree.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "ops/collective/collectives.h"
#include "tessera/collectives.h"

namespace tessera::program {

/// What a call's axes mean: names, and dimensions of the block.
struct Axes {
  ops::Collective named;
  Dims positional;
};

/// Finds the names; numbers only where `numbers`. Throws `UnboundAxisError`, `ValueError` for repeated names.
Axes resolve(const AxisNames& axes, const char* function, bool numbers = false);
/// Adds groups of instances, of one size if `even`. Throws `AxisGroupsError` where they are no partition.
void set_groups(Axes& axes, const std::optional<AxisIndexGroups>& groups, const char* function, bool even);
/// Positional axes of a block of this rank. Those of constants may count from the end (`wrap`).
Dims positions(const Dims& numbers, std::int64_t rank, const char* function, bool wrap);

/// `f` on one array, or on each of a tree.
Array one(const char* function, const Loc& loc, const Array& x, const std::function<ir::Value(ir::Value)>& f);
detail::Leaves each(const char* function, const Loc& loc, const detail::Leaves& x,
                    const std::function<ir::Value(ir::Value)>& f);

}  // namespace tessera::program
