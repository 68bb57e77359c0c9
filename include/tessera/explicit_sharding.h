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
#include <vector>

#include "tessera/array.h"
#include "tessera/mesh.h"
#include "tessera/operand.h"
#include "tessera/partition_spec.h"
#include "tessera/sharding.h"
#include "tessera/sharding_arg.h"
#include "tessera/tree.h"

namespace tessera {

/// The type of an array or of a traced value: `jax.typeof`.
struct ArrayType {
  Shape shape;
  DType dtype = float32;
  bool weak = false;
  AbstractMesh mesh;                 ///< of the sharding; without axes where no axis is `Explicit`
  PartitionSpec spec;                ///< one entry a dimension, over `Explicit` axes, with unreduced and reduced ones
  std::vector<std::string> varying;  ///< inside a map: the axes over which the value differs, in mesh order
  bool operator==(const ArrayType&) const = default;
  /// "float32[8@x,4]{U:y}"; weak types begin with '~'.
  std::string text() const;
};
/// "f32[8@x,4]{U:y}": `ArrayType::text` with short names of dtypes.
std::string to_string(const ArrayType& t);

/// The type of an array, of a traced value, or of a number as an operation would see it. Needs no data, and moves none.
ArrayType type_of(const Operand& x);

/// Turns explicit axes into automatic ones inside `f`: no rule is checked there, and types show no automatic axes.
struct AutoAxesOptions {
  std::optional<AxisNames> axes = std::nullopt;  ///< none: all explicit axes
  std::vector<ShardingArg> out_sharding = {};    ///< of the results: one for all, or one a leaf. Required.
};
/// Turns automatic axes into explicit ones inside `f`.
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

}  // namespace tessera
