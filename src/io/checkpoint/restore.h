// SPDX-License-Identifier: Apache-2.0
// Restoring: a checkpoint that is open, and the blocks of it that other shards need.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "io/checkpoint/index.h"
#include "io/checkpoint/shard_file.h"
#include "tessera/checkpoint.h"

namespace tessera::io {

/// Memory that takes a block of a leaf's global array, row-major.
struct BlockToFill {
  const StoredLeaf* leaf = nullptr;
  Dims start;
  Shape shape;
  char* to = nullptr;
};

class OpenCheckpoint {
 public:
  /// Reads the index and compares that of other readers with it. Throws as `checkpoints::restore`; messages begin with
  /// `function`.
  OpenCheckpoint(const char* function, const std::string& dir, std::int64_t step);
  const CheckpointIndex& index() const { return index_; }
  const std::string& folder() const { return folder_; }
  /// Null where there is none.
  const StoredLeaf* find(const std::string& name) const;
  /// Names of the leaves, of many the first.
  std::string names() const;
  /// Fills all of them from the stored shards that they overlap, in parallel.
  void read(const std::vector<BlockToFill>& blocks, const std::function<void(const checkpoints::Progress&)>& progress);
  void verify();

 private:
  const char* function_;
  std::string folder_;
  CheckpointIndex index_;
  ShardFiles files_;
};

}  // namespace tessera::io
