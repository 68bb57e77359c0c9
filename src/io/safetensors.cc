// SPDX-License-Identifier: Apache-2.0
// safetensors: 8 bytes of header length, a JSON header, then the tensors' bytes, without holes between them.
#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/file.h"
#include "base/json.h"
#include "base/strings.h"
#include "io/input.h"
#include "io/stored_array.h"
#include "tessera/io.h"

namespace tessera {

namespace {

using base::Json;
using base::parse_json;
using nlohmann::json;

constexpr std::pair<const char*, DType> kTypes[] = {
    {"BOOL", bool_},    {"I8", int8},     {"I16", int16},   {"I32", int32},    {"I64", int64},
    {"U8", uint8},      {"U16", uint16},  {"U32", uint32},  {"U64", uint64},   {"F16", float16},
    {"BF16", bfloat16}, {"F32", float32}, {"F64", float64}, {"C64", complex64}};

// The reference implementation refuses longer headers.
constexpr std::uint64_t kMostHeader = 100'000'000;
// Metadata of this library: one checksum a tensor, of its dtype, shape and bytes. Other readers pass over it.
constexpr const char kMetadata[] = "__metadata__";
constexpr const char kChecksum[] = "crc32:";

constexpr int kDeepest = 8;  // a header nests three levels

const char* type_name(DType dtype) {
  for (const auto& [text, t] : kTypes) {
    if (t == dtype) return text;
  }
  return nullptr;
}

std::string checksum(const HostArray& value) {
  std::string what = str(type_name(value.dtype()), base::list_text(value.shape()));
  auto crc = crc32_z(0, reinterpret_cast<const Bytef*>(what.data()), what.size());
  crc = crc32_z(crc, static_cast<const Bytef*>(value.data()), static_cast<z_size_t>(value.nbytes()));
  return std::to_string(crc);
}

class SafetensorsReader final : public io::SafetensorsIndex {
 public:
  explicit SafetensorsReader(io::Input in) : in_(std::move(in)) {
    read_header();
    for (const auto& [key, entry] : header_.value.items()) {
      if (key == kMetadata) {
        read_metadata(entry);
      } else {
        tensors_.emplace(key, tensor(key, entry));
      }
    }
    check_cover();
  }

  HostArrays read_all() const {
    HostArrays out(in_.name());
    for (const auto& [key, t] : tensors_) out[key] = read(key, t);
    return out;
  }
  HostArrays read_named(const std::vector<std::string>& names) const {
    HostArrays out(in_.name());
    for (const auto& name : names) out[name] = read(name, tensor_named(name));
    return out;
  }
  io::StoredArray find(const std::string& name) const override { return stored(name, tensor_named(name)); }

 private:
  struct Tensor {
    std::string type;
    Shape shape;
    std::uint64_t begin = 0, end = 0;
  };

  [[noreturn]] void bad(const std::string& what) const {
    throw FormatError(str("load_safetensors: \"", in_.name(), "\" is no safetensors file: ", what), in_.name());
  }
  const Tensor& tensor_named(const std::string& name) const {
    auto it = tensors_.find(name);
    if (it != tensors_.end()) return it->second;
    std::vector<std::string> names;
    for (const auto& [key, t] : tensors_) names.push_back(key);
    io::fail_missing("load_safetensors", in_.name(), name, names);
  }

  void read_header() {
    if (in_.size() < 8) bad("it is shorter than 8 bytes");
    unsigned char head[8];
    in_.read(0, head, 8);
    std::uint64_t length = 0;
    for (int i = 7; i >= 0; --i) length = length << 8 | head[i];
    std::uint64_t follow = in_.size() - 8;
    if (length > follow) bad(str("the header claims ", length, " bytes but ", follow, " follow"));
    if (length > kMostHeader) bad(str("the header claims ", length, " bytes; expected at most ", kMostHeader));
    std::string text(length, '\0');
    in_.read(8, text.data(), text.size());
    if (!text.starts_with('{')) bad("the header does not begin with '{'");
    std::optional<std::string> twice;
    header_ = parse_json(text, kDeepest, twice);
    if (!header_.value.is_object()) bad("the header is no JSON object");
    if (twice) bad(str("the header has the key \"", *twice, "\" twice"));
    base_ = 8 + length;
  }

