// SPDX-License-Identifier: Apache-2.0
// Writing and reading checkpoint.json.
#include "io/checkpoint/index.h"

#include <zlib.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/json.h"
#include "base/strings.h"
#include "tessera/error.h"

namespace tessera::io {

using base::Json;
using base::parse_json;
using nlohmann::json;

namespace {

constexpr const char kFormat[] = "tessera-checkpoint";
constexpr std::int64_t kVersion = 1;
constexpr std::size_t kMostText = std::size_t{1} << 30;
constexpr std::size_t kMostRank = 64;
constexpr int kDeepest = 8;  // an index nests six levels

std::string hex(std::uint32_t v) {
  static const char digits[] = "0123456789abcdef";
  std::string out(8, '0');
  for (std::size_t i = 8; i-- > 0; v >>= 4) out[i] = digits[v & 15U];
  return out;
}
// The last member: what the text has before it is what it is the checksum of.
std::string ending(std::string_view before) { return str(",\"~crc32\":\"", hex(crc32_of(before)), "\"}\n"); }

std::string index_dump(const Json& j) {
  try {
    return j.value.dump();
  } catch (const json::exception&) {
    throw ValueError("checkpoints::save: a leaf's name or the metadata is no UTF-8, which the format asks for");
  }
}

void write_shard(const StoredShard& s, json& j) {
  j["file"] = s.file;
  j["tensor"] = s.tensor;
  j["start"] = s.start;
  j["shape"] = s.shape;
  j["offset"] = s.offset;
}

class IndexReader {
 public:
  IndexReader(const std::string& who, const std::string& file) : who_(who), file_(file) {}

  CheckpointIndex read(std::string_view text) {
    check_ending(text);
    std::optional<std::string> twice;
    const Json parsed = parse_json(text, kDeepest, twice);
    const json& j = parsed.value;
    if (!j.is_object()) bad("it is no JSON object");
    if (twice) bad(str("it has the key \"", *twice, "\" twice"));
    if (string(j, "it", "format") != kFormat) bad(str("its format is not \"", kFormat, "\""));
    if (count(j, "it", "version") != static_cast<std::uint64_t>(kVersion)) {
      bad(str("its version is ", count(j, "it", "version"), "; this library reads version ", kVersion));
    }
    if (count(j, "it", "block_bytes") != kBlockBytes) bad(str("its block_bytes is not ", kBlockBytes));
    CheckpointIndex out;
    out.step = extent(member(j, "it", "step"), "step");
    const json& weights = member(j, "it", "weights_index");
    out.weights_index_bytes = count(weights, "weights_index", "nbytes");
    out.weights_index_crc = crc(weights, "weights_index", "crc32");
    for (const json& f : list(j, "it", "files")) out.files.push_back(read_file(f, out.files.size()));
    for (const json& l : list(j, "it", "leaves")) out.leaves.push_back(read_leaf(l, out.leaves.size(), out.files));
    const json& metadata = member(j, "it", "metadata");
    if (!metadata.is_object()) bad("its metadata is no object");
    for (const auto& [key, value] : metadata.items()) {
      if (!value.is_string()) bad(str("its metadata \"", key, "\" is no string"));
      out.metadata[key] = value.get<std::string>();
    }
    check_names(out);
    cover_files(out);
    return out;
  }

 private:
  [[noreturn]] void bad(const std::string& what) const {
    throw FormatError(str(who_, ": \"", file_, "\" is no index of a checkpoint: ", what), file_);
  }

  void check_ending(std::string_view text) const {
    if (text.size() > kMostText) bad(str("it has ", text.size(), " bytes; expected at most ", kMostText));
    const std::size_t n = ending({}).size();
    if (text.size() < n) bad(str("it has ", text.size(), " bytes"));
    const std::string_view before = text.substr(0, text.size() - n);
    if (text.substr(before.size()) != ending(before)) bad("it is truncated or damaged: its checksum differs");
  }

  const json& member(const json& j, const std::string& what, const char* key) const {
    if (!j.is_object() || !j.contains(key)) bad(str(what, " lacks \"", key, "\""));
    return j.at(key);
  }
  const json& list(const json& j, const std::string& what, const char* key) const {
    const json& v = member(j, what, key);
    if (!v.is_array()) bad(str("\"", key, "\" of ", what, " is no list"));
    return v;
  }
  std::string string(const json& j, const std::string& what, const char* key) const {
    const json& v = member(j, what, key);
    if (!v.is_string()) bad(str("\"", key, "\" of ", what, " is no string"));
    return v.get<std::string>();
  }
  std::uint64_t count(const json& j, const std::string& what, const char* key) const {
    return static_cast<std::uint64_t>(extent(member(j, what, key), str("\"", key, "\" of ", what)));
  }
  std::uint32_t crc(const json& j, const std::string& what, const char* key) const {
    const std::uint64_t v = count(j, what, key);
    if (v > UINT32_MAX) bad(str("\"", key, "\" of ", what, " has more than 32 bits"));
    return static_cast<std::uint32_t>(v);
  }
  std::int64_t extent(const json& v, const std::string& what) const {
    if (!v.is_number_unsigned() || v.get<std::uint64_t>() > INT64_MAX) bad(str(what, " is no count"));
    return v.get<std::int64_t>();
  }
  Shape extents(const json& j, const std::string& what, const char* key) const {
    Shape out;
    const json& v = list(j, what, key);
    if (v.size() > kMostRank) bad(str("\"", key, "\" of ", what, " has more than ", kMostRank, " dimensions"));
    for (const json& e : v) out.push_back(extent(e, str("an extent in \"", key, "\" of ", what)));
    return out;
  }

