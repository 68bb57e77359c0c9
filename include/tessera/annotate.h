// SPDX-License-Identifier: Apache-2.0
// Sharding annotations as PyTorch/XLA has them (torch_xla.distributed.spmd), on arrays. An annotation is placement
// where the array has data, and a sharding constraint inside a traced function.
//
//   Mesh mesh({0, 1, 2, 3, 4, 5, 6, 7}, {2, 4}, {"x", "y"});
//   Array w = mark_sharding(weights, mesh, P("x", "y"));
//   auto f = jit([&](Array x) { return matmul(mark_sharding(x, mesh, P("x", none)), w); });
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include "tessera/array.h"
#include "tessera/hybrid_mesh.h"
#include "tessera/mesh.h"
#include "tessera/op_sharding.h"
#include "tessera/partition_spec.h"
#include "tessera/tree.h"

namespace tessera {

// --- meshes -------------------------------------------------------------------------------------------------------

/// Sets the default mesh of the manual-region calls, for the whole program; `std::nullopt` clears it. A later call
/// replaces it. Safe from several threads.
void set_global_mesh(const std::optional<Mesh>& mesh, const Loc& loc = Loc::current());
/// The mesh that was set last, or nothing.
std::optional<Mesh> global_mesh();
/// All devices of the current client in id order on one axis, which is unnamed without `name`.
Mesh get_1d_mesh(const std::optional<std::string>& name = std::nullopt, const Loc& loc = Loc::current());

// --- annotations --------------------------------------------------------------------------------------------------

/// `x` under a sharding over all devices, with one entry of the spec per dimension; extents need not divide. With data:
/// resharded (no copy where it has that placement already). Inside a traced function: one `sharding_constraint`
/// equation, which applies to the gradient too. Throws `ValueError` naming `devices` where there are none, `mesh` for
/// one that is not all devices, `partition_spec` for a wrong number of entries or an unknown axis; `DuplicateAxisError`
/// for a repeated one.
Array mark_sharding(const Array& x, const Mesh& mesh, const PartitionSpec& partition_spec,
                    const Loc& loc = Loc::current());
/// `x` without annotation: on the default device, uncommitted; inside a traced function the constraints that made the
/// value are removed. An array without annotation is returned as it is. An array over several processes is gathered by
/// all of them.
Array clear_sharding(const Array& x, const Loc& loc = Loc::current());

/// Placed by a `NamedSharding` or a `GspmdSharding`; inside a traced function: the result of a constraint, or manual.
bool is_annotated(const Array& x, const Loc& loc = Loc::current());
/// Anything but an array has no annotation: false.
template <class T>
requires(!std::is_convertible_v<const T&, const Array&>) bool is_annotated(const T&, const Loc& = Loc::current()) {
  return false;
}
/// The annotation's type after normalization; nothing for an array without annotation.
std::optional<ShardingType> sharding_type(const Array& x, const Loc& loc = Loc::current());
/// The annotation in full; nothing where there is none, and {manual} inside a manual region.
std::optional<OpSharding> op_sharding(const Array& x, const Loc& loc = Loc::current());

namespace detail {
std::string annotated_hlo(const std::function<std::vector<Array>(const std::vector<Array>&)>& f,
                          const std::vector<Array>& leaves);
}  // namespace detail
/// The program of `f` for these arguments as HLO text with every annotation: `sharding={…}` on parameters, a custom
/// call `Sharding` for each constraint, and `SPMDFullToShardShape` … `SPMDShardToFullShape` around manual regions.
/// Other operations have Tessera's names. For reading and for tests; programs are exported as StableHLO.
template <class F, class... Args>
std::string annotated_hlo(const F& f, const Args&... args) {
  std::tuple<Args...> like{args...};
  return detail::annotated_hlo(
      [&](const std::vector<Array>& leaves) { return tree_leaves(std::apply(f, tree_unflatten(like, leaves))); },
      tree_leaves(like));
}

// --- devices ------------------------------------------------------------------------------------------------------

/// Devices of all processes of the current client.
std::int64_t global_device_count();
/// The device of values without a sharding: the first of this process. Throws `StateError` where it has none.
Device default_device(const Loc& loc = Loc::current());

// --- wrapping ------------------------------------------------------------------------------------------------------

/// A shard as a host snapshot: `data` has the size of the largest shard, zeros after the real part.
class HostShard {
 public:
  HostShard(Device device, Index index, int replica_id, HostArray data, Shape real)
      : device_(device),
        index_(std::move(index)),
        replica_id_(replica_id),
        data_(std::move(data)),
        real_(std::move(real)) {}
  const Device& device() const { return device_; }
  /// The part of the array, never its padding.
  const Index& index() const& { return index_; }
  Index index() const&& { return index_; }
  int replica_id() const { return replica_id_; }
  const HostArray& data() const& { return data_; }
  HostArray data() const&& { return data_; }
  /// A copy of the real part.
  HostArray unpadded(const Loc& loc = Loc::current()) const;
  /// Replaces the real part. Throws `ValueError` for another shape, `TypeError` for another dtype.
  void set_unpadded(const HostArray& value, const Loc& loc = Loc::current());

