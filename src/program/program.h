// SPDX-License-Identifier: Apache-2.0
// A traced graph on its way to devices: lowering (shardings -> partitioned graph, device-free) and compiling (for a
// device list) happen on the first call with new shardings, and are kept.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "array/array_impl.h"
#include "ir/module.h"
#include "program/placed_module.h"
#include "runtime/engine.h"
#include "tessera/array.h"
#include "tessera/comm_plan.h"
#include "tessera/compile_stats.h"
#include "tessera/jit.h"

namespace tessera::program {

/// Which arguments `donate_argnums` means, of a call with `count` of them. Throws `ValueError` naming the entry that
/// the call does not have, or whose argument is static.
std::vector<bool> donated_arguments(const std::vector<int>& argnums, std::size_t count,
                                    const std::vector<std::size_t>& statics, const std::string& name);

/// A placed module and, from the first question about the result on, its partitioned graph. Knows no devices.
class Lowering {
 public:
  explicit Lowering(ir::Module module) : module_(std::move(module)) {}
  const ir::Module& module() const { return module_; }
  /// Both throw what propagation and partitioning throw.
  const ir::GraphPtr& partitioned() const;
  const CommPlan& comm_plan() const;

 private:
  ir::Module module_;
  mutable std::mutex mutex_;
  mutable ir::GraphPtr partitioned_;
  mutable std::optional<CommPlan> comm_plan_;
};

/// A lowering for one device list.
struct CompiledProgram {
  std::shared_ptr<const Lowering> lowered;
  std::shared_ptr<runtime::Executable> executable;
  std::shared_ptr<runtime::TaskScheduler> scheduler;
  std::shared_ptr<runtime::MemoryPool> memory;
  runtime::TaskOrder order = runtime::TaskOrder::None;
  struct In {
    ShardingPtr sharding;  ///< what the program expects
    bool as_is = true;     ///< the argument lies so already
    ir::Layout layout;
    bool by_position = false;
  };
  struct Out {
    ir::Type type;
    ShardingPtr sharding;
    std::shared_ptr<const sharding::Placement> placement;
    bool by_position = false;  ///< replicas may differ
    ir::Layout layout;
  };
  std::vector<In> in;
  std::vector<Out> out;
  bool committed = false;
  ir::MeshAxesPtr mesh;
};

class Program {
 public:
  /// For lowering, shardings in the graph's types are written as constraints.
  Program(ir::GraphPtr graph, ProgramOptions options);

  /// Runs; results may not be ready yet. Throws `DeviceMismatchError`, `ValueError` for arguments that lie otherwise
  /// than `in_shardings` say, `CommBudgetError`, `DeletedArrayError`. `done`, where it is given, becomes the event of
  /// the run, which programs without results have too.
  std::vector<Array> call(const std::vector<Array>& args, runtime::EventPtr* done = nullptr);
  std::shared_ptr<const CompiledProgram> compile(const std::vector<Array>& args);
  /// Runs what `compile` gave, for arguments placed as its were, or that may move.
  std::vector<Array> run(const std::shared_ptr<const CompiledProgram>& program, const std::vector<Array>& args,
                         runtime::EventPtr* done = nullptr);
  /// Throws what the arguments' placement breaks; partitions when asked for the result.
  std::shared_ptr<const Lowering> lower(const std::vector<Array>& args);
  /// The module that arguments placed like these make of it.
  PlacedModule place(const std::vector<Array>& args) const;
  /// An argument that `ProgramOptions::donate` names stays the caller's after all. Before the first call.
  void keep(std::size_t i);
  /// As it was given.
  const ir::GraphPtr& graph() const { return graph_; }
  const std::string& name() const { return options_.name; }
  /// By argument; missing entries are false.
  const std::vector<bool>& donated() const { return options_.donate; }
  const CompileStats& stats() const { return stats_; }

 private:
  struct CompiledEntry;
  struct CallEntry;
  std::shared_ptr<const Lowering> lowering_for(const ir::Module& m);
  std::shared_ptr<const CompiledProgram> compiled_from(const PlacedModule& placed, const std::vector<Array>& args);
  std::shared_ptr<const CompiledProgram> compile_for(const PlacedModule& placed, const CompiledEntry& wanted);
  void check_budget(const Lowering& lowered) const;

  /// What is lowered: the graph with shardings of types written as constraints, and the meshes that it names. Made when
  /// it is first asked for: many programs are traced and never lowered, as are those of calls inside other traces.
  struct Written {
    ir::GraphPtr graph;
    std::vector<MeshUse> uses;
  };
  const Written& written() const;

  /// The data of the arguments, where the program expects it.
  std::vector<arrays::StoragePtr> gather(const CompiledProgram& program, const std::vector<Array>& args) const;
  std::string arg_name(std::size_t i) const;
  bool donates() const;
  void check_donation(const std::vector<Array>& args) const;

  ir::GraphPtr graph_;
  ProgramOptions options_;
  std::vector<std::shared_ptr<const std::string>> donated_as_;  ///< by input: what messages say of an array given away

  mutable std::mutex write_mutex_;
  mutable Written written_;

  std::mutex mutex_;
  CompileStats stats_;
  std::vector<std::shared_ptr<const Lowering>> lowered_;
  std::vector<std::shared_ptr<CompiledEntry>> compiled_;
  std::vector<std::shared_ptr<CallEntry>> calls_;
};

/// One operation at once, through a program kept for its attributes and operand types.
std::vector<Array> run_op(const ir::OpDef& op, const std::vector<Array>& in, const ir::Attrs& attrs, const Loc& loc);
/// An array under another sharding of its own devices: the program without equations. False where no mesh has the axes
/// of both shardings, and for shards elsewhere than in the memory of the engine, which are read through the host.
bool can_reshard(const Array& a, const Sharding& to);
Array reshard(const Array& a, const ShardingPtr& to);
/// A graph at once, through a program kept for equal graphs.
std::vector<Array> run_graph(const ir::GraphPtr& graph, const std::vector<Array>& args);

}  // namespace tessera::program
