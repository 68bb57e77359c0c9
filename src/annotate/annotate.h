// SPDX-License-Identifier: Apache-2.0
// What the files of this room share.
#pragma once

#include <optional>

#include "array/array_impl.h"
#include "ir/graph.h"
#include "tessera/annotate.h"

namespace tessera::annotate {

/// The checks of an annotation, in the words of `function`: devices exist, the mesh is all of them, one entry a
/// dimension, axes that exist and are used once. Returns the placement.
NamedSharding checked_sharding(const char* function, const Mesh& mesh, const PartitionSpec& spec, std::int64_t rank);

/// The equation of the current traces that makes a traced value; null for an input.
const ir::Eqn* defining_equation(const arrays::ArrayImpl& impl);

/// The sharding that axes of a mesh give: by dimension their numbers, major first ({-1}: none is fixed). Device ids are
/// the current client's; without any, positions of the mesh.
OpSharding sharding_of_axes(const Dims& mesh_sizes, const Dims& devices, const std::vector<Dims>& dims);

/// Counters behind `annotation_stats`.
void count_annotation(std::int64_t bytes_placed, std::int64_t bytes_copied);

}  // namespace tessera::annotate
