// SPDX-License-Identifier: Apache-2.0
// Shardings of inputs, and a loader that puts batches on devices while the program works.
//
//   ShardingSpec spec(mesh, P("data", none), {.minibatch = true});
//   ShardedDataLoader loader([&]() -> std::optional<HostBatch> { return next_batch(); }, {.specs = {{"x", spec}}});
//   while (auto batch = loader.next()) step((*batch)["x"]);
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "tessera/annotate.h"

namespace tessera {

/// What a `ShardingSpec` holds beside mesh and spec.
struct ShardingSpecOptions {
  /// Every process feeds its own part of the batch.
  bool minibatch = false;
};

/// A mesh and a spec for inputs. Checked when it is made: throws as `Mesh::op_sharding`.
class ShardingSpec {
 public:
  ShardingSpec(const Mesh& mesh, const PartitionSpec& partition_spec, const ShardingSpecOptions& options = {},
               const Loc& loc = Loc::current());
  template <class Flag>
  requires(std::is_same_v<Flag, bool>)
      ShardingSpec(const Mesh& mesh, const PartitionSpec& partition_spec, Flag minibatch, const Loc& = Loc::current())
      : ShardingSpec(mesh, partition_spec, ShardingSpecOptions{minibatch}) {}

  const Mesh& mesh() const& { return mesh_; }
  Mesh mesh() const&& { return mesh_; }
  const PartitionSpec& partition_spec() const& { return spec_; }
  PartitionSpec partition_spec() const&& { return spec_; }
  bool minibatch() const { return minibatch_; }
  /// `mesh().op_sharding(partition_spec())`.
  const OpSharding& op_sharding(const Loc& = Loc::current()) const { return mesh_.op_sharding(spec_); }

  /// The spec has one entry per dimension of the shape; divisibility is not checked.
  bool can_apply(const Shape& shape) const;
  bool can_apply(const Array& x) const { return can_apply(x.shape()); }
  bool can_apply(const HostArray& x) const { return can_apply(x.shape()); }
  /// The placement, or nothing where it cannot apply.
  std::optional<NamedSharding> for_shape(const Shape& shape, const Loc& loc = Loc::current()) const;
  std::optional<NamedSharding> for_array(const Array& x, const Loc& = Loc::current()) const {
    return for_shape(x.shape());
  }
  std::optional<NamedSharding> xla_spec(const Array& x, const Loc& = Loc::current()) const {
    return for_shape(x.shape());
  }
  /// `mark_sharding` with these parts. Throws as it does, and `ValueError` naming `device` for an array on another kind
  /// of device than the default one.
  Array apply(const Array& x, const Loc& loc = Loc::current()) const;

  bool operator==(const ShardingSpec&) const = default;

 private:
  Mesh mesh_;
  PartitionSpec spec_;
  bool minibatch_ = false;
};

/// Host data to devices, each byte once: a device receives only its shard. With `minibatch`, `value` is this process's
/// part: dimension 0 of the result is its own times global over local devices, and its rows go in order to this
/// process's devices by ascending tile. Data of another rank than the spec is replicated, which is logged once. Throws
/// `ValueError` naming `minibatch` for rank 0 or a spec that does not split dimension 0 over all devices, and the shape
/// for a batch that the local devices do not divide.
Array device_put(const HostArray& value, const ShardingSpec& spec, const Loc& loc = Loc::current());
/// The same for an array on devices.
Array device_put(const Array& value, const ShardingSpec& spec, const Loc& loc = Loc::current());
/// A tree of arrays: one spec for all leaves, or one for each. Throws `ValueError` with both counts.
template <class T>
requires(is_tree_v<T> && !std::is_same_v<T, Array>) T
    device_put(const T& tree, const std::vector<ShardingSpec>& specs, const Loc& = Loc::current()) {
  std::vector<Array> leaves = tree_leaves(tree);
  if (specs.size() != 1 && specs.size() != leaves.size()) {
    throw ValueError("device_put: " + std::to_string(leaves.size()) + " arrays and " + std::to_string(specs.size()) +
                     " specs; expected one spec for all, or one for each");
  }
  for (std::size_t i = 0; i < leaves.size(); ++i) leaves[i] = device_put(leaves[i], specs[specs.size() == 1 ? 0 : i]);
  return tree_unflatten(tree, leaves);
}

/// Named host arrays, and the same on devices.
using HostBatch = std::map<std::string, HostArray>;
/// Arrays of a batch by name.
using DeviceBatch = std::map<std::string, Array>;

/// Progress of a loader.
struct LoaderProgress {
  std::int64_t prepared = 0;  ///< batches put on devices
  std::int64_t taken = 0;     ///< batches given to the program
  std::int64_t total = -1;    ///< batches there will be, where known
  std::int64_t bytes = 0;     ///< host bytes of the prepared batches
  double waited_seconds = 0;  ///< time that `next` waited for a batch
};

/// What a `ShardedDataLoader` does with batches.
struct LoaderOptions {
  /// By name; the entry "" is for all other names. Names without a spec are replicated.
  std::map<std::string, ShardingSpec> specs = {};
  /// Batches that are prepared on devices ahead of their use.
  std::int64_t prefetch = 2;
  /// Number of batches, for the progress.
  std::int64_t total = -1;
  /// Called by `next` after each batch that it gives.
  std::function<void(const LoaderProgress&)> on_progress = {};
};

/// Reads batches from a source and puts them on devices on a thread of its own, ahead of the program. What the source
/// or a placement throws is thrown by the `next` whose batch it would have been; afterwards there are no more batches.
class ShardedDataLoader {
 public:
  /// `source` gives batches until it returns nothing; it is called on the loader's thread, under the client that is
  /// current here. Throws `ValueError` for a prefetch below 1.
  using Source = std::function<std::optional<HostBatch>()>;
  ShardedDataLoader(Source source, LoaderOptions options = {}, const Loc& loc = Loc::current());
  /// Stops reading; batches that are ready are dropped.
  ~ShardedDataLoader();
  ShardedDataLoader(ShardedDataLoader&&) noexcept;
  ShardedDataLoader& operator=(ShardedDataLoader&&) noexcept;

  /// The next batch, or nothing at the end. One thread calls it.
  std::optional<DeviceBatch> next(const Loc& loc = Loc::current());
  /// Safe from any thread.
  LoaderProgress progress() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tessera
