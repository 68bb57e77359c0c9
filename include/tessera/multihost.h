// SPDX-License-Identifier: Apache-2.0
// Between the arrays of one process and global arrays over the processes of a cluster. With one process all functions
// keep shape and value.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tessera/array.h"
#include "tessera/error.h"
#include "tessera/mesh.h"
#include "tessera/partition_spec.h"
#include "tessera/sharding.h"
#include "tessera/tree.h"

namespace tessera {

/// Takes this process's array as its part of a global one: an extent grows by the mesh axes of its spec entry that
/// cross processes. No communication: data that has the local mesh's placement already is shared; a global array is
/// returned as it is. Throws `ValueError` without a spec (`P()` for equal data everywhere) and for a mesh whose local
/// part is no block, `IndivisibleError` where the local extent does not split.
Array host_local_array_to_global_array(const Array& local, const Mesh& mesh, const std::optional<PartitionSpec>& spec,
                                       const Loc& loc = Loc::current());
/// The same from host data.
Array host_local_array_to_global_array(const HostArray& local, const Mesh& mesh,
                                       const std::optional<PartitionSpec>& spec, const Loc& loc = Loc::current());
/// The inverse: this process's part, on the local mesh with the same spec, sharing the shards. An array of another
/// placement is resharded first (every process takes part); a local array is returned as it is.
Array global_array_to_host_local_array(const Array& global, const Mesh& mesh, const std::optional<PartitionSpec>& spec,
                                       const Loc& loc = Loc::current());

/// A global array from each process's data, whatever the mesh, without communication: the rows (and columns) of a
/// process are in the order of its shards. Throws `ValueError` where `global_shape` does not fit, or is needed because
/// the shards of a process form no grid.
Array make_array_from_process_local_data(const ShardingPtr& sharding, const HostArray& local,
                                         const MaybeDims& global_shape = {}, const Loc& loc = Loc::current());

/// Form of `process_allgather`.
struct AllgatherOptions {
  /// Joins along dimension 0 instead of stacking along a new one; needed for global arrays.
  bool tiled = false;
};
/// The data of all processes, in each of them (all-gather; every process takes part): stacked along a new dimension 0,
/// or joined along dimension 0 (`tiled`); of a global array its value. Throws `ValueError` for a global array without
/// `tiled`.
HostArray process_allgather(const Array& x, const AllgatherOptions& options = {}, const Loc& loc = Loc::current());
/// The same for host data.
HostArray process_allgather(const HostArray& x, const AllgatherOptions& options = {}, const Loc& loc = Loc::current());

/// The data of one process, in each of them (broadcast; every process takes part): of process 0, or of the one that
/// gives `is_source` = true, where all give it. Shape and dtype are those of the source. Throws `ValueError` unless
/// there is exactly one source.
HostArray broadcast_one_to_all(const HostArray& x, std::optional<bool> is_source = {}, const Loc& loc = Loc::current());
/// The same for an array of this process; the result is on its default device.
Array broadcast_one_to_all(const Array& x, std::optional<bool> is_source = {}, const Loc& loc = Loc::current());
/// Returns when every process has called it with this name. Throws `ValueError`, in all of them, where names differ.
void sync_global_devices(const std::string& name, const Loc& loc = Loc::current());
/// Throws `ValueError`, in all processes, naming those whose data differs from process 0's (shape, dtype or bytes).
void assert_equal(const HostArray& x, const std::string& message = "", const Loc& loc = Loc::current());

namespace detail {
template <class T, class F>
T map_with_specs(const T& tree, const std::vector<PartitionSpec>& specs, const char* function, F&& f) {
  std::vector<Array> leaves = tree_leaves(tree);
  if (specs.size() != 1 && specs.size() != leaves.size()) {
    throw ValueError(std::string(function) + ": " + std::to_string(leaves.size()) + " arrays and " +
                     std::to_string(specs.size()) + " specs; expected one spec for all, or one for each");
  }
  for (std::size_t i = 0; i < leaves.size(); ++i) leaves[i] = f(leaves[i], specs[specs.size() == 1 ? 0 : i]);
  return tree_unflatten(tree, leaves);
}
}  // namespace detail

/// For trees, with one spec for all leaves or one for each. Throws `ValueError` with both counts.
template <class T>
requires(is_tree_v<T>) T
    host_local_array_to_global_array(const T& tree, const Mesh& mesh, const std::vector<PartitionSpec>& specs,
                                     const Loc& = Loc::current()) {
  return detail::map_with_specs(tree, specs, "host_local_array_to_global_array", [&](const Array& a, const auto& spec) {
    return host_local_array_to_global_array(a, mesh, spec);
  });
}
/// For trees, with one spec for all leaves or one for each. Throws `ValueError` with both counts.
template <class T>
requires(is_tree_v<T>) T
    global_array_to_host_local_array(const T& tree, const Mesh& mesh, const std::vector<PartitionSpec>& specs,
                                     const Loc& = Loc::current()) {
  return detail::map_with_specs(tree, specs, "global_array_to_host_local_array", [&](const Array& a, const auto& spec) {
    return global_array_to_host_local_array(a, mesh, spec);
  });
}

}  // namespace tessera