  void read_metadata(const json& entry) {
    if (!entry.is_object()) bad("its metadata is no JSON object");
    for (const auto& [key, value] : entry.items()) {
      if (!value.is_string()) bad(str("its metadata \"", key, "\" is no string"));
      if (key.starts_with(kChecksum)) checksums_[key.substr(std::strlen(kChecksum))] = value.get<std::string>();
    }
  }

  Tensor tensor(const std::string& key, const json& entry) const {
    auto get = [&](const char* field) -> const json& {
      if (!entry.is_object() || !entry.contains(field)) bad(str("tensor \"", key, "\" lacks ", field));
      return entry.at(field);
    };
    const auto& type = get("dtype");
    const auto& shape = get("shape");
    const auto& offsets = get("data_offsets");
    if (!type.is_string() || !shape.is_array() || !offsets.is_array() || offsets.size() != 2 ||
        !offsets[0].is_number_unsigned() || !offsets[1].is_number_unsigned()) {
      bad(str("tensor \"", key, "\" has a field of the wrong kind"));
    }
    if (entry.size() != 3) bad(str("tensor \"", key, "\" has fields beyond dtype, shape and data_offsets"));
    Tensor t{type.get<std::string>(), {}, offsets[0].get<std::uint64_t>(), offsets[1].get<std::uint64_t>()};
    for (const auto& d : shape) {
      if (!d.is_number_unsigned() || d.get<std::uint64_t>() > INT64_MAX)
        bad(str("tensor \"", key, "\" has an extent that is no count"));
      t.shape.push_back(d.get<std::int64_t>());
    }
    std::uint64_t available = in_.size() - base_;
    if (t.begin > t.end || t.end > available) {
      bad(str("tensor \"", key, "\" has data_offsets ", t.begin, ", ", t.end, " of ", available, " bytes"));
    }
    return t;
  }

  // The format has every byte belong to one tensor.
  void check_cover() const {
    std::vector<std::pair<std::uint64_t, std::uint64_t>> parts;
    for (const auto& [key, t] : tensors_) parts.emplace_back(t.begin, t.end);
    std::sort(parts.begin(), parts.end());
    std::uint64_t at = 0;
    for (const auto& [begin, end] : parts) {
      if (begin != at)
        bad(str("its tensors ", begin < at ? "overlap" : "leave a hole", " at byte ", begin, " of the data"));
      at = end;
    }
    if (at != in_.size() - base_)
      bad(str("its tensors have ", at, " bytes; ", in_.size() - base_, " follow the header"));
  }

  io::StoredArray stored(const std::string& key, const Tensor& t) const {
    std::optional<DType> dtype;
    for (const auto& [text, d] : kTypes) {
      if (t.type == text) dtype = d;
    }
    if (!dtype) {
      throw TypeError(str("load_safetensors: \"", in_.name(), "\": tensor \"", key, "\" has dtype ", t.type,
                          ", which Tessera lacks"));
    }
    std::int64_t count = 0;
    try {
      count = size_of(t.shape);
    } catch (const ValueError&) {
      bad(str("tensor \"", key, "\" has too many elements"));
    }
    std::uint64_t bytes = t.end - t.begin;
    auto item = static_cast<std::uint64_t>(dtype_size(*dtype));
    if (bytes / item != static_cast<std::uint64_t>(count) || bytes % item != 0) {
      bad(str("tensor \"", key, "\" of dtype ", t.type, " and shape ", t.shape, " has data_offsets ", t.begin, ", ",
              t.end));
    }
    return {*dtype, t.shape, false, false, base_ + t.begin};
  }

