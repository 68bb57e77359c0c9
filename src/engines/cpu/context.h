// SPDX-License-Identifier: Apache-2.0
// What compiling a program needs to know of the machine: who owns which mesh position, and where layouts put shards.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "ir/graph.h"
#include "ops/define_op.h"
#include "runtime/positions.h"
#include "runtime/process_collectives.h"
#include "runtime/shard_set.h"

namespace tessera::cpu {

using runtime::BufferPtr;
using runtime::ShardBuffers;

/// ShardBuffers of one layout on this mesh, as this process sees them.
struct LayoutTable {
  ir::Layout layout;
  runtime::ShardStrides strides;
  runtime::ShardNumbering map;
  std::vector<std::int32_t> first_local;  ///< shard -> lowest position of this process that holds it, or -1
  /// shard -> processes that hold it, ascending; empty unless the program spans processes.
  std::vector<std::vector<std::int32_t>> holders;
};

/// Mesh positions of a program, by owning process.
struct Owners {
  std::vector<std::int32_t> process_of;  ///< by mesh position
  std::int32_t self = 0;
  bool distributed() const;
};

class Context {
 public:
  Context(ir::MeshAxesPtr mesh, Owners owners, std::shared_ptr<runtime::MemoryPool> memory, bool plain = false);

  const ir::MeshAxes& mesh() const { return *mesh_; }
  const Owners& owners() const { return owners_; }
  bool distributed() const { return distributed_; }
  /// Programs are compiled equation by equation, for the verification mode.
  bool plain() const { return plain_; }
  const std::shared_ptr<runtime::MemoryPool>& memory() const { return memory_; }
  bool local(std::int64_t position) const { return owners_.process_of[at(position)] == owners_.self; }
  const std::vector<std::int64_t>& strides() const { return strides_; }
  std::int64_t coordinate(std::int64_t position, std::size_t axis) const {
    return position / strides_[axis] % mesh_->sizes[axis];
  }
  /// Made once a layout.
  const std::shared_ptr<const LayoutTable>& table(const ir::Layout& layout);
  /// The numbering of the combinations of coordinates on the axes of `mask`.
  const std::shared_ptr<const LayoutTable>& combinations(ir::AxisMask mask);

 private:
  ir::MeshAxesPtr mesh_;
  Owners owners_;
  std::shared_ptr<runtime::MemoryPool> memory_;
  bool distributed_;
  bool plain_;
  std::vector<std::int64_t> strides_;
  std::unordered_map<std::size_t, std::vector<std::shared_ptr<const LayoutTable>>> tables_;
};

/// True when the parts of every dimension are equal, so that all shards have one shape.
bool even(const Shape& global, const ir::Layout& layout, const ir::MeshAxes& mesh);
/// Type of the shard at a position.
ir::Type local_type(const ir::Type& global, const ir::Layout& layout, const ir::MeshAxes& mesh, std::int64_t position);

}  // namespace tessera::cpu
