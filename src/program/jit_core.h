// SPDX-License-Identifier: Apache-2.0
// What pmap gives jit besides a call.
#pragma once

#include <functional>
#include <vector>

#include "tessera/jit.h"
#include "tessera/mesh.h"

namespace tessera::detail {

/// A call whose mesh is given, as a part of the cache's key, and whose shardings follow from the trace. Asked for after
/// the trace, in place of `JitOptions::in_shardings` and `out_shardings`.
struct CallPlacement {
  Mesh mesh;
  std::function<std::vector<ShardingPtr>()> in_shardings;
  std::function<std::vector<ShardingPtr>()> out_shardings;
};

}  // namespace tessera::detail
