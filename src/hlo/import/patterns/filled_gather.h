// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "hlo/import/import.h"

namespace tessera::hlo {

/// `select(mask, gather, value)` where the mask is whether the windows lie inside: the gather that gives the value for
/// those that do not, which needs neither mask nor a pass over its result. So JAX writes `x[i]`, `take` and their like
/// where indices may be out of range. Nothing where the operation is something else.
std::optional<Value> filled_gather(OpCall& select);

}  // namespace tessera::hlo
