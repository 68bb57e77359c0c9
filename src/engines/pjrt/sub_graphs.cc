// SPDX-License-Identifier: Apache-2.0
#include "engines/pjrt/sub_graphs.h"

#include "ops/collective/shard_map_op.h"
#include "ops/control/subgraph_structure.h"

namespace tessera::pjrt_engine {

std::vector<ir::GraphPtr> sub_graphs(const ir::Eqn& e) {
  const auto* map = e.attrs ? ir::get_if<ops::ShardMap>(e.attrs) : nullptr;
  if (map != nullptr) return {map->body};
  std::vector<ir::GraphPtr> out;
  if (auto control = ops::control_of(e)) {
    for (const auto& body : control->bodies) out.push_back(body.graph);
  }
  return out;
}

}  // namespace tessera::pjrt_engine
