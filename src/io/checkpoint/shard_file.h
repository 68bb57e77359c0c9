// SPDX-License-Identifier: Apache-2.0
// One process's shards in one file: safetensors, with the checksums of its blocks in a second file.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "io/checkpoint/files.h"
#include "io/checkpoint/index.h"

namespace tessera::io {

/// A tensor of a file that is to be written.
struct TensorToWrite {
  std::string name;
  DType dtype = DType::F32;
  Shape shape;
  /// The elements, row-major. Called once, when it is their turn; it may wait for them, and may throw. What it returns
  /// is held while they are written.
  std::function<std::shared_ptr<const void>()> data;
};

/// Called after each part of a tensor is written, with the tensor's index.
using WroteBytes = std::function<void(std::size_t tensor, std::int64_t nbytes)>;

struct WrittenFile {
  StoredFile file;
  std::vector<std::uint64_t> offsets;  ///< of the tensors' first bytes, in the order they were given
  std::int64_t data_bytes = 0;
  std::int64_t index_bytes = 0;
};

/// Writes `folder/name` and `folder/checksums` and waits for the disk. Complex tensors have their real and imaginary
/// parts as a last dimension of two: the format's readers know no complex128, older ones no complex64. Throws
/// `ValueError` for a name that the format cannot hold, what `data` and `wrote` throw, and what the file system throws.
WrittenFile write_shard_file(FileSystem& fs, const std::string& folder, const std::string& name,
                             const std::string& checksums, const std::vector<TensorToWrite>& tensors,
                             const WroteBytes& wrote);

/// A block of a shard, and where it goes.
struct BlockToRead {
  Dims start;  ///< in the shard
  Shape shape;
  char* to = nullptr;
  Dims to_strides;  ///< in bytes; contiguous where the block spans the inner dimensions of the shard
};

/// The files of a checkpoint while it is read: each is opened, and its header checked, on first use. Thread-safe.
class ShardFiles {
 public:
  ShardFiles(std::string function, std::string folder, const CheckpointIndex& index);
  /// Copies part of a shard. Reads the blocks of `kBlockBytes` that have its elements, and compares their checksums.
  /// Throws `ValueError` for a file that cannot be opened and `FormatError` for one that does not fit the index or is
  /// damaged; both name the leaf.
  void read(const StoredLeaf& leaf, const StoredShard& shard, const BlockToRead& block);
  /// Compares the checksum of every byte of a file.
  void verify(std::size_t file);

 private:
  struct Open {
    std::mutex mutex;
    std::unique_ptr<MappedFile> data;
    std::unique_ptr<MappedFile> checksums;
  };
  const Open& open(std::size_t file, const std::string& who);

  std::string function_;
  std::string folder_;
  const CheckpointIndex& index_;
  std::vector<std::uint64_t> blocks_;  // of each file
  std::vector<std::unique_ptr<Open>> open_;
};

}  // namespace tessera::io
