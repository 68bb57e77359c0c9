// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "tessera/sharding.h"

namespace tessera::sharding {

struct NamedState {
  AnyMesh mesh;
  PartitionSpec spec;
  NamedOptions options;
  std::vector<std::vector<int>> dim_axes;  // one entry of the spec each
  Dims parts;                              // one entry of the spec each
  std::vector<int> unreduced, reduced;     // mesh axes, ascending
  std::size_t hash = 0;
};

/// Whose words an error speaks: "get_shard_shape: mesh_axes = ...".
struct Caller {
  std::string_view function;
  std::string_view argument;
};

/// Resolves a spec over a mesh. Throws `ValueError` for an unknown axis and for one that is unreduced or reduced and
/// has another use, `DuplicateAxisError` for one that entries repeat.
std::shared_ptr<const NamedState> resolve_spec(const AnyMesh& mesh, const PartitionSpec& spec,
                                               const NamedOptions& options, const Caller& caller);
/// Shape of a shard. Throws `ValueError` for a spec longer than the shape and `IndivisibleError`.
Shape named_shard_shape(const NamedState& s, const Shape& global_shape, const Caller& caller);

}  // namespace tessera::sharding