 private:
  Device device_;
  Index index_;
  int replica_id_;
  HostArray data_;
  Shape real_;
};

/// A handle whose array can be replaced, for code that replaces shards in place. Everything else takes arrays.
class ShardedTensor {
 public:
  /// Throws `ValueError` for an array without annotation, and for a traced one.
  explicit ShardedTensor(Array array, const Loc& loc = Loc::current());
  const Array& array() const& { return array_; }
  Array array() const&& { return array_; }
  operator const Array&() const { return array_; }  // NOLINT(google-explicit-constructor): it is an array
  std::optional<ShardingType> sharding_type(const Loc& = Loc::current()) const {
    return tessera::sharding_type(array_);
  }
  std::string sharding_spec(const Loc& loc = Loc::current()) const;
  /// Snapshots of this process's shards, by ascending device id.
  std::vector<HostShard> local_shards(const Loc& loc = Loc::current()) const;
  /// Replaces this process's shards by the real parts of as many shards, in that order. Copies of the array taken
  /// before keep their values. Throws `ValueError` for another count, device or index.
  void load_local_shards(const std::vector<HostShard>& shards, const Loc& loc = Loc::current());

 private:
  Array array_;
};

// --- barriers --------------------------------------------------------------------------------------------------------

namespace detail {
std::vector<Array> optimization_barrier(const std::vector<Array>& leaves, const Loc& loc);
std::vector<Array> backward_barrier(const std::vector<Array>& leaves, const Loc& loc);
}  // namespace detail

/// The tree itself; inside a traced function no fusion, reordering, common-subexpression or dead-code elimination
/// crosses the single equation that holds its leaves. Cotangents pass a barrier too. No communication.
template <class T>
requires(is_tree_v<T>) T optimization_barrier(const T& tree, const Loc& loc = Loc::current()) {
  return tree_unflatten(tree, detail::optimization_barrier(tree_leaves(tree), loc));
}

/// `f(params, inputs…)` whose gradients pass one joint barrier: those of the parameters in order, then those of the
/// inputs; what has no gradient is left out. The forward computation is `f`'s own.
template <class F>
auto backward_optimization_barrier(F f) {
  return Callable([f = std::move(f)](const auto&... args) {
    using Args = std::tuple<std::decay_t<decltype(args)>...>;
    Args like{args...};
    Args passed = tree_unflatten(like, detail::backward_barrier(tree_leaves(like), Loc::current()));
    return std::apply(f, passed);
  });
}

// --- counters --------------------------------------------------------------------------------------------------------

/// Since the program began.
struct AnnotationStats {
  std::int64_t op_shardings_built = 0;  ///< by `Mesh::op_sharding`
  std::int64_t annotations = 0;         ///< placements and constraints made by `mark_sharding`
  std::int64_t bytes_placed = 0;        ///< by `mark_sharding` on this process's devices, replicas counted each
  std::int64_t bytes_copied = 0;        ///< bytes that it moved for this
  bool operator==(const AnnotationStats&) const = default;
};
/// The counters of this process.
AnnotationStats annotation_stats();

}  // namespace tessera
