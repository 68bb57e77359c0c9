// SPDX-License-Identifier: Apache-2.0
// Saving: what is held when a save begins, and the work that follows on another thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "array/array_impl.h"
#include "io/checkpoint/files.h"
#include "io/checkpoint/index.h"
#include "tessera/checkpoint.h"

namespace tessera::io {

/// A leaf's value at the moment of the save. Whoever donates or deletes the array afterwards leaves these buffers as
/// they are: programs overwrite only memory of which they are the one holder.
struct HeldLeaf {
  StoredLeaf type;  ///< without shards
  std::shared_ptr<const sharding::Placement> placement;
  arrays::StoragePtr storage;
  bool replicas_equal = true;
  HostArray literal;  ///< of a scalar that is on no device yet: in place of placement and storage
};
/// Throws `StateError` (`DeletedArrayError`), naming the leaf, for an array without data, and `ConcretizationError` for
/// a traced one.
HeldLeaf hold(const std::string& name, const Array& leaf);

/// A distinct shard that this process would write: it has the lowest replica.
struct OwnedShard {
  std::size_t leaf = 0;
  std::size_t tile = 0;
  Dims start;
  Shape shape;
};
/// Empty shards have no bytes and are not listed; of a leaf without elements, one, so that other readers find it.
std::vector<OwnedShard> owned_shards(const std::vector<HeldLeaf>& leaves);
/// The shard's elements, once they are computed. Throws what their computation threw.
std::shared_ptr<const void> elements_of(const HeldLeaf& leaf, const OwnedShard& shard);
/// The leaf's name for a shard that is the whole leaf, else with its place: "w@0:4,8:16".
std::string tensor_name(const StoredLeaf& leaf, const Dims& start, const Shape& shape);

/// The client whose processes save or restore together.
Client client_of(const std::optional<Client>& given, const std::vector<Array>& leaves);

/// `checkpoints::detail::save`; process 0 calls `after_commit` once the checkpoint is complete, before `wait` returns
/// there.
checkpoints::SaveHandle begin_save(const std::string& dir, std::int64_t step, checkpoints::detail::NamedLeaves tree,
                                   const checkpoints::SaveOptions& options, std::function<void()> after_commit);

}  // namespace tessera::io
