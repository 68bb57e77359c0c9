// SPDX-License-Identifier: Apache-2.0
// Placements that users name over `Explicit` axes: read, checked, and applied.
#pragma once

#include <string>

#include "ir/type_sharding.h"
#include "tessera/array.h"
#include "tessera/sharding_arg.h"

namespace tessera::program {

/// Whether types over this mesh have shardings.
bool has_explicit(const AbstractMesh& mesh);
/// What a user writes for a type's sharding.
PartitionSpec spec_of(const ir::TypeSharding& s);

/// Whether this array's type, or the mesh that is current, has explicit axes.
bool is_typed_here(const Array& a);

/// The sharding that `to` asks for of a value of this shape, over the mesh that it names or that is current. Throws
/// `ValueError` for a spec without a mesh, longer than the shape, unconstrained, or naming an axis that is not
/// `Explicit`; `DuplicateAxisError`; `IndivisibleError`. Null where the mesh has no explicit axes and `to` splits
/// nothing over others.
ir::TypeShardingPtr wanted_type(const ShardingArg& to, const Shape& shape, const std::string& function);

/// The value under this sharding: an equation `reshard` of the current trace, or a move. `named` is where it goes on
/// devices, for a call outside traces.
Array reshard_typed(const Array& a, ir::TypeShardingPtr to, const ShardingArg& named, const char* function);

}  // namespace tessera::program
