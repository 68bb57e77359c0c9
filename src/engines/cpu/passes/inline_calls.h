// SPDX-License-Identifier: Apache-2.0
// Calls have a meaning for derivatives only; here their equations run, and fuse, with those around them.
#pragma once

#include "ir/graph.h"

namespace tessera::cpu {

/// The same program without `Call` equations, nested ones included; sub-graphs of branches and loops are left alone.
ir::GraphPtr inline_calls(const ir::GraphPtr& graph);

}  // namespace tessera::cpu
