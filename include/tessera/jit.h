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
#include "tessera/leaf_names.h"
#include "tessera/sharding.h"
#include "tessera/tree.h"

namespace tessera {

/// A sharding, nothing (null), or a bare spec, which means the mesh that is current where the function is called.
class ShardingArg {
 public:
  // NOLINTBEGIN(google-explicit-constructor): shardings and specs are arguments
  ShardingArg(std::nullptr_t) {}
  ShardingArg(ShardingPtr sharding) : sharding_(std::move(sharding)) {}
  ShardingArg(const NamedSharding& sharding) : sharding_(sharding.share()) {}
  ShardingArg(PartitionSpec spec) : spec_(std::move(spec)) {}
  // NOLINTEND(google-explicit-constructor)
  /// Throws `StateError` naming `argument` for a spec outside any mesh, `ValueError` for an axis that the mesh lacks.
  ShardingPtr resolve(const std::string& function, const char* argument) const;

 private:
  ShardingPtr sharding_;
  std::optional<PartitionSpec> spec_;
};

struct JitOptions {
  std::string name = "jit";
  /// Empty; one for every leaf of the arguments; or a single one for all. Null entries keep the argument's placement.
  std::vector<ShardingArg> in_shardings = {};
  /// Likewise for the results.
  std::vector<ShardingArg> out_shardings = {};
  /// Arguments (by position; negative ones count from the last) whose memory the results may take; they are deleted by
  /// the call. A call throws `ValueError` for a position that it does not have, for one of a static argument, and for a
  /// donated array that is given twice.
  std::vector<int> donate_argnums = {};
};

/// How programs are written as StableHLO text.
struct StablehloTextOptions {
  /// Shardy's meshes and shardings; else HLO shardings (`mhlo.sharding`). By default `config().use_shardy` decides.
  std::optional<bool> shardy = std::nullopt;
  /// Devices are replicas in place of partitions: each runs the body of the program's single map on its own blocks.
  bool replicas = false;
};

namespace detail {

struct TraceRequest {
  const std::vector<Array>* leaves = nullptr;
  std::string structure;
  std::vector<StaticValue> statics;
  std::vector<std::size_t> static_argnums;
  std::vector<std::size_t> leaves_per_arg;
  LeafNames names;
  /// Runs the user's function on tracers; returns the leaves of the result and stores its structure in `result`.
  std::function<std::vector<Array>(const std::vector<Array>&, std::shared_ptr<void>* result)> run;
};

class JitEntry;
/// One kind of call (structure, types, static values, mesh scope) of a jitted function.
class JitCore {
 public:
  /// `loc`: where the function was jitted.
  explicit JitCore(JitOptions options, const Loc& loc = {});
  ~JitCore();
  JitCore(const JitCore&) = delete;
  JitCore& operator=(const JitCore&) = delete;

  std::shared_ptr<JitEntry> entry(const TraceRequest& request);
  static std::vector<Array> call(const std::shared_ptr<JitEntry>& entry, const std::vector<Array>& leaves);
  static const std::shared_ptr<void>& result(const std::shared_ptr<JitEntry>& entry);
  static std::string graph_text(const std::shared_ptr<JitEntry>& entry);
  static std::shared_ptr<const void> lower(const std::shared_ptr<JitEntry>& entry, const std::vector<Array>& leaves);
  static std::string lowered_text(const std::shared_ptr<const void>& lowered);
  static std::string stablehlo_text(const std::shared_ptr<JitEntry>& entry, const std::vector<Array>& leaves,
                                    const StablehloTextOptions& options);
  static CommPlan comm_plan(const std::shared_ptr<const void>& lowered);
  static void compile(const std::shared_ptr<JitEntry>& entry, const std::vector<Array>& leaves);
  CompileStats stats() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// How one argument enters: as a tree of arrays, or static.
template <class T>
inline constexpr bool is_dynamic = is_tree_v<T>;

/// A string literal is a static argument as the std::string is.
template <class T>
const T& as_argument(const T& v) {
  return v;
}
template <std::size_t N>
std::string as_argument(const char (&v)[N]) {
  return v;
}

template <class T>
constexpr void require_argument() {
  static_assert(is_dynamic<T> || is_static<T>(),
                "an argument of this type is neither a tree of arrays nor static: a tree is an Array, or a container, "
                "pair, tuple or struct of trees; a static argument needs operator== and holds no arrays");
}

}  // namespace detail

/// A compiled program: the last of the stages `TracedFunction -> lower() -> Lowered -> compile() -> Compiled`. As in
/// JAX, shardings are propagated and the program is partitioned when it is compiled, or when its partitioned graph or
/// its communication plan is requested.
class Compiled {
 public:
  Compiled(std::shared_ptr<detail::JitEntry> entry, std::shared_ptr<const void> lowered)
      : entry_(std::move(entry)), lowered_(std::move(lowered)) {}
  /// Runs on the leaves of the arguments, in order; returns the leaves of the result.
  std::vector<Array> operator()(const std::vector<Array>& leaves, const Loc& = Loc::current()) const {
    return detail::JitCore::call(entry_, leaves);
  }
  /// Every collective of the program.
  CommPlan comm_plan(const Loc& = Loc::current()) const { return detail::JitCore::comm_plan(lowered_); }
  /// The partitioned graph, for reading.
  std::string text(const Loc& = Loc::current()) const { return detail::JitCore::lowered_text(lowered_); }

