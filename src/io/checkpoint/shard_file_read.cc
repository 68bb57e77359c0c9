// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <limits>

#include "base/strings.h"
#include "core/strided_copy.h"
#include "io/checkpoint/shard_file.h"
#include "io/runs.h"
#include "tessera/error.h"

namespace tessera::io {

namespace {

// Mapped and compared together: few calls, and the bytes are still in the cache when they are copied.
constexpr std::uint64_t kBlocksAtOnce = 64;

std::uint32_t read_le(std::string_view four) {
  std::uint32_t v = 0;
  for (int i = 3; i >= 0; --i) v = v << 8 | static_cast<unsigned char>(four[static_cast<std::size_t>(i)]);
  return v;
}

// The bytes of one shard, handed out in ascending order; each block is compared when it is first reached.
class CheckedShard {
 public:
  CheckedShard(const std::string& who, const MappedFile& data, const MappedFile& sums, std::uint64_t offset,
               std::uint64_t nbytes, std::uint64_t first_block)
      : who_(who), data_(data), sums_(sums), offset_(offset), nbytes_(nbytes), first_block_(first_block) {}

  // Copies [from, from + n) of the shard. `to` null: only compares.
  void copy(std::uint64_t from, std::uint64_t n, char* to) {
    const std::uint64_t end = from + n;
    while (from < end) {
      const std::uint64_t block = from / kBlockBytes;
      if (block >= checked_) check(block, std::min(num_blocks(end), block + kBlocksAtOnce));
      const std::uint64_t until = std::min(end, checked_ * kBlockBytes);
      if (to != nullptr) {
        std::memcpy(to, base_ + (from - base_at_), until - from);
        to += until - from;
      }
      from = until;
    }
  }

 private:
  void check(std::uint64_t block, std::uint64_t end_block) {
    base_at_ = block * kBlockBytes;
    const std::uint64_t n = std::min(end_block * kBlockBytes, nbytes_) - base_at_;
    base_ = data_.bytes(offset_ + base_at_, n, ReadKind::Data).data();
    const std::string_view sums = sums_.bytes(4 * (first_block_ + block), 4 * (end_block - block), ReadKind::Index);
    for (std::uint64_t b = block; b < end_block; ++b) {
      const std::uint64_t at = b * kBlockBytes;
      const std::string_view bytes(base_ + (at - base_at_), std::min(kBlockBytes, nbytes_ - at));
      if (crc32_of(bytes) == read_le(sums.substr(4 * (b - block), 4))) continue;
      throw FormatError(str(who_, ": \"", data_.path(), "\" is damaged: the checksum of bytes ", offset_ + at, " to ",
                            offset_ + at + bytes.size(), " is not that in \"", sums_.path(), "\""),
                        data_.path());
    }
    checked_ = end_block;
  }

  const std::string& who_;
  const MappedFile& data_;
  const MappedFile& sums_;
  std::uint64_t offset_, nbytes_, first_block_;
  std::uint64_t checked_ = 0;  // blocks before it were compared, or passed over
  const char* base_ = nullptr;
  std::uint64_t base_at_ = 0;
};

}  // namespace

ShardFiles::ShardFiles(std::string function, std::string folder, const CheckpointIndex& index)
    : function_(std::move(function)), folder_(std::move(folder)), index_(index), blocks_(index.files.size()) {
  for (std::size_t i = 0; i < index.files.size(); ++i) open_.push_back(std::make_unique<Open>());
  for (const StoredLeaf& leaf : index.leaves) {
    for (const StoredShard& s : leaf.shards) blocks_[s.file] += num_blocks(leaf.shard_bytes(s));
  }
}

const ShardFiles::Open& ShardFiles::open(std::size_t i, const std::string& who) {
  Open& o = *open_[i];
  std::lock_guard lock(o.mutex);
  if (o.checksums) return o;
  const StoredFile& f = index_.files[i];
  auto data = std::make_unique<MappedFile>(who, str(folder_, "/", f.name));
  auto sums = std::make_unique<MappedFile>(who, str(folder_, "/", f.checksums));
  auto check_size = [&](const MappedFile& file, std::uint64_t expected) {
    if (file.size() == expected) return;
    throw FormatError(
        str(who, ": \"", file.path(), "\" is ", file.size() < expected ? "truncated" : "too long", ": it has ",
            file.size(), " bytes; expected ", expected, ", as the index of the checkpoint has it"),
        file.path());
  };
  check_size(*data, f.nbytes);
  check_size(*sums, 4 * blocks_[i]);
  if (crc32_of(data->bytes(0, f.header_bytes, ReadKind::Index)) != f.header_crc) {
    throw FormatError(
        str(who, ": \"", data->path(), "\" is damaged, or of another checkpoint: the checksum of its first ",
            f.header_bytes, " bytes is not that in the index"),
        data->path());
  }
  o.data = std::move(data);
  o.checksums = std::move(sums);
  return o;
}

void ShardFiles::read(const StoredLeaf& leaf, const StoredShard& shard, const BlockToRead& block) {
  if (size_of(block.shape) == 0) return;
  const std::string who = str(function_, ": leaf \"", leaf.name, "\"");
  const Open& files = open(shard.file, who);
  CheckedShard bytes(who, *files.data, *files.checksums, shard.offset, leaf.shard_bytes(shard), shard.first_block);
  const std::int64_t item = dtype_size(leaf.stored);
  const Dims strides = core::contiguous_strides(shard.shape, item);
  for_each_run(block.start, block.shape, strides, block.to_strides, item,
               [&](std::uint64_t from, std::int64_t to, std::uint64_t n) { bytes.copy(from, n, block.to + to); });
}

void ShardFiles::verify(std::size_t file) {
  for (const StoredLeaf& leaf : index_.leaves) {
    for (const StoredShard& s : leaf.shards) {
      if (s.file != file) continue;
      const std::string who = str(function_, ": leaf \"", leaf.name, "\"");
      const Open& files = open(file, who);
      const std::uint64_t n = leaf.shard_bytes(s);
      CheckedShard(who, *files.data, *files.checksums, s.offset, n, s.first_block).copy(0, n, nullptr);
    }
  }
}

}  // namespace tessera::io
