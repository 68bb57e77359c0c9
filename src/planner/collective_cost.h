// SPDX-License-Identifier: Apache-2.0
// Seconds of a collective on a cluster: latency (alpha) and bytes over bandwidth (beta) of the algorithms that
// collective libraries use, over the links that the group's positions have between them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/cluster_model.h"
#include "tessera/shape.h"

namespace tessera::planner {

enum class Collective : std::uint8_t { AllReduce, ReduceScatter, AllGather, AllToAll, Permute };
/// "all_reduce", "reduce_scatter", "all_gather", "all_to_all", "collective_permute".
const char* to_string(Collective c);

/// What a group of positions spans of one dimension of one level: `size` members, `stride` members apart.
struct Span {
  std::size_t level = 0;
  std::size_t dim = 0;  ///< of a torus; 0 elsewhere
  std::int64_t size = 1;
  std::int64_t stride = 1;
  bool ring = false;  ///< all of a torus's dimension that wraps around
  bool operator==(const Span&) const = default;
};

/// The links between the positions of a mesh of these sizes that differ along `axes` alone, innermost first. Position p
/// is device p. An axis that no product of a level's extents makes is taken for one span of the outermost level that it
/// reaches, which never flatters it. Throws `ValueError` where the mesh has more positions than the cluster has
/// devices.
std::vector<Span> spans_of(const ClusterModel& cluster, const Dims& mesh_sizes, const Dims& axes);

/// What matters on clusters whose innermost level is shared memory.
struct InMemory {
  double share = 1;  ///< of its members those whose operands differ; the others' are the same buffers, moved once
  /// Bytes that a permutation reads and writes where it copies: what several results take of one operand is read once,
  /// for the nearest cache has it then. Where whole buffers change hands, none.
  double copied = 0;
  double since = 0;  ///< bytes that the device has read and written since it last used the operands
};

struct CollectiveCost {
  double seconds = 0;
  std::string algorithm;     ///< "ring", "tree", "torus", …, joined by " + " from the innermost level on
  std::uint32_t levels = 0;  ///< those whose links are in use, as bits
};

/// `bytes`: of one device's buffer where it is whole: what an all-reduce and a reduce-scatter take, what an all-gather
/// gives, what a device keeps and sends in an all-to-all, what it sends in a permutation.
CollectiveCost cost_of(const ClusterModel& cluster, Collective kind, double bytes, const std::vector<Span>& spans,
                       const InMemory& in_memory = {});

}  // namespace tessera::planner
