// SPDX-License-Identifier: Apache-2.0
// Between host and devices, for arrays and whole trees: device_get, block_until_ready, reshard, and the two placements
// for pmap.
#pragma once

#include <functional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "tessera/array.h"
#include "tessera/tree.h"

namespace tessera {

/// The global value on the host, as `Array::host`, with which it shares memory. Throws as that.
HostArray device_get(const Array& x, const Loc& loc = Loc::current());
/// The same for several arrays.
std::vector<HostArray> device_get(const std::vector<Array>& arrays, const Loc& loc = Loc::current());
/// Waits for every array of the tree; throws what a computation threw.
template <class T>
requires is_tree_v<T>
const T& block_until_ready(const T& tree, const Loc& = Loc::current()) {
  Tree<T>::visit(tree, [](const Array& a) { a.block_until_ready(); });
  return tree;
}
/// The same for a temporary, which is returned.
template <class T>
requires(!std::is_reference_v<T> && is_tree_v<T>) T block_until_ready(T&& tree) {
  Tree<T>::visit(tree, [](const Array& a) { a.block_until_ready(); });
  return std::forward<T>(tree);
}

/// The value under another sharding: `device_put` eagerly, `with_sharding_constraint` inside a traced function. Throws
/// as they do.
Array reshard(const Array& x, const ShardingPtr& sharding, const Loc& loc = Loc::current());
/// Over the mesh of the enclosing `shard_map` or of the current scope.
Array reshard(const Array& x, const PartitionSpec& spec, const Loc& loc = Loc::current());

/// Arrays stacked along a new leading dimension, one on each device: an array with a `PmapSharding`. Throws
/// `ValueError` unless there are as many arrays as devices, and for shapes or dtypes that differ.
Array device_put_sharded(const std::vector<Array>& shards, const std::vector<Device>& devices,
                         const Loc& loc = Loc::current());
/// The same array on each device, stacked as by `device_put_sharded`.
Array device_put_replicated(const Array& x, const std::vector<Device>& devices, const Loc& loc = Loc::current());

/// Count of the current client's devices, of all processes.
inline std::int64_t device_count() { return static_cast<std::int64_t>(devices().size()); }
/// Count of this process's devices.
inline std::int64_t local_device_count() { return static_cast<std::int64_t>(local_devices().size()); }

/// f(f(f(init, leaf 0), leaf 1), …).
template <class T, class R, class F>
requires is_tree_v<T> R tree_reduce(F f, const T& tree, R init, const Loc& = Loc::current()) {
  for (const Array& leaf : tree_leaves(tree)) init = f(std::move(init), leaf);
  return init;
}
/// True where every leaf is, a single element each. Throws `ValueError` for larger leaves.
template <class T>
requires is_tree_v<T>
bool tree_all(const T& tree, const Loc& = Loc::current()) {
  return tree_reduce([](bool all, const Array& leaf) { return all && bool(leaf); }, tree, true);
}

}  // namespace tessera