 private:
  std::shared_ptr<detail::JitEntry> entry_;
  std::shared_ptr<const void> lowered_;
};

/// A traced function together with the types and shardings of its arguments.
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
  /// Propagates shardings, partitions and compiles for the devices of the arguments. Throws `CommBudgetError` beyond a
  /// `CommBudget` in force.
  Compiled compile(const Loc& = Loc::current()) const {
    detail::JitCore::compile(entry_, leaves_);
    return {entry_, lowered_};
  }

 private:
  std::shared_ptr<detail::JitEntry> entry_;
  std::vector<Array> leaves_;
  std::shared_ptr<const void> lowered_;
};

/// The graph of a function for arguments of given types.
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
  Lowered lower(const Loc& = Loc::current()) const { return {entry_, leaves_}; }

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
  /// `trace(args...).lower()`.
  template <class... Args>
  TracedFunction traced(const Args&... args) const {
    auto [entry, leaves] = prepare(detail::as_argument(args)...);
    return {entry, leaves};
  }
  template <class... Args>
  Lowered lowered(const Args&... args) const {
    return traced(args...).lower();
  }
  template <class... Args>
  CommPlan planned(const Args&... args) const {
    return lowered(args...).comm_plan();
  }
  template <class... Args>
  auto call_with(const Args&... args) const {
    if constexpr (takes<Args...>) {
      auto [entry, leaves] = prepare(args...);
      using R = Result<Args...>;
      std::vector<Array> out = detail::JitCore::call(entry, leaves);
      return tree_unflatten(*static_cast<const R*>(detail::JitCore::result(entry).get()), out);
    } else {
      refuse<Args...>();
    }
  }
  template <class... Args>
  static void refuse() {
    static_assert(takes<Args...>, "jit: the function does not take arguments of these types in this number");
  }

  // C++ scalars are traced as weakly typed arrays where the function takes arrays there, else they are static.
  template <class T>
  using Lifted = std::conditional_t<Number<T>, Array, T>;
  template <class... Args>
  static constexpr bool lift_numbers = std::is_invocable_v<F&, Lifted<Args>...>;
  template <class... Args>
  static constexpr bool takes = lift_numbers<Args...> || std::is_invocable_v<F&, Args...>;
  template <class... Args>
  using Raw = typename std::conditional_t<lift_numbers<Args...>, std::invoke_result<F&, Lifted<Args>...>,
                                          std::invoke_result<F&, Args...>>::type;
  template <class... Args>
  using Result = std::conditional_t<std::is_void_v<Raw<Args...>>, std::monostate, std::decay_t<Raw<Args...>>>;

  template <class Bound, class T>
  static void split(const T& arg, std::vector<Array>& leaves, detail::TraceRequest& request, TreeDef& def) {
    std::size_t before = leaves.size();
    if constexpr (std::is_same_v<Bound, Array> && Number<T>) {
      leaves.emplace_back(arg);
      def.push("*");
    } else if constexpr (detail::is_dynamic<T>) {
      Tree<T>::visit(arg, [&](const Array& a) { leaves.push_back(a); });
      Tree<T>::describe(arg, def);
    } else {
      detail::require_argument<T>();
      if constexpr (detail::is_static<T>()) def.push_static(detail::make_static(arg));
      request.static_argnums.push_back(request.leaves_per_arg.size());
    }
    request.leaves_per_arg.push_back(leaves.size() - before);
  }

