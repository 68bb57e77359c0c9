// SPDX-License-Identifier: Apache-2.0
#include <zlib.h>

#include <algorithm>
#include <numeric>

#include "base/json.h"
#include "base/strings.h"
#include "io/checkpoint/shard_file.h"
#include "tessera/error.h"

namespace tessera::io {

using base::Json;
using nlohmann::json;

namespace {

constexpr const char kMetadata[] = "__metadata__";
// The reference implementation refuses longer headers.
constexpr std::size_t kMostHeader = 100'000'000;
// Written at once, and the most between two calls of a progress callback.
constexpr std::uint64_t kAtOnce = std::uint64_t{8} << 20;

const char* type_name(DType t) {
  static constexpr const char* names[] = {"BOOL", "I8",  "I16",  "I32", "I64", "U8",  "U16", "U32",
                                          "U64",  "F16", "BF16", "F32", "F64", "F32", "F64"};
  return names[static_cast<int>(t)];
}
Shape stored_shape(const TensorToWrite& t) {
  Shape out = t.shape;
  if (is_complex(t.dtype)) out.push_back(2);
  return out;
}
std::uint64_t nbytes_of(const TensorToWrite& t) {
  return static_cast<std::uint64_t>(size_of(t.shape)) * static_cast<std::uint64_t>(dtype_size(t.dtype));
}

void put_le(char* to, std::uint64_t v, int n) {
  for (int i = 0; i < n; ++i) to[i] = static_cast<char>(v >> (8 * i));
}

// The length, the JSON and spaces up to `wanted` bytes, or to a multiple of 64. With each tensor's checksum as
// `save_safetensors` writes it, so that `load_safetensors` compares it.
std::string header_text(const std::vector<TensorToWrite>& tensors, const std::vector<std::size_t>& order,
                        const std::vector<std::uint32_t>& crcs, std::size_t wanted) {
  Json header(json::object());
  std::uint64_t at = 0;
  for (std::size_t i : order) {
    const TensorToWrite& t = tensors[i];
    if (t.name == kMetadata) {
      throw ValueError(str("checkpoints::save: the leaf name \"", t.name, "\" is the format's own; choose another"));
    }
    const std::uint64_t n = nbytes_of(t);
    json& entry = header.value[t.name];
    entry["dtype"] = type_name(t.dtype);
    entry["shape"] = stored_shape(t);
    entry["data_offsets"] = std::vector<std::uint64_t>{at, at + n};
    header.value[kMetadata][str("crc32:", t.name)] = std::to_string(crcs[i]);
    at += n;
  }
  header.value[kMetadata]["format"] = "tessera";
  std::string text;
  try {
    text = header.value.dump();
  } catch (const json::exception&) {
    throw ValueError("checkpoints::save: a leaf's name is no UTF-8, which the format asks for");
  }
  const std::size_t total = wanted > 0 ? wanted : (8 + text.size() + 63) / 64 * 64;
  if (total > kMostHeader) {
    throw ValueError(str("checkpoints::save: the header of ", tensors.size(), " shards has ", total,
                         " bytes; the format allows ", kMostHeader));
  }
  text.append(total - 8 - text.size(), ' ');
  std::string out(8, '\0');
  put_le(out.data(), text.size(), 8);
  return out + text;
}

// Of dtype and shape, as `save_safetensors` begins a tensor's checksum.
std::uint32_t crc_of_type(const TensorToWrite& t) {
  return crc32_of(str(type_name(t.dtype), base::list_text(stored_shape(t))));
}

class FileWriter {
 public:
  FileWriter(FileSystem& fs, const std::string& path) : file_(fs.create(path)) {}
  void write(std::uint64_t offset, const void* data, std::size_t n) {
    if (n > 0) file_->write(offset, data, n);
  }
  void finish() {
    file_->sync();
    file_->close();
  }

 private:
  std::unique_ptr<FileSystem::File> file_;
};

}  // namespace

WrittenFile write_shard_file(FileSystem& fs, const std::string& folder, const std::string& name,
                             const std::string& checksums, const std::vector<TensorToWrite>& tensors,
                             const WroteBytes& wrote) {
  // Wide elements first, so that every tensor begins at a multiple of its elements' size.
  std::vector<std::size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return dtype_size(tensors[a].dtype) > dtype_size(tensors[b].dtype);
  });
  std::vector<std::uint32_t> crcs(tensors.size(), UINT32_MAX);  // the longest in decimal: what is written is no longer
  const std::size_t header_bytes = header_text(tensors, order, crcs, 0).size();

  FileWriter file(fs, str(folder, "/", name));
  WrittenFile out;
  out.offsets.resize(tensors.size());
  std::string sums;
  const auto append_block = crc32_combine_gen(static_cast<z_off_t>(kBlockBytes));
  std::uint64_t at = header_bytes;
  for (std::size_t i : order) {
    const std::uint64_t n = nbytes_of(tensors[i]);
    out.offsets[i] = at;
    std::uint32_t crc = crc_of_type(tensors[i]);
    const std::shared_ptr<const void> held = n > 0 ? tensors[i].data() : nullptr;
    const char* data = static_cast<const char*>(held.get());
    for (std::uint64_t done = 0; done < n;) {
      const std::uint64_t part = std::min(kAtOnce, n - done);
      for (std::uint64_t b = 0; b < part; b += kBlockBytes) {
        const std::uint64_t size = std::min(kBlockBytes, part - b);
        const std::uint32_t sum = crc32_of({data + done + b, size});
        sums.resize(sums.size() + 4);
        put_le(sums.data() + sums.size() - 4, sum, 4);
        crc = static_cast<std::uint32_t>(size == kBlockBytes ? crc32_combine_op(crc, sum, append_block)
                                                             : crc32_combine(crc, sum, static_cast<z_off_t>(size)));
      }
      file.write(at + done, data + done, part);
      done += part;
      if (wrote) wrote(i, static_cast<std::int64_t>(part));
    }
    crcs[i] = crc;
    at += n;
  }
  const std::string header = header_text(tensors, order, crcs, header_bytes);
  file.write(0, header.data(), header.size());
  file.finish();
  FileWriter sums_file(fs, str(folder, "/", checksums));
  sums_file.write(0, sums.data(), sums.size());
  sums_file.finish();
  out.file = {name, checksums, at, header_bytes, crc32_of(header)};
  out.data_bytes = static_cast<std::int64_t>(at - header_bytes);
  out.index_bytes = static_cast<std::int64_t>(header_bytes + sums.size());
  return out;
}

}  // namespace tessera::io
