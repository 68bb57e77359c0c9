// SPDX-License-Identifier: Apache-2.0
// Reshards whose boxes are runs of memory on both sides: what each shard is made of is worked out before the program
// runs, and what other processes send comes to where it stays.
#pragma once

#include <memory>
#include <vector>

#include "engines/cpu/step_program.h"
#include "engines/cpu/steps/combine.h"
#include "engines/cpu/steps/reshard_plan.h"

namespace tessera::cpu {

class ReshardRuns {
 public:
  /// Null where a box is more than one run, there are too many of them, or processes reduce together.
  static std::unique_ptr<const ReshardRuns> make(const ReshardPlan& plan, const Context& context,
                                                 std::int64_t itemsize);

  struct Manner {
    const Combiner* combiner;  ///< null without a reduction
    double cost;               ///< of a shard, nanoseconds
    bool stream;               ///< the results leave the caches
  };
  /// Begins to exchange with other processes; null where there is nothing to exchange. `to`: shards of the result,
  /// those that receive get their memory and what this process has of them here.
  runtime::CommunicationPtr begin(Run& run, const runtime::Collectives::Call& call, const ShardBuffers& from,
                                  ShardBuffers& to, const Manner& manner) const;
  /// Fills the rest of `to`. What comes from other processes is there.
  void end(Run& run, const ShardBuffers& from, ShardBuffers& to, const Manner& manner) const;

 private:
  struct Part {
    std::int32_t shard;  // with a reduction the first of the shards
    std::int64_t to, from, elements;
  };
  struct Target {
    std::int32_t shard = 0;
    std::int32_t shared = -1;  // the source shard that it is
    std::int64_t bytes = 0;
    bool receives = false;
    std::vector<Part> parts;
  };
  struct Outgoing {
    std::int32_t reader, shard;
    std::int64_t from, bytes;
  };
  struct Incoming {
    std::int32_t provider;
    std::size_t target;
    std::int64_t to, bytes;
  };

  ReshardRuns(const ReshardPlan& plan, std::int64_t itemsize, std::int32_t self)
      : combined_(plan.combined()), itemsize_(itemsize), self_(self) {}
  void fill(const std::vector<const Target*>& targets, const ShardBuffers& from, const ShardBuffers& to,
            const Manner& manner) const;
  bool add_target(const ReshardPlan& plan, std::int32_t k);
  bool add_messages(const ReshardPlan& plan, std::int32_t k);

  std::vector<std::int32_t> combined_;
  std::int64_t itemsize_;
  std::int32_t self_;
  std::size_t shards_ = 0;       // of the result
  std::size_t count_ = 0;        // of parts and messages
  std::vector<Target> targets_;  // of this process
  std::vector<Outgoing> sends_;  // in the order in which all processes walk shards, boxes and readers
  std::vector<Incoming> receipts_;
};

}  // namespace tessera::cpu
