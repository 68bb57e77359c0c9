// SPDX-License-Identifier: Apache-2.0
// What the templates of tessera/jit.h call.
#pragma once

#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "tessera/comm_plan.h"
#include "tessera/compile_stats.h"
#include "tessera/function.h"
#include "tessera/program_analysis.h"
#include "tessera/shape_dtype.h"
#include "tessera/tree.h"

namespace tessera {
struct ClusterModel;
struct JitOptions;
struct ShardingPlan;
struct Simulation;
struct StablehloTextOptions;
}  // namespace tessera

namespace tessera::detail {

class JitEntry;
struct CallPlacement;
struct JitExecutable;
/// One kind of call (structure, types, static values, mesh scope) of a jitted function.
class JitCore {
 public:
  /// `loc`: where the function was jitted.
  explicit JitCore(JitOptions options, const Loc& loc = {});
  ~JitCore();
  JitCore(const JitCore&) = delete;
  JitCore& operator=(const JitCore&) = delete;

  /// Traces the function for this kind of call, or finds the cached trace.
  std::shared_ptr<JitEntry> entry(const FlatCall& call, const CallPlacement* placement = nullptr);
  static std::vector<Array> call(const std::shared_ptr<JitEntry>& entry, const std::vector<Array>& leaves);
  /// The tree of the function's result.
  static const std::shared_ptr<void>& result(const std::shared_ptr<JitEntry>& entry);
  static std::string graph_text(const std::shared_ptr<JitEntry>& entry);
  static std::shared_ptr<const void> lower(const std::shared_ptr<JitEntry>& entry, const std::vector<Array>& leaves);
  static std::string lowered_text(const std::shared_ptr<const void>& lowered);
  static std::string stablehlo_text(const std::shared_ptr<JitEntry>& entry, const std::vector<Array>& leaves,
                                    const StablehloTextOptions& options);
  static CommPlan comm_plan(const std::shared_ptr<const void>& lowered);
  static Simulation simulate(const std::shared_ptr<JitEntry>& entry, const std::shared_ptr<const void>& lowered,
                             const ClusterModel& cluster);
  static std::shared_ptr<const ShardingPlan> sharding_plan(const std::shared_ptr<JitEntry>& entry);
  static std::shared_ptr<const JitExecutable> compile(const std::shared_ptr<JitEntry>& entry,
                                                      const std::vector<Array>& leaves);
  /// Runs what `compile` gave. Throws where the arguments are not those that it was compiled for.
  static std::vector<Array> run(const JitExecutable& executable, const FlatCall& call);
  static const std::shared_ptr<void>& result(const JitExecutable& executable);
  static CostAnalysis cost_analysis(const JitExecutable& executable);
  static CompiledMemoryStats memory_analysis(const JitExecutable& executable);
  CompileStats stats() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

std::vector<ShapeDtype> eval_shapes(const LeafFn& f, const std::vector<Array>& like);
template <class F, class... Args>
std::vector<ShapeDtype> eval_shape_with(const F& f, const Args&... args) {
  std::tuple<const Args&...> like{args...};
  return eval_shapes(FlatFunction(f, like), flat_call(like).leaves);
}
template <class F, class... Args>
std::vector<ShapeDtype> eval_shape_of(const F& f, const Args&... args) {
  return eval_shape_with(f, as_argument(args)...);
}

}  // namespace tessera::detail
