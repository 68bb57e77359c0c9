// SPDX-License-Identifier: Apache-2.0
// Compiled functions.
//
//   auto step = jit([](Array w, Array x) { return matmul(x, w); });
//   Array y = step(w, x);          // traced, partitioned and compiled once; runs where w and x are placed
//
// Arguments and results are trees of arrays. Arguments of other types (C++ scalars where the function takes scalars,
// strings, enums, any type with == and std::hash) are static: each value is a program of its own.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <vector>

#include "tessera/comm_plan.h"
#include "tessera/compile_stats.h"
#include "tessera/detail/jit.h"
#include "tessera/function.h"
#include "tessera/in_shardings.h"
#include "tessera/program_analysis.h"
#include "tessera/shape_dtype.h"
#include "tessera/sharding.h"
#include "tessera/sharding_arg.h"
#include "tessera/sharding_plan.h"
#include "tessera/simulation.h"
#include "tessera/tree.h"

namespace tessera {

/// How `jit` places, donates and names.
struct JitOptions {
  std::string name = "jit";
  /// Empty; one for every leaf of the arguments; or a single one for all. Null entries keep the argument's placement.
  /// Or `automatic(cluster)` (tessera/automatic.h), which finds one for every leaf.
  InShardings in_shardings = {};
  /// Empty; one for every leaf of the results; or a single one for all. Null entries leave the result free.
  std::vector<ShardingArg> out_shardings = {};
  /// Arguments (by position; negative ones count from the last) whose memory the results may take; they are deleted by
  /// the call. A call throws `ValueError` for a position that it does not have, for that of a static argument, and for
  /// a donated array that is given twice.
  std::vector<int> donate_argnums = {};
};

/// How programs are written as StableHLO text.
struct StablehloTextOptions {
  /// Shardy's meshes and shardings; else HLO shardings (`mhlo.sharding`). By default `config().use_shardy` decides.
  std::optional<bool> shardy = std::nullopt;
  /// Devices are replicas in place of partitions: each runs the body of the program's single map on its own blocks.
  bool replicas = false;
};

/// A compiled program: the last of the stages `TracedFunction -> lower() -> Lowered -> compile() -> Compiled`, for
/// arguments of types `Bound` and a result of type R. As in JAX, shardings are propagated and the program is
/// partitioned when it is compiled, or when its partitioned graph or its communication plan is requested.
template <class R, class... Bound>
class Compiled {
 public:
  Compiled(std::shared_ptr<const detail::JitExecutable> executable, std::shared_ptr<const void> lowered)
      : executable_(std::move(executable)), lowered_(std::move(lowered)) {}
  /// Runs the program and nothing else: nothing is traced or compiled again, whatever the arguments. Arrays that are
  /// not committed move to where the program takes them. Throws `TypeError` for arguments of another structure, shape
  /// or dtype than those that it was compiled for, `ValueError` for other static values and for committed arrays of
  /// another sharding, and `StateError` inside a traced function, where only the jitted function itself can be called.
  TESSERA_MEMBER_OF_ARGUMENTS(operator(), call)
  /// Every collective of the program.
  CommPlan comm_plan(const Loc& = Loc::current()) const { return detail::JitCore::comm_plan(lowered_); }
  /// The partitioned graph, for reading.
  std::string text(const Loc& = Loc::current()) const { return detail::JitCore::lowered_text(lowered_); }
  /// What one run costs a device, that with the largest shards where they differ: "flops", "transcendentals" and "bytes
  /// accessed", counted on the partitioned graph with the bodies of loops once and nothing fused. Where the engine has
  /// a compiler of its own (XLA), what that tells, by its names; throws its error, and `UnimplementedError` naming what
  /// it lacks. Nothing runs or is communicated.
  CostAnalysis cost_analysis(const Loc& = Loc::current()) const { return detail::JitCore::cost_analysis(*executable_); }
  /// The bytes of arguments, results and what is made between, on a device, that with the largest shards where they
  /// differ. The native engine generates no code, and what kernels themselves take for a while is not counted. Where
  /// the engine has a compiler of its own it is what that tells. Throws as `cost_analysis`.
  CompiledMemoryStats memory_analysis(const Loc& = Loc::current()) const {
    return detail::JitCore::memory_analysis(*executable_);
  }

