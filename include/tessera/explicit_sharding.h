// SPDX-License-Identifier: Apache-2.0
// Sharding in types. Over the `Explicit` axes of a mesh the placement of an array is part of its type; every operation
// derives its result's, and what is ambiguous is a `ShardingTypeError` that names the lines which settle it.
//
//   auto mesh = ts::make_explicit_mesh({2, 2}, {"x", "y"});
//   ts::SetMesh scope(mesh);
//   auto a = ts::reshard(ts::ones({8, 4}), ts::P("x", ts::none));
//   ts::type_of(a)                                     // f32[8@x,4]
//   auto b = ts::matmul(a, w, {.out_sharding = ts::P("x", "y")});
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "tessera/array.h"
#include "tessera/callable.h"
#include "tessera/function.h"
#include "tessera/mesh.h"
#include "tessera/operand.h"
#include "tessera/partition_spec.h"
#include "tessera/sharding.h"
#include "tessera/sharding_arg.h"
#include "tessera/transfer.h"
#include "tessera/tree.h"

namespace tessera {

/// The type of an array or of a traced value: `jax.typeof`.
struct ArrayType {
  Shape shape;
  DType dtype = float32;
  bool weak = false;
  AbstractMesh mesh;   ///< of the sharding; without axes where no axis is `Explicit`
  PartitionSpec spec;  ///< an entry for each dimension, over `Explicit` axes, with unreduced and reduced ones
  std::vector<std::string> varying;  ///< inside a map: the axes over which the value differs, in mesh order
  bool operator==(const ArrayType&) const = default;
  /// "float32[8@x,4]{U:y}"; weak types begin with '~'.
  std::string text() const;
};
/// "f32[8@x,4]{U:y}": `ArrayType::text` with short names of dtypes.
std::string to_string(const ArrayType& t);

/// The type of an array, of a traced value, or of a number as an operation would see it. Needs no data, and moves none.
ArrayType type_of(const Operand& x);

/// While it lives, compiling or calling a program over explicit axes on this thread throws `CommBudgetError` where its
/// communication plan has a step on a source line of which no operation states that data moves: by `reshard`,
/// `out_sharding`, a collective, a sum over what is split, or an operation along a split dimension that its rule allows
/// (slices, reversals, transforms). The error lists these steps. Guards nest.
class NoHiddenCommunication {
 public:
  NoHiddenCommunication();
  ~NoHiddenCommunication();
  NoHiddenCommunication(const NoHiddenCommunication&) = delete;
  NoHiddenCommunication& operator=(const NoHiddenCommunication&) = delete;
  /// Whether one is in force on this thread.
  static bool current();
};

/// Turns explicit axes into automatic ones inside a function: no rule is checked there, and types show no automatic
/// axes.
struct AutoAxesOptions {
  std::optional<AxisNames> axes = std::nullopt;  ///< none: all explicit axes
  std::vector<ShardingArg> out_sharding = {};    ///< of the results: one for all, or one a leaf. Required.
};
/// Turns automatic axes into explicit ones inside a function.
struct ExplicitAxesOptions {
  std::optional<AxisNames> axes = std::nullopt;  ///< none: all automatic axes
  std::vector<ShardingArg> in_sharding = {};     ///< of the arguments: one for all, or one a leaf. Required.
};

/// The types of what `f` returns for arguments of these types, which it is traced for and not run.
std::vector<ArrayType> eval_types(const std::function<std::vector<Array>(const std::vector<Array>&)>& f,
                                  const std::vector<Array>& args, const Loc& loc = Loc::current());

namespace detail {
/// What `f` makes, with exactly the type that `out` asks for; no rule for placements is checked on the way. Without
/// `out`, `f()` as it is.
Array placed_as(const ShardingArg& out, const char* function, const std::function<Array()>& f);
using ExplicitLeafFn = std::function<std::vector<Array>(const std::vector<Array>&)>;
std::vector<Array> auto_axes_leaves(const ExplicitLeafFn& f, const std::vector<Array>& leaves,
                                    const AutoAxesOptions& options);
std::vector<Array> explicit_axes_leaves(const ExplicitLeafFn& f, const std::vector<Array>& leaves,
                                        const ExplicitAxesOptions& options);
}  // namespace detail

/// `f` with explicit axes turned automatic inside: arguments keep their placements, each result is resharded to
/// `options.out_sharding`. The identity where the axes are automatic already. Throws `TypeError` naming `out_sharding`
/// where that is not given, `ValueError` for an axis that the mesh lacks, `UnimplementedError` for a manual one.
template <class F>
auto auto_axes(F f, AutoAxesOptions options) {
  return Callable([f = std::move(f), options = std::move(options)](const auto&... given) {
    static_assert(detail::takes<F, detail::Leafy<std::decay_t<decltype(given)>>...>,
                  "auto_axes: the function does not take arguments of these types in this number");
    // Not deduced: a tuple of one pair would become a tuple of its two parts.
    std::tuple<detail::Leafy<std::decay_t<decltype(given)>>...> args{detail::leafy(given)...};
    detail::FlatFunction flat(f, args);
    return flat.rebuild(detail::auto_axes_leaves(flat, tree_leaves(args), options));
  });
}
/// `f` with automatic axes turned explicit inside: arguments are resharded to `options.in_sharding`, results lose the
/// entries of axes that are automatic outside. Throws `TypeError` naming `in_sharding` where that is not given,
/// `ValueError` where no mesh is current and for an axis that it lacks.
template <class F>
auto explicit_axes(F f, ExplicitAxesOptions options) {
  return Callable([f = std::move(f), options = std::move(options)](const auto&... given) {
    static_assert(detail::takes<F, detail::Leafy<std::decay_t<decltype(given)>>...>,
                  "explicit_axes: the function does not take arguments of these types in this number");
    // Not deduced: a tuple of one pair would become a tuple of its two parts.
    std::tuple<detail::Leafy<std::decay_t<decltype(given)>>...> args{detail::leafy(given)...};
    detail::FlatFunction flat(f, args);
    return flat.rebuild(detail::explicit_axes_leaves(flat, tree_leaves(args), options));
  });
}

/// `reshard` of every leaf of a tree, to one placement for all of them or one a leaf. Throws `ValueError` for another
/// number of placements, and as `reshard` of an array.
template <class T>
requires(is_tree_v<T> && !std::is_same_v<T, Array>) T
    reshard(const T& tree, const std::vector<ShardingArg>& placements, const Loc& loc = Loc::current()) {
  std::vector<Array> leaves = tree_leaves(tree);
  if (placements.size() != 1 && placements.size() != leaves.size()) {
    throw ValueError("reshard: " + std::to_string(placements.size()) + " placements for a tree of " +
                     std::to_string(leaves.size()) + " arrays; expected one, or one an array");
  }
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    const ShardingArg& to = placements[placements.size() == 1 ? 0 : i];
    leaves[i] = to.spec() ? reshard(leaves[i], *to.spec(), loc) : reshard(leaves[i], to.sharding(), loc);
  }
  return tree_unflatten(tree, leaves);
}
/// The same with one placement for all leaves.
template <class T>
requires(is_tree_v<T> && !std::is_same_v<T, Array>) T
    reshard(const T& tree, const ShardingArg& placement, const Loc& loc = Loc::current()) {
  return reshard(tree, std::vector<ShardingArg>{placement}, loc);
}

}  // namespace tessera
