// SPDX-License-Identifier: Apache-2.0
// Names of PyTorch/XLA (torch_xla.distributed.spmd) for what has another name here, or needs none, so that a program
// can be ported word by word.
#pragma once

#include <optional>
#include <utility>

#include "tessera/annotate.h"

namespace tessera {

/// `global_mesh`.
inline std::optional<Mesh> get_global_mesh() { return global_mesh(); }
/// `mark_sharding`, under its name in PyTorch/XLA: every constraint is differentiable.
inline Array mark_sharding_with_gradients(const Array& x, const Mesh& mesh, const PartitionSpec& partition_spec,
                                          const Loc& = Loc::current()) {
  return mark_sharding(x, mesh, partition_spec);
}
/// Does nothing: SPMD mode is always on.
inline void use_spmd() {}
/// True.
inline bool is_spmd() { return true; }
/// `ShardedTensor(x)`. Throws `ValueError` for an array without annotation, and for a traced one.
inline ShardedTensor wrap_as_sharded_tensor(const Array& x, const Loc& = Loc::current()) { return ShardedTensor(x); }
/// The tensor itself.
inline ShardedTensor wrap_as_sharded_tensor(const ShardedTensor& x, const Loc& = Loc::current()) { return x; }
/// Its array.
inline const Array& unwrap_sharded_tensor(const ShardedTensor& x) { return x.array(); }
/// Anything else passes through.
template <class T>
const T& unwrap_sharded_tensor(const T& x) {
  return x;
}
/// Arrays are their own wrappers; anything else passes through.
template <class T>
const T& wrap_if_sharded(const T& x) {
  return x;
}
/// `backward_optimization_barrier`.
template <class F>
auto apply_backward_optimization_barrier(F f) {
  return backward_optimization_barrier(std::move(f));
}

}  // namespace tessera