  HostArray read(const std::string& key, const Tensor& t) const {
    const io::StoredArray s = stored(key, t);
    HostArray value(s.dtype, s.shape);
    in_.read(s.offset, value.data(), static_cast<std::size_t>(value.nbytes()));
    if (!checksums_.empty()) {
      auto it = checksums_.find(key);
      if (it == checksums_.end()) bad(str("tensor \"", key, "\" has no checksum, others have"));
      if (it->second != checksum(value)) bad(str("tensor \"", key, "\" is damaged: its checksum differs"));
    }
    return value;
  }

  io::Input in_;
  Json header_;
  std::uint64_t base_ = 0;
  std::map<std::string, Tensor> tensors_;
  std::map<std::string, std::string> checksums_;
};

void check_storable(const std::string& key, const HostArray& value) {
  io::check_defined("save_safetensors", str("values[\"", key, "\"]"), value);
  if (type_name(value.dtype()) == nullptr) {
    throw TypeError(str("save_safetensors: values[\"", key, "\"] has dtype ", dtype_name(value.dtype()),
                        ", which the format lacks; save its real and imaginary parts as float64, or use save_npz"));
  }
  if (key == kMetadata) {
    throw ValueError(str("save_safetensors: the name \"", key, "\" is the format's own; choose another"));
  }
}

std::string header_of(const HostArrays& values) {
  Json header(json::object());
  std::uint64_t at = 0;
  for (const auto& [key, value] : values) {
    check_storable(key, value);
    auto size = static_cast<std::uint64_t>(value.nbytes());
    // Member by member: the constructor from lists leaks what it has where memory runs out.
    json& entry = header.value[key];
    entry["dtype"] = type_name(value.dtype());
    entry["shape"] = value.shape();
    entry["data_offsets"] = std::vector<std::uint64_t>{at, at + size};
    header.value[kMetadata][kChecksum + key] = checksum(value);
    at += size;
  }
  std::string text;
  try {
    text = header.value.dump();
  } catch (const json::exception&) {
    throw ValueError("save_safetensors: a name is no UTF-8, which the format asks for");
  }
  text.append((8 - text.size() % 8) % 8, ' ');  // tensors begin aligned
  if (text.size() > kMostHeader) {
    throw ValueError(str("save_safetensors: the header has ", text.size(), " bytes; the format allows ", kMostHeader));
  }
  return text;
}

}  // namespace

std::unique_ptr<io::SafetensorsIndex> io::read_safetensors_index(Input in) {
  return std::make_unique<SafetensorsReader>(std::move(in));
}

HostArrays parse_safetensors(const std::string& bytes, const std::string& name, const Loc&) {
  return SafetensorsReader(io::Input(bytes, name)).read_all();
}
HostArrays load_safetensors(const std::string& path, const Loc&) {
  return SafetensorsReader(io::Input::open("load_safetensors", path)).read_all();
}
HostArrays load_safetensors(const std::string& path, const std::vector<std::string>& names, const Loc&) {
  return SafetensorsReader(io::Input::open("load_safetensors", path)).read_named(names);
}

void save_safetensors(const std::string& path, const HostArrays& values, const Loc&) {
  std::string header = header_of(values);
  base::write_file("save_safetensors", path, [&](base::OutputFile& out) {
    unsigned char length[8];
    for (int i = 0; i < 8; ++i) length[i] = static_cast<unsigned char>(header.size() >> (8 * i));
    out.write(0, length, 8);
    out.write(8, header.data(), header.size());
    std::uint64_t at = 8 + header.size();
    for (const auto& [key, value] : values) {
      out.write(at, value.data(), static_cast<std::size_t>(value.nbytes()));
      at += static_cast<std::uint64_t>(value.nbytes());
    }
  });
}

}  // namespace tessera
