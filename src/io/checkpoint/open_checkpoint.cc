// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <mutex>

#include "base/strings.h"
#include "base/thread_pool.h"
#include "core/strided_copy.h"
#include "io/checkpoint/restore.h"
#include "io/checkpoint/steps.h"
#include "tessera/error.h"

namespace tessera::io {

namespace {

// What a stored shard and a block have in common, or an empty shape.
struct Common {
  Dims start;  // in the global array
  Shape shape;
};
bool intersect(const StoredShard& s, const BlockToFill& b, Common& out) {
  const std::size_t rank = b.shape.size();
  out.start.resize(rank);
  out.shape.resize(rank);
  for (std::size_t d = 0; d < rank; ++d) {
    out.start[d] = std::max(s.start[d], b.start[d]);
    out.shape[d] = std::min(s.start[d] + s.shape[d], b.start[d] + b.shape[d]) - out.start[d];
    if (out.shape[d] <= 0) return false;
  }
  return true;
}

struct Copy {
  const BlockToFill* block = nullptr;
  const StoredShard* shard = nullptr;
  BlockToRead read;
};

// Any byte but 0 and 1 is no bool: programs rely on it.
void make_bools(const BlockToFill& block) {
  auto* v = reinterpret_cast<unsigned char*>(block.to);
  for (std::int64_t i = 0, n = size_of(block.shape); i < n; ++i) v[i] = v[i] != 0 ? 1 : 0;
}

}  // namespace

OpenCheckpoint::OpenCheckpoint(const char* function, const std::string& dir, std::int64_t step)
    : function_(function), index_(read_index(function, dir, step, folder_)), files_(function, folder_, index_) {
  const MappedFile weights(function, str(folder_, "/", kWeightsIndexName));
  if (weights.size() != index_.weights_index_bytes ||
      crc32_of(weights.bytes(0, weights.size(), ReadKind::Index)) != index_.weights_index_crc) {
    throw FormatError(str(function, ": \"", weights.path(),
                          "\" is damaged, or of another checkpoint: its checksum is not that in \"", kIndexName, "\""),
                      weights.path());
  }
}

const StoredLeaf* OpenCheckpoint::find(const std::string& name) const {
  const auto at =
      std::find_if(index_.leaves.begin(), index_.leaves.end(), [&](const auto& l) { return l.name == name; });
  return at == index_.leaves.end() ? nullptr : &*at;
}

std::string OpenCheckpoint::names() const {
  constexpr std::size_t kMost = 20;
  std::string out = index_.leaves.empty() ? "no leaves" : "";
  for (std::size_t i = 0; i < std::min(kMost, index_.leaves.size()); ++i) {
    out += str(i > 0 ? ", \"" : "\"", index_.leaves[i].name, "\"");
  }
  if (index_.leaves.size() > kMost) out += str(" and ", index_.leaves.size() - kMost, " more");
  return out;
}

void OpenCheckpoint::read(const std::vector<BlockToFill>& blocks,
                          const std::function<void(const checkpoints::Progress&)>& report) {
  std::vector<Copy> copies;
  checkpoints::Progress progress;
  for (const BlockToFill& b : blocks) {
    const std::int64_t item = dtype_size(b.leaf->stored);
    const Dims strides = core::contiguous_strides(b.shape, item);
    Common common;
    for (const StoredShard& s : b.leaf->shards) {
      if (size_of(b.shape) == 0 || !intersect(s, b, common)) continue;
      Copy c{&b, &s, {{}, common.shape, b.to, strides}};
      for (std::size_t d = 0; d < common.start.size(); ++d) {
        c.read.start.push_back(common.start[d] - s.start[d]);
        c.read.to += (common.start[d] - b.start[d]) * strides[d];
      }
      progress.bytes_total += size_of(common.shape) * item;
      copies.push_back(std::move(c));
    }
  }
  std::mutex mutex;
  base::parallel_for(static_cast<std::int64_t>(copies.size()), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const Copy& c = copies[static_cast<std::size_t>(i)];
      files_.read(*c.block->leaf, *c.shard, c.read);
      if (!report) continue;
      std::lock_guard lock(mutex);
      progress.leaf = c.block->leaf->name;
      progress.bytes_done += size_of(c.read.shape) * dtype_size(c.block->leaf->stored);
      report(progress);
    }
  });
  for (const BlockToFill& b : blocks) {
    if (is_bool(b.leaf->stored)) make_bools(b);
  }
}

void OpenCheckpoint::verify() {
  base::parallel_for(static_cast<std::int64_t>(index_.files.size()), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) files_.verify(static_cast<std::size_t>(i));
  });
}

}  // namespace tessera::io
