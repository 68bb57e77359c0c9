// SPDX-License-Identifier: Apache-2.0
// What chooses the shardings of a program's arguments once the program is known, in the place of its caller.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "tessera/sharding.h"
#include "tessera/sharding_plan.h"

namespace tessera::detail {

/// A traced program that nothing is placed in yet.
struct UnplacedProgram {
  std::string name;  ///< for messages
  ir::GraphPtr graph;
  std::size_t arguments = 0;               ///< the first of the graph's inputs; what follows lies where it lies
  std::vector<bool> donated;               ///< by input; missing entries are false
  std::vector<ShardingPtr> out_shardings;  ///< empty, or one an output; null: free
};

struct FoundShardings {
  ir::GraphPtr graph;                  ///< with constraints that were found
  std::vector<ShardingPtr> arguments;  ///< one an argument
  std::shared_ptr<const ShardingPlan> plan;
};

class ShardingFinder {
 public:
  ShardingFinder() = default;
  virtual ~ShardingFinder() = default;
  ShardingFinder(const ShardingFinder&) = delete;
  ShardingFinder& operator=(const ShardingFinder&) = delete;
  /// May be called from several threads. Throws what `automatic` says of lowering.
  virtual FoundShardings find(const UnplacedProgram& program) const = 0;
};

}  // namespace tessera::detail
