// SPDX-License-Identifier: Apache-2.0
// Where maps inside a batched graph lay the batch out, and whether a graph needs the batch whole.
#pragma once

#include <string>
#include <vector>

#include "ops/transform/graph_rules.h"

namespace tessera::ops {

/// While it lives, `shard_map`s in a batched graph cut the batch by these mesh axes where they can.
class BatchMeshAxes {
 public:
  explicit BatchMeshAxes(std::vector<std::string> axes);
  ~BatchMeshAxes();
  BatchMeshAxes(const BatchMeshAxes&) = delete;
  BatchMeshAxes& operator=(const BatchMeshAxes&) = delete;
  static const std::vector<std::string>& current();

 private:
  std::vector<std::string> before_;
};
/// While it lives, the batch of a graph that is batched is split over these explicit mesh axes in types.
class BatchEntry {
 public:
  explicit BatchEntry(ir::AxisList axes);
  ~BatchEntry();
  BatchEntry(const BatchEntry&) = delete;
  BatchEntry& operator=(const BatchEntry&) = delete;
  static const ir::AxisList& current();

 private:
  ir::AxisList before_;
};
/// A collective of the graph, or of one inside it, acts over this name.
bool uses_name(const Graph& g, const std::string& name);

}  // namespace tessera::ops
