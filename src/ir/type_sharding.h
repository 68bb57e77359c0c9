// SPDX-License-Identifier: Apache-2.0
// The part of a type that places values over the `Explicit` axes of a mesh. Equal ones are the same object, which lives
// for the program, so that types stay cheap to copy and to compare.
#pragma once

#include <string>
#include <vector>

#include "ir/layout.h"
#include "ir/type.h"
#include "tessera/mesh.h"
#include "tessera/sharding.h"

namespace tessera::ir {

struct TypeSharding {
  AbstractMesh mesh;
  DimAxes dims;            ///< one a dimension: positions of mesh axes, major first; `Explicit` axes only
  AxisMask unreduced = 0;  ///< axes over which the value is the sum of what devices hold
  AxisMask reduced = 0;    ///< axes over which the gradient is to stay unreduced
  bool operator==(const TypeSharding&) const = default;

  /// No dimension is split, and no sum is open or marked.
  bool plain_whole() const;
  bool marked() const { return (unreduced | reduced) != 0; }
  /// Axes that split a dimension.
  AxisMask split() const;
  /// Number of blocks along dimension d.
  std::int64_t parts(std::size_t d) const;
};
using TypeShardingPtr = const TypeSharding*;

/// The one object with this content.
TypeShardingPtr intern(TypeSharding s);
/// What a sharding is in the type of an array of this rank: its entries over `Explicit` axes; null where there are
/// none.
TypeShardingPtr type_sharding(const Sharding& s, std::int64_t rank);
/// Nothing split, over this mesh; null where none of its axes is `Explicit`.
TypeShardingPtr unsplit(const AbstractMesh& mesh, std::int64_t rank);

/// Whether types agree in their shardings: none is as good as one that splits nothing.
bool same_sharding(const Type& a, const Type& b);
/// The type with one more dimension in front of dimension d, over these axes; without dimension d.
Type with_dim(Type t, std::size_t d, std::int64_t extent, AxisList entry = {});
Type without_dim(Type t, std::size_t d);
/// The type of a tangent, and of a cotangent: unreduced and reduced axes change places.
Type tangent_type(const Type& t);
Type cotangent_type(const Type& t);

/// "x", "(x,y)".
std::string axes_text(const AxisList& axes, const AbstractMesh& mesh);
/// The axes of a mask in mesh order.
AxisList axes_of(AxisMask mask);
/// "8@x,4": the extents of a type with the axes that split them.
std::string shape_text(const Type& t);
/// "{U:x}", "{U:x, R:(y,z)}", or nothing.
std::string marks_text(const TypeSharding& s);
/// "P('x', None)" with unreduced and reduced axes: what a user writes for it.
std::string spec_text(const TypeSharding& s);

}  // namespace tessera::ir