  // Names lead to files of the checkpoint's own folder, nowhere else.
  std::string file_name(const json& j, const std::string& what, const char* key) const {
    std::string name = string(j, what, key);
    const bool plain = !name.empty() && name.size() < 200 && name.front() != '.' &&
                       name.find_first_of(std::string_view("/\\\0", 3)) == std::string::npos;
    if (!plain) bad(str("\"", key, "\" of ", what, " is no name of a file"));
    return name;
  }
  StoredFile read_file(const json& j, std::size_t i) const {
    const std::string what = str("files[", i, "]");
    StoredFile f{file_name(j, what, "name"), file_name(j, what, "checksums"), count(j, what, "nbytes"),
                 count(j, what, "header_bytes"), crc(j, what, "header_crc32")};
    if (f.header_bytes < 8 || f.header_bytes > f.nbytes) {
      bad(str("\"", f.name, "\" has ", f.nbytes, " bytes, ", f.header_bytes, " of them before its elements"));
    }
    return f;
  }

  DType dtype(const json& j, const std::string& what, const char* key) const {
    const std::string name = string(j, what, key);
    for (int i = 0; i < kNumDTypes; ++i) {
      if (dtype_name(static_cast<DType>(i)) == name) return static_cast<DType>(i);
    }
    bad(str(what, " has the dtype \"", name, "\", which Tessera lacks"));
  }
  // Elements of a shape, as long as their bytes can be counted.
  void check_size(const Shape& shape, DType type, const std::string& what) const {
    try {
      if (size_of(shape) <= INT64_MAX / dtype_size(type)) return;
    } catch (const ValueError&) {
      bad(str(what, " has too many elements"));
    }
    bad(str(what, " has too many bytes"));
  }

  StoredLeaf read_leaf(const json& j, std::size_t i, const std::vector<StoredFile>& files) const {
    StoredLeaf leaf;
    leaf.name = string(j, str("leaves[", i, "]"), "name");
    const std::string what = str("leaf \"", leaf.name, "\"");
    leaf.dtype = dtype(j, what, "dtype");
    leaf.stored = dtype(j, what, "stored");
    const json& weak = member(j, what, "weak");
    if (!weak.is_boolean()) bad(str("\"weak\" of ", what, " is no bool"));
    leaf.weak = weak.get<bool>();
    const bool digits = leaf.weak && ((leaf.dtype == DType::F32 && leaf.stored == DType::F64) ||
                                      (leaf.dtype == DType::C64 && leaf.stored == DType::C128));
    if (leaf.stored != leaf.dtype && !digits) {
      bad(str(what, " has dtype ", dtype_name(leaf.dtype), " but elements of ", dtype_name(leaf.stored)));
    }
    leaf.shape = extents(j, what, "shape");
    check_size(leaf.shape, leaf.stored, what);
    std::vector<BlockAt> blocks;
    for (const json& s : list(j, what, "shards")) leaf.shards.push_back(read_shard(s, leaf, what, files));
    for (const StoredShard& s : leaf.shards) blocks.push_back({&s.start, &s.shape});
    const std::string fault = cover_fault(leaf.shape, blocks);
    if (!fault.empty()) bad(str(what, ": ", fault));
    return leaf;
  }
  StoredShard read_shard(const json& j, const StoredLeaf& leaf, const std::string& of,
                         const std::vector<StoredFile>& files) const {
    StoredShard s;
    s.tensor = string(j, str("a shard of ", of), "tensor");
    const std::string what = str("shard \"", s.tensor, "\" of ", of);
    const std::uint64_t file = count(j, what, "file");
    if (file >= files.size()) bad(str(what, " is in file ", file, " of ", files.size()));
    s.file = static_cast<std::size_t>(file);
    s.start = extents(j, what, "start");
    s.shape = extents(j, what, "shape");
    s.offset = count(j, what, "offset");
    bool inside = s.start.size() == leaf.shape.size() && s.shape.size() == leaf.shape.size();
    for (std::size_t d = 0; inside && d < s.start.size(); ++d) {
      inside = s.start[d] <= leaf.shape[d] && s.shape[d] <= leaf.shape[d] - s.start[d];
    }
    if (!inside) bad(str(what, " of start ", s.start, ", shape ", s.shape, " is not inside shape ", leaf.shape));
    check_size(s.shape, leaf.stored, what);  // an empty leaf may have large extents
    const StoredFile& f = files[s.file];
    if (s.offset < f.header_bytes || s.offset > f.nbytes || leaf.shard_bytes(s) > f.nbytes - s.offset) {
      bad(str(what, " is at byte ", s.offset, " of \"", f.name, "\", which has ", f.nbytes, " bytes"));
    }
    return s;
  }

