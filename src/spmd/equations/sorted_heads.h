// SPDX-License-Identifier: Apache-2.0
// Sorts of which only the beginning is read, as programs come to say top_k that were written for other compilers.
#pragma once

#include "ir/graph.h"

namespace tessera::spmd {

/// The program with `top_k` in place of sorts by one integer of which a quarter or less of each line is read. The same
/// values.
ir::GraphPtr with_sorted_heads(const ir::GraphPtr& graph);

}  // namespace tessera::spmd