 private:
  template <class... Args>
  static constexpr bool fits() {
    if constexpr (sizeof...(Args) == sizeof...(Bound)) {
      return ((std::is_same_v<Bound, Args> || (std::is_same_v<Bound, Array> && Number<Args>)) && ...);
    } else {
      return false;
    }
  }
  template <class... Args>
  R call(const Args&... args) const {
    return call_with(detail::as_argument(args)...);
  }
  template <class... Args>
  R call_with(const Args&... args) const {
    static_assert(fits<Args...>(), "a compiled function takes arguments of the types that it was lowered for");
    if constexpr (fits<Args...>()) {
      std::tuple<detail::BoundArgument<Bound, Args>...> bound{args...};
      std::vector<Array> out = detail::JitCore::run(*executable_, detail::flat_call(bound));
      return tree_unflatten(*static_cast<const R*>(detail::JitCore::result(*executable_).get()), out);
    }
  }

  std::shared_ptr<const detail::JitExecutable> executable_;
  std::shared_ptr<const void> lowered_;
};

/// A traced function together with the types and shardings of its arguments.
template <class R, class... Bound>
class Lowered {
 public:
  Lowered(std::shared_ptr<detail::JitEntry> entry, std::vector<Array> leaves)
      : entry_(std::move(entry)), leaves_(std::move(leaves)), lowered_(detail::JitCore::lower(entry_, leaves_)) {}
  /// The partitioned graph, for reading.
  std::string text(const Loc& = Loc::current()) const { return detail::JitCore::lowered_text(lowered_); }
  /// The StableHLO module with the shardings of arguments, results and constraints, before they are propagated. It
  /// names no device. Throws `UnimplementedError` naming an op that StableHLO cannot express (host callbacks).
  std::string as_text(const StablehloTextOptions& options = {}, const Loc& = Loc::current()) const {
    return detail::JitCore::stablehlo_text(entry_, leaves_, options);
  }
  /// Every collective of the program. Throws `StateError` over an abstract mesh, which has nothing to partition for.
  CommPlan comm_plan(const Loc& = Loc::current()) const { return detail::JitCore::comm_plan(lowered_); }
  /// What one run is predicted to cost on a cluster; nothing runs, and abstract meshes will do. Position p of the
  /// program's mesh is taken for device p of the cluster, which may have more. Costs are given by the user's lines.
  /// Throws `ValueError` for a mesh of more positions than the cluster has devices, and what `ClusterModel::check` and
  /// partitioning throw.
  Simulation simulate(const ClusterModel& cluster, const Loc& = Loc::current()) const {
    return detail::JitCore::simulate(entry_, lowered_, cluster);
  }
  /// What `automatic` in `JitOptions::in_shardings` has found for this program: what was chosen, what was rejected and
  /// why, and as text the annotations that state it. Throws `StateError` where the shardings were not found but
  /// written.
  const ShardingPlan& sharding_plan(const Loc& = Loc::current()) const& {
    return *detail::JitCore::sharding_plan(entry_);
  }
  ShardingPlan sharding_plan(const Loc& loc = Loc::current()) const&& { return sharding_plan(loc); }
  /// Propagates shardings, partitions and compiles for the devices of the arguments. Throws `CommBudgetError` beyond a
  /// `CommBudget` in force.
  Compiled<R, Bound...> compile(const Loc& = Loc::current()) const {
    return {detail::JitCore::compile(entry_, leaves_), lowered_};
  }

 private:
  std::shared_ptr<detail::JitEntry> entry_;
  std::vector<Array> leaves_;
  std::shared_ptr<const void> lowered_;
};

/// The graph of a function for arguments of given types.
template <class R, class... Bound>
class TracedFunction {
 public:
  TracedFunction(std::shared_ptr<detail::JitEntry> entry, std::vector<Array> leaves)
      : entry_(std::move(entry)), leaves_(std::move(leaves)) {}
  /// The graph before partitioning, for reading.
  std::string text(const Loc& = Loc::current()) const { return detail::JitCore::graph_text(entry_); }
  /// As `Lowered::as_text`.
  std::string as_text(const StablehloTextOptions& options = {}, const Loc& = Loc::current()) const {
    return detail::JitCore::stablehlo_text(entry_, leaves_, options);
  }
  /// The next stage: with the arguments' shardings.
  Lowered<R, Bound...> lower(const Loc& = Loc::current()) const { return {entry_, leaves_}; }

 private:
  std::shared_ptr<detail::JitEntry> entry_;
  std::vector<Array> leaves_;
};

/// What `jit` returns. Copies share the cache; calls from several threads are safe.
template <class F>
class Jitted {
 public:
  Jitted(F f, JitOptions options, const Loc& loc = {})
      : shared_(std::make_shared<Shared>(std::move(f), std::move(options), loc)) {}

