// SPDX-License-Identifier: Apache-2.0
// checkpoint.json: which leaves a checkpoint has, and where the elements of each shard are.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/dtype.h"
#include "tessera/shape.h"

namespace tessera::io {

inline constexpr const char kIndexName[] = "checkpoint.json";
/// What Hugging Face's tools read: tensor name -> file.
inline constexpr const char kWeightsIndexName[] = "model.safetensors.index.json";

/// Each has a checksum, counted from the first byte of a shard; the last one may be shorter. A restored shard is read
/// in whole blocks, so they are as small as the pages of memory that a machine reads anyway.
inline constexpr std::uint64_t kBlockBytes = 4096;
inline std::uint64_t num_blocks(std::uint64_t nbytes) { return nbytes / kBlockBytes + (nbytes % kBlockBytes != 0); }

/// A file of safetensors and the file of its blocks' checksums: CRC-32 of each, 4 bytes, least significant first, in
/// the order of the blocks in the file.
struct StoredFile {
  std::string name;
  std::string checksums;
  std::uint64_t nbytes = 0;
  std::uint64_t header_bytes = 0;  ///< before the first element, the 8 bytes of the length included
  std::uint32_t header_crc = 0;
};

/// One block of a leaf's global array, as a tensor of a file.
struct StoredShard {
  std::size_t file = 0;
  std::string tensor;
  Dims start;
  Shape shape;
  std::uint64_t offset = 0;       ///< of its first byte in the file
  std::uint64_t first_block = 0;  ///< among the file's checksums; follows from the offsets
};

struct StoredLeaf {
  std::string name;
  DType dtype = DType::F32;   ///< as users see it
  DType stored = DType::F32;  ///< of the elements: weak floats have float64's digits
  bool weak = false;
  Shape shape;
  std::vector<StoredShard> shards;

  std::uint64_t shard_bytes(const StoredShard& s) const {
    return static_cast<std::uint64_t>(size_of(s.shape)) * static_cast<std::uint64_t>(dtype_size(stored));
  }
};

struct CheckpointIndex {
  std::int64_t step = 0;
  std::uint32_t weights_index_crc = 0;
  std::uint64_t weights_index_bytes = 0;
  std::vector<StoredFile> files;
  std::vector<StoredLeaf> leaves;
  std::map<std::string, std::string> metadata;
};

std::uint32_t crc32_of(std::string_view bytes);

/// The file's bytes; the last member is the checksum of all before it. Throws `ValueError` for text that is no UTF-8.
std::string index_text(const CheckpointIndex& index);
/// Reads them. What comes back holds: extents and byte ranges are within their bounds, the shards of a leaf cover it
/// once, and those of a file cover it from its header to its end, so that an index asks for no more memory than its
/// files have bytes. Messages begin with `who` and name `file`. Throws `FormatError`.
CheckpointIndex parse_index(const std::string& who, std::string_view text, const std::string& file);

/// "checkpoint.json" for other readers: `{"metadata": {"total_size": n}, "weight_map": {tensor: file}}`.
std::string weights_index_text(const CheckpointIndex& index);

/// Whether blocks cover an array of this shape, each element once: empty, or what is wrong. Empty blocks do not count.
struct BlockAt {
  const Dims* start;
  const Shape* shape;
};
std::string cover_fault(const Shape& shape, const std::vector<BlockAt>& blocks);

}  // namespace tessera::io
