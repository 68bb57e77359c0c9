// SPDX-License-Identifier: Apache-2.0
// A traced graph on its way to devices: lowering (shardings -> partitioned graph, device-free) and compiling (for a
// device list) happen on the first call with new shardings, and are kept.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "array/array_impl.h"
#include "ir/graph.h"
#include "ops/shared_attrs.h"
#include "runtime/engine.h"
#include "tessera/array.h"
#include "tessera/comm_plan.h"
#include "tessera/compile_stats.h"
#include "tessera/jit.h"

namespace tessera::program {

struct ProgramOptions {
  std::string name = "program";
  std::string made;                        ///< the name, and where the function was jitted; empty: the name
  std::vector<ShardingPtr> in_shardings;   ///< empty, or one an input; null: as the argument lies
  std::vector<ShardingPtr> out_shardings;  ///< empty, or one an output; null: free
  std::vector<bool> donate;                ///< empty, or one an input
  std::vector<std::string> arg_names;      ///< for messages
};

/// Which arguments `donate_argnums` means, of a call with `count` of them. Throws `ValueError` naming the entry that
/// the call does not have, or whose argument is static.
std::vector<bool> donated_arguments(const std::vector<int>& argnums, std::size_t count,
                                    const std::vector<std::size_t>& statics, const std::string& name);

/// The device-free half.
struct LoweredProgram {
  ir::GraphPtr graph;  ///< partitioned
  CommPlan plan;
};

class Lowering;

/// The half for one device list.
struct CompiledProgram {
  std::shared_ptr<const LoweredProgram> lowered;
  std::shared_ptr<runtime::Executable> executable;
  std::shared_ptr<runtime::TaskScheduler> scheduler;
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

/// A mesh that an equation names.
struct MeshUse {
  ops::ShardingConstraint constraint;  ///< of a shard_map only the mesh is set
  std::string_view op = "sharding_constraint";
};

class Program {
 public:
  Program(ir::GraphPtr graph, ProgramOptions options);

  /// Runs; results may not be ready yet. Throws `DeviceMismatchError`, `ValueError` for arguments that lie otherwise
  /// than `in_shardings` say, `CommBudgetError`, `DeletedArrayError`.
  std::vector<Array> call(const std::vector<Array>& args);
  std::shared_ptr<const CompiledProgram> compile(const std::vector<Array>& args);
  /// Runs what `compile` gave, for arguments placed as its were, or that may move.
  std::vector<Array> run(const std::shared_ptr<const CompiledProgram>& program, const std::vector<Array>& args);
  /// Throws what the arguments' placement breaks; partitions when asked for the result.
  std::shared_ptr<const Lowering> lower(const std::vector<Array>& args);
  /// The program as StableHLO; the arguments' shardings are all that is asked of them.
  std::string stablehlo_text(const std::vector<Array>& args, const StablehloTextOptions& options) const;
  /// Whether arguments and meshes say which devices it runs on.
  bool has_devices(const std::vector<Array>& args) const;
  const ir::GraphPtr& graph() const { return graph_; }
  const std::string& name() const { return options_.name; }
  const CompileStats& stats() const { return stats_; }

  struct Plan;

 private:
  Plan analyse(const std::vector<Array>& args) const;
  std::shared_ptr<const Lowering> lowering_for(const Plan& plan);
  std::shared_ptr<const CompiledProgram> compiled_for(const std::vector<Array>& args);

  /// The data of the arguments, where the program expects it.
  std::vector<arrays::StoragePtr> gather(const CompiledProgram& program, const std::vector<Array>& args) const;
  std::string arg_name(std::size_t i) const;
  void check_donation(const std::vector<Array>& args) const;

  ir::GraphPtr graph_;
  ProgramOptions options_;
  std::vector<std::shared_ptr<const std::string>> donated_as_;  ///< by input: what messages say of an array given away
  std::vector<MeshUse> constraints_;

  std::mutex mutex_;
  CompileStats stats_;
  struct CompiledEntry;
  struct CallEntry;
  std::vector<std::shared_ptr<const Lowering>> lowered_;
  std::vector<std::shared_ptr<CompiledEntry>> compiled_;
  std::vector<std::shared_ptr<CallEntry>> calls_;
};

/// One operation at once, through a program kept for its attributes and operand types.
std::vector<Array> run_op(const ir::OpDef& op, const std::vector<Array>& in, const ir::Attrs& attrs, const Loc& loc);
/// A graph at once, through a program kept for equal graphs.
std::vector<Array> run_graph(const ir::GraphPtr& graph, const std::vector<Array>& args);

}  // namespace tessera::program
