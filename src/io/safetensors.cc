// SPDX-License-Identifier: Apache-2.0
// safetensors: 8 bytes of header length, a JSON header, then the tensors' bytes.
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/strings.h"
#include "io/file.h"
#include "tessera/io.h"

namespace tessera {

namespace {

constexpr std::pair<const char*, DType> kTypes[] = {
    {"BOOL", bool_},    {"I8", int8},     {"I16", int16},   {"I32", int32},     {"I64", int64},
    {"U8", uint8},      {"U16", uint16},  {"U32", uint32},  {"U64", uint64},    {"F16", float16},
    {"BF16", bfloat16}, {"F32", float32}, {"F64", float64}, {"C64", complex64}, {"C128", complex128}};

[[noreturn]] void bad_safetensors(const std::string& name, const std::string& what) {
  throw FormatError(str("load_safetensors: \"", name, "\" is no safetensors file: ", what), name);
}

}  // namespace

HostArrays parse_safetensors(const std::string& bytes, const std::string& name) {
  if (bytes.size() < 8) bad_safetensors(name, "it is shorter than 8 bytes");
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), 8);
  if (length > bytes.size() - 8)
    bad_safetensors(name, str("the header claims ", length, " bytes but ", bytes.size() - 8, " follow"));
  auto json =
      nlohmann::json::parse(bytes.begin() + 8, bytes.begin() + 8 + static_cast<std::ptrdiff_t>(length), nullptr, false);
  if (!json.is_object()) bad_safetensors(name, "the header is no JSON object");
  std::size_t base = 8 + length;
  std::size_t available = bytes.size() - base;
  HostArrays out;
  for (const auto& [key, entry] : json.items()) {
    if (key == "__metadata__") continue;
    auto get = [&](const char* field) -> const nlohmann::json& {
      if (!entry.is_object() || !entry.contains(field))
        bad_safetensors(name, str("tensor \"", key, "\" lacks ", field));
      return entry.at(field);
    };
    const auto& type = get("dtype");
    const auto& shape = get("shape");
    const auto& offsets = get("data_offsets");
    if (!type.is_string() || !shape.is_array() || !offsets.is_array() || offsets.size() != 2 ||
        !offsets[0].is_number_unsigned() || !offsets[1].is_number_unsigned()) {
      bad_safetensors(name, str("tensor \"", key, "\" has a field of the wrong kind"));
    }
    std::optional<DType> dtype;
    for (const auto& [text, t] : kTypes) {
      if (type.get<std::string>() == text) dtype = t;
    }
    if (!dtype)
      throw TypeError(str("load_safetensors: \"", name, "\": tensor \"", key, "\" has dtype ", type.get<std::string>(),
                          ", which Tessera lacks"));
    Shape dims;
    for (const auto& d : shape) {
      if (!d.is_number_unsigned() || d.get<std::uint64_t>() > INT64_MAX)
        bad_safetensors(name, str("tensor \"", key, "\" has an extent that is no count"));
      dims.push_back(d.get<std::int64_t>());
    }
    std::int64_t count = 0;
    try {
      count = size_of(dims);
    } catch (const ValueError&) {
      bad_safetensors(name, str("tensor \"", key, "\" has too many elements"));
    }
    auto begin = offsets[0].get<std::uint64_t>();
    auto end = offsets[1].get<std::uint64_t>();
    if (begin > end || end > available ||
        (end - begin) / static_cast<std::uint64_t>(dtype_size(*dtype)) != static_cast<std::uint64_t>(count) ||
        (end - begin) % static_cast<std::uint64_t>(dtype_size(*dtype)) != 0) {
      bad_safetensors(name, str("tensor \"", key, "\" of shape ", dims, " has data_offsets ", begin, ", ", end, " of ",
                                available, " bytes"));
    }
    HostArray value(*dtype, dims);
    if (count > 0) std::memcpy(value.data(), bytes.data() + base + begin, end - begin);
    out[key] = std::move(value);
  }
  return out;
}

HostArrays load_safetensors(const std::string& path) {
  return parse_safetensors(io::read_file("load_safetensors", path), path);
}

void save_safetensors(const std::string& path, const HostArrays& values) {
  nlohmann::json json = nlohmann::json::object();
  std::uint64_t at = 0;
  for (const auto& [key, value] : values) {
    const char* type = nullptr;
    for (const auto& [text, t] : kTypes) {
      if (t == value.dtype()) type = text;
    }
    auto size = static_cast<std::uint64_t>(value.nbytes());
    json[key] = {{"dtype", type}, {"shape", value.shape()}, {"data_offsets", {at, at + size}}};
    at += size;
  }
  std::string header = json.dump();
  header.append((8 - header.size() % 8) % 8, ' ');  // tensors begin aligned
  std::uint64_t length = header.size();
  std::string bytes(reinterpret_cast<const char*>(&length), 8);
  bytes += header;
  for (const auto& [key, value] : values) {
    if (value.nbytes() > 0)
      bytes.append(static_cast<const char*>(value.data()), static_cast<std::size_t>(value.nbytes()));
  }
  io::write_file("save_safetensors", path, bytes);
}

}  // namespace tessera
