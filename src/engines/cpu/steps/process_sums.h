// SPDX-License-Identifier: Apache-2.0
// Which shards of a reshard's result are all-reduces over processes.
#pragma once

#include <cstdint>
#include <vector>

#include "engines/cpu/steps/reshard_plan.h"

namespace tessera::cpu {

/// A target shard whose sum the processes that hold it make together, of what each has of it.
struct ProcessSum {
  std::int32_t target = 0;
  std::vector<std::int32_t> group;  ///< processes, ascending
  bool has(std::int32_t process) const;
};

/// All target shards of the plan, of whichever processes, that are needed where their parts are: by an all-reduce each
/// process sends at most two times the shard, by messages once for each reader. Every process gets the same list. Not
/// for plans that keep the order of shards (`deterministic`).
std::vector<ProcessSum> process_sums(const ReshardPlan& plan);

}  // namespace tessera::cpu