  void check_names(const CheckpointIndex& index) const {
    std::set<std::string> files{kIndexName, kWeightsIndexName};
    for (const StoredFile& f : index.files) {
      for (const std::string& name : {f.name, f.checksums}) {
        if (!files.insert(name).second) bad(str("it has the file \"", name, "\" twice"));
      }
    }
    std::set<std::string> leaves;
    for (const StoredLeaf& l : index.leaves) {
      if (!leaves.insert(l.name).second) bad(str("it has the leaf \"", l.name, "\" twice"));
    }
  }

  // The shards of a file follow each other without holes, which also gives the place of their checksums.
  void cover_files(CheckpointIndex& index) const {
    std::vector<std::vector<std::pair<const StoredLeaf*, StoredShard*>>> of_file(index.files.size());
    for (StoredLeaf& leaf : index.leaves) {
      for (StoredShard& s : leaf.shards) of_file[s.file].emplace_back(&leaf, &s);
    }
    for (std::size_t i = 0; i < of_file.size(); ++i) {
      // Empty shards first: they have the offset of what follows them.
      std::sort(of_file[i].begin(), of_file[i].end(), [](const auto& a, const auto& b) {
        return std::pair(a.second->offset, a.first->shard_bytes(*a.second)) <
               std::pair(b.second->offset, b.first->shard_bytes(*b.second));
      });
      std::uint64_t at = index.files[i].header_bytes;
      std::uint64_t block = 0;
      for (const auto& [leaf, shard] : of_file[i]) {
        if (shard->offset != at) {
          bad(str("shard \"", shard->tensor, "\" of leaf \"", leaf->name, "\" is at byte ", shard->offset, " of \"",
                  index.files[i].name, "\"; expected ", at));
        }
        shard->first_block = block;
        at += leaf->shard_bytes(*shard);
        block += num_blocks(leaf->shard_bytes(*shard));
      }
      if (at != index.files[i].nbytes) {
        bad(str("the shards in \"", index.files[i].name, "\" end at byte ", at, " of ", index.files[i].nbytes));
      }
    }
  }

  const std::string& who_;
  const std::string& file_;
};

}  // namespace

std::uint32_t crc32_of(std::string_view bytes) {
  return static_cast<std::uint32_t>(crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

std::string index_text(const CheckpointIndex& index) {
  Json out(json::object());
  json& j = out.value;
  j["format"] = kFormat;
  j["version"] = kVersion;
  j["block_bytes"] = kBlockBytes;
  j["step"] = index.step;
  j["weights_index"]["nbytes"] = index.weights_index_bytes;
  j["weights_index"]["crc32"] = index.weights_index_crc;
  j["metadata"] = json::object();
  for (const auto& [key, value] : index.metadata) j["metadata"][key] = value;
  j["files"] = json::array();
  for (const StoredFile& f : index.files) {
    json& entry = j["files"].emplace_back(json::object());
    entry["name"] = f.name;
    entry["checksums"] = f.checksums;
    entry["nbytes"] = f.nbytes;
    entry["header_bytes"] = f.header_bytes;
    entry["header_crc32"] = f.header_crc;
  }
  j["leaves"] = json::array();
  for (const StoredLeaf& leaf : index.leaves) {
    json& entry = j["leaves"].emplace_back(json::object());
    entry["name"] = leaf.name;
    entry["dtype"] = std::string(dtype_name(leaf.dtype));
    entry["stored"] = std::string(dtype_name(leaf.stored));
    entry["weak"] = leaf.weak;
    entry["shape"] = leaf.shape;
    entry["shards"] = json::array();
    for (const StoredShard& s : leaf.shards) write_shard(s, entry["shards"].emplace_back(json::object()));
  }
  std::string text = index_dump(out);
  text.pop_back();  // the brace, which `ending` sets
  text += ending(text);
  return text;
}

CheckpointIndex parse_index(const std::string& who, std::string_view text, const std::string& file) {
  return IndexReader(who, file).read(text);
}

std::string weights_index_text(const CheckpointIndex& index) {
  Json out(json::object());
  std::uint64_t total = 0;
  json& map = out.value["weight_map"] = json::object();
  for (const StoredLeaf& leaf : index.leaves) {
    for (const StoredShard& s : leaf.shards) {
      map[s.tensor] = index.files[s.file].name;
      total += leaf.shard_bytes(s);
    }
  }
  out.value["metadata"]["total_size"] = total;
  return index_dump(out) + "\n";
}

}  // namespace tessera::io
