// SPDX-License-Identifier: Apache-2.0
// What an engine is: it compiles modules for a device list and runs them.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ir/module.h"
#include "runtime/process_collectives.h"
#include "runtime/shard_set.h"
#include "runtime/task_scheduler.h"
#include "sharding/placement.h"
#include "tessera/device.h"
#include "tessera/program_analysis.h"

namespace tessera::runtime {

class Executable {
 public:
  virtual ~Executable() = default;
  /// Of inputs and outputs, on the mesh of the module that it was compiled from.
  virtual const PortLayouts& layouts() const = 0;
  /// Runs on the calling thread (and the kernels' pool) and returns when done. `args[i]` are the shards of input i
  /// under its layout; a shard whose only owner is the vector may be overwritten (donation): pass it moved
  /// in. Where `borrowed` has an entry that is not null, these shards are meant in place of `args[i]`; they stay with
  /// the caller, who keeps them until the run has ended. Throws what a step throws; nothing of the arguments is changed
  /// then.
  virtual std::vector<ShardBuffers> run(std::vector<ShardBuffers> args,
                                        const std::vector<const ShardBuffers*>& borrowed = {}) = 0;
  /// A run that cannot begin, as an argument has failed: where other processes run the program too, it counts, and they
  /// are told why it ended here.
  virtual void give_up(const char* why) { static_cast<void>(why); }
  /// True when a run is so short that it should not leave the calling thread.
  virtual bool small() const = 0;
  /// One line a step, for tests and traces.
  virtual std::string text() const = 0;
  /// What the engine's own compiler tells of the program, on one device; empty where the partitioned graph tells it
  /// (`costs_of`). Throw what the compiler answers.
  virtual std::optional<CostAnalysis> cost_analysis() const { return std::nullopt; }
  virtual std::optional<CompiledMemoryStats> memory_analysis() const { return std::nullopt; }
};

class Engine {
 public:
  virtual ~Engine() = default;
  /// Whether the engine partitions programs itself: then `compile` gets the placed module as it was traced or read,
  /// with a sharding and a layout for every port. Else its graph is partitioned.
  virtual bool partitions() const { return false; }
  /// The row-major positions of the module's mesh are `devices`.
  virtual std::shared_ptr<Executable> compile(const ir::Module& module,
                                              std::shared_ptr<const sharding::DeviceList> devices) = 0;
  /// Of the host.
  virtual std::shared_ptr<MemoryPool> memory() = 0;
  /// Where the devices have memory of their own: brings shards there that the host has made, of the tiles of
  /// `placement` or, where replicas differ, of its positions. The host's memory is held as long as it is read.
  virtual void put_on_devices(ShardBuffers& shards, DType dtype, const sharding::Placement& placement, bool by_tile) {
    static_cast<void>(shards), static_cast<void>(dtype), static_cast<void>(placement), static_cast<void>(by_tile);
  }
};

/// What the runtime keeps for a client: made on first use, in the client's extension slot.
struct ClientRuntime {
  std::shared_ptr<Engine> engine;
  std::shared_ptr<MemoryPool> memory;
  /// For values that the host asks for: beside what devices hold, so that it counts for no limit of theirs.
  std::shared_ptr<MemoryPool> host_memory;
  std::shared_ptr<TaskScheduler> scheduler;
  std::shared_ptr<Collectives> collectives;  ///< null for a single process
};
/// Defined in src/engines.cc, the one file that names engines.
ClientRuntime& runtime_of(const Client& client);

}  // namespace tessera::runtime
