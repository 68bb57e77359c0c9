// SPDX-License-Identifier: Apache-2.0
// Who sends which box of a reshard over processes to whom. Few of them can be worked out once, before the program runs;
// where there are more, as on thousands of devices, they are worked out in each run instead of being kept.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "engines/cpu/steps/reshard_plan.h"

namespace tessera::cpu {

class ReshardRoutes {
 public:
  /// What process `reader` needs of a box of target shard `target`, as far as this process sends or receives it.
  struct Move {
    std::size_t target;
    Box box;
    std::int32_t reader;
    Term term;
  };

  /// `summed`: target shards that arrive by sums over processes. `plan` outlives the routes.
  ReshardRoutes(const ReshardPlan& plan, std::int32_t self, std::vector<bool> summed);

  /// Works them out for all runs, where they are few.
  void remember();
  /// True when any process sends anything to any other.
  bool cross() const { return cross_; }
  bool summed(std::int32_t target) const { return summed_[at(target)]; }
  /// In the order in which all processes walk target shards, boxes, readers and terms.
  void for_each_move(const std::function<void(const Move&)>& body) const;
  /// The boxes of a target shard, with the terms of this process.
  using OwnBox = std::function<void(const Box&, std::span<const Term>)>;
  void for_each_box(std::int32_t target, const OwnBox& body) const;

 private:
  struct Kept {
    Box box;
    std::vector<Term> terms;
  };
  void walk(const std::function<bool(const Move&)>& body) const;

  const ReshardPlan& plan_;
  std::int32_t self_;
  std::vector<bool> summed_;  // by target shard
  bool cross_ = false;
  bool remembered_ = false;
  std::vector<Move> moves_;
  std::vector<std::vector<Kept>> boxes_;  // by target shard; of those that this process holds
};

}  // namespace tessera::cpu