  /// Runs the program for these arguments and returns without waiting for it. Throws what tracing throws (errors of the
  /// function and of its operations), and what `in_shardings` and placement demand; what fails while it runs is thrown
  /// where a result is waited for. Inside a traced function the graph is inlined.
  TESSERA_MEMBER_OF_ARGUMENTS(operator(), call)
  TESSERA_MEMBER_OF_ARGUMENTS(trace, traced)
  TESSERA_MEMBER_OF_ARGUMENTS(lower, lowered)
  /// Every collective of the program that these arguments would run.
  TESSERA_MEMBER_OF_ARGUMENTS(comm_plan, planned)
  /// How often this function was traced, lowered and compiled.
  CompileStats stats() const { return shared_->core.stats(); }

 private:
  struct Shared {
    Shared(F function, JitOptions options, const Loc& loc) : f(std::move(function)), core(std::move(options), loc) {}
    F f;
    detail::JitCore core;
  };

  /// Traces the function for these arguments, or finds the cached trace; nothing runs.
  template <class... Args>
  auto call(const Args&... args) const {
    return call_with(detail::as_argument(args)...);
  }
  template <class... Args>
  auto traced(const Args&... args) const {
    return traced_with(detail::as_argument(args)...);
  }
  template <class... Args>
  auto lowered(const Args&... args) const {
    return traced(args...).lower();
  }
  template <class... Args>
  CommPlan planned(const Args&... args) const {
    return lowered(args...).comm_plan();
  }

  // C++ scalars are traced as weakly typed arrays where the function takes arrays there, else they are static.
  template <class... Args>
  static constexpr bool lifts = std::is_invocable_v<F&, detail::Leafy<Args>...>;
  template <class... Args>
  static constexpr bool takes = lifts<Args...> || std::is_invocable_v<F&, Args...>;
  template <class... Args>
  static void refuse() {
    static_assert(takes<Args...>, "jit: the function does not take arguments of these types in this number");
  }

  template <class... Args>
  auto traced_with(const Args&... args) const {
    if constexpr (lifts<Args...>) {
      return traced_as<detail::Leafy<Args>...>(args...);
    } else if constexpr (takes<Args...>) {
      return traced_as<Args...>(args...);
    } else {
      refuse<Args...>();
    }
  }
  template <class... Args>
  auto call_with(const Args&... args) const {
    if constexpr (lifts<Args...>) {
      return call_as<detail::Leafy<Args>...>(args...);
    } else if constexpr (takes<Args...>) {
      return call_as<Args...>(args...);
    } else {
      refuse<Args...>();
    }
  }
  template <class... Bound>
  using Result = typename detail::FlatFunction<F, Bound...>::Result;

  template <class... Bound, class... Args>
  TracedFunction<Result<Bound...>, Bound...> traced_as(const Args&... args) const {
    std::tuple<detail::BoundArgument<Bound, Args>...> bound{args...};
    detail::FlatCall call = detail::flat_call(shared_->f, bound);
    call.needs_data = false;
    auto entry = shared_->core.entry(call);
    return {std::move(entry), std::move(call.leaves)};
  }
  template <class... Bound, class... Args>
  Result<Bound...> call_as(const Args&... args) const {
    std::tuple<detail::BoundArgument<Bound, Args>...> bound{args...};
    detail::FlatCall call = detail::flat_call(shared_->f, bound);
    auto entry = shared_->core.entry(call);
    std::vector<Array> out = detail::JitCore::call(entry, call.leaves);
    return tree_unflatten(*static_cast<const Result<Bound...>*>(detail::JitCore::result(entry).get()), out);
  }

  std::shared_ptr<Shared> shared_;
};

/// A function that is traced, partitioned and compiled once for every combination of argument structures, types,
/// shardings, static values and mesh scope, and then runs from its cache. `Jitted::comm_plan` lists what it
/// communicates.
template <class F>
Jitted<std::decay_t<F>> jit(F&& f, JitOptions options = {}, const Loc& loc = Loc::current()) {
  return {std::forward<F>(f), std::move(options), loc};
}
/// Older name of `jit` over sharded arrays.
template <class F>
auto pjit(F&& f, JitOptions options = {}, const Loc& loc = Loc::current()) {
  return jit(std::forward<F>(f), std::move(options), loc);
}

/// eval_shape(f, args...): result types of `f` on arguments of these types, in order of leaves; nothing runs.
TESSERA_FUNCTION_OF_ARGUMENTS(eval_shape, detail::eval_shape_of)

}  // namespace tessera
