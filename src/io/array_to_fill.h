// SPDX-License-Identifier: Apache-2.0
// Arrays whose shards come from files.
#pragma once

#include <memory>
#include <vector>

#include "array/array_impl.h"
#include "ir/type.h"
#include "tessera/array.h"

namespace tessera::io {

/// Memory of the host for a block of an array, row-major.
struct BlockMemory {
  Dims start;  ///< in the array
  Shape shape;
  char* to = nullptr;
};

/// The memory of an array that is being made: one block for each distinct shard of this process's devices. Of an
/// unreduced sharding the first addend is a block, the others are zeros.
class ArrayToFill {
 public:
  ArrayToFill(const ir::Type& type, const ShardingPtr& sharding, bool committed);
  const std::vector<BlockMemory>& blocks() const { return blocks_; }
  /// The array, once all blocks are filled: memory of an accelerator is written now.
  Array finish() const;

 private:
  ir::Type type_;
  ShardingPtr sharding_;
  bool committed_;
  std::shared_ptr<arrays::Storage> storage_ = std::make_shared<arrays::Storage>();
  std::vector<BlockMemory> blocks_;
};

}  // namespace tessera::io