  // What messages take for an argument: a number that is lifted is one array.
  template <class Bound, class T>
  using Named = std::conditional_t<std::is_same_v<Bound, Array> && Number<T>, Array, T>;
  template <class Bound, class T>
  static const Named<Bound, T>& named_as(const T& arg, const Array& number) {
    if constexpr (std::is_same_v<Named<Bound, T>, T>) {
      return arg;
    } else {
      return number;
    }
  }

  template <class... Args>
  std::pair<std::shared_ptr<detail::JitEntry>, std::vector<Array>> prepare(const Args&... args) const {
    if constexpr (lift_numbers<Args...>) {
      return prepare_bound<Lifted<Args>...>(args...);
    } else if constexpr (takes<Args...>) {
      return prepare_bound<Args...>(args...);
    } else {
      refuse<Args...>();
    }
  }

  template <class... Bound, class... Args>
  std::pair<std::shared_ptr<detail::JitEntry>, std::vector<Array>> prepare_bound(const Args&... args) const {
    std::vector<Array> leaves;
    detail::TraceRequest request;
    TreeDef def;
    (split<Bound>(args, leaves, request, def), ...);
    const Array number;
    std::tuple<const Named<Bound, Args>&...> named(named_as<Bound>(args, number)...);
    request.names = detail::LeafNames(named);
    request.structure = def.text();
    request.statics = def.statics();
    request.leaves = &leaves;
    request.run = [&](const std::vector<Array>& stand_ins, std::shared_ptr<void>* result) {
      std::size_t next = 0;
      [[maybe_unused]] auto fill = [&]<class B, class T>(std::type_identity<B>, const T& arg) -> B {
        if constexpr (std::is_same_v<B, Array> && Number<T>) {
          return stand_ins[next++];
        } else if constexpr (detail::is_dynamic<T>) {
          T out = arg;
          Tree<T>::visit(out, [&](Array& a) { a = stand_ins[next++]; });
          return out;
        } else {
          return arg;
        }
      };
      std::tuple<Bound...> bound{fill(std::type_identity<Bound>{}, args)...};
      using R = Result<Args...>;
      static_assert(is_tree_v<R>, "a jitted function returns a tree of arrays");
      auto r = std::make_shared<R>();
      if constexpr (std::is_void_v<Raw<Args...>>) {
        std::apply(shared_->f, std::move(bound));
      } else {
        *r = std::apply(shared_->f, std::move(bound));
      }
      std::vector<Array> out = tree_leaves(*r);
      Tree<R>::visit(*r, [](Array& a) { a = Array(); });
      *result = r;
      return out;
    };
    auto entry = shared_->core.entry(request);
    return {entry, std::move(leaves)};
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

/// Shape, dtype and weak-type mark of an array without data.
struct ShapeDtype {
  Shape shape;
  DType dtype = float32;
  bool weak = false;
  bool operator==(const ShapeDtype&) const = default;
};
/// "f32[8,4]".
std::string to_string(const ShapeDtype& s);
namespace detail {
std::vector<ShapeDtype> eval_shapes(const std::function<std::vector<Array>(const std::vector<Array>&)>& f,
                                    const std::vector<ShapeDtype>& in);
}
namespace detail {
template <class F, class... Args>
std::vector<ShapeDtype> eval_shape_of(const F& f, const Args&... args) {
  std::vector<ShapeDtype> in;
  (Tree<Args>::visit(args, [&](const Array& a) { in.push_back({a.shape(), a.dtype(), a.weak_type()}); }), ...);
  return eval_shapes(
      [&](const std::vector<Array>& leaves) {
        std::size_t next = 0;
        auto fill = [&](const auto& arg) {
          auto out = arg;
          Tree<std::decay_t<decltype(arg)>>::visit(out, [&](Array& a) { a = leaves[next++]; });
          return out;
        };
        std::tuple<Args...> bound{fill(args)...};
        return tree_leaves(std::apply(f, std::move(bound)));
      },
      in);
}
}  // namespace detail
/// eval_shape(f, args...): result types of `f` on arguments of these types, in order of leaves; nothing runs.
TESSERA_FUNCTION_OF_ARGUMENTS(eval_shape, detail::eval_shape_of)

}  // namespace tessera
