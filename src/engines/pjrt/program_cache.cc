// SPDX-License-Identifier: Apache-2.0
#include "engines/pjrt/program_cache.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <functional>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/hash.h"
#include "base/report/log.h"
#include "base/strings.h"
#include "tessera/error.h"

namespace tessera::pjrt_engine {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSuffix = ".pjrt";

// An entry: this, the key, the value.
struct Head {
  std::array<char, 8> magic = {'T', 'S', 'R', 'P', 'J', 'R', 'T', '1'};
  std::uint64_t key_size = 0, value_size = 0;
  std::uint64_t checksum = 0;  // of key and value
};

std::uint64_t checksum(std::string_view bytes) {
  return crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size());
}

std::optional<std::string> value_in(const std::string& entry, const std::string& key) {
  Head head;
  if (entry.size() < sizeof head) return std::nullopt;
  std::memcpy(&head, entry.data(), sizeof head);
  const std::string_view rest = std::string_view(entry).substr(sizeof head);
  if (head.magic != Head().magic || head.key_size != key.size() || rest.size() < key.size() ||
      head.value_size != rest.size() - key.size() || rest.substr(0, key.size()) != key ||
      head.checksum != checksum(rest)) {
    return std::nullopt;
  }
  return std::string(rest.substr(key.size()));
}

}  // namespace

ProgramCache::ProgramCache(std::string folder, std::int64_t most_bytes)
    : folder_(std::move(folder)), most_bytes_(most_bytes) {
  if (folder_.empty()) return;
  std::error_code error;
  fs::create_directories(folder_, error);
  if (error) throw ValueError(str("Client::pjrt: the cache's folder ", folder_, " cannot be made: ", error.message()));
}

std::string ProgramCache::path_of(const std::string& key) const {
  std::array<char, 40> name{};
  const std::size_t h = std::hash<std::string>()(key);
  std::snprintf(name.data(), name.size(), "%016zx%08llx", base::hash_mix(h, key.size()),
                static_cast<unsigned long long>(checksum(key)));
  return str(folder_, "/", name.data(), kSuffix);
}

std::optional<std::string> ProgramCache::find(const std::string& key) const {
  if (folder_.empty()) return std::nullopt;
  const std::string path = path_of(key);
  std::error_code none;
  if (!fs::exists(path, none)) return std::nullopt;
  try {
    auto value = value_in(base::read_file("Client::pjrt", path), key);
    if (value) {
      fs::last_write_time(path, fs::file_time_type::clock::now(), none);  // it was used
      base::log(LogLevel::Debug, "a compiled program was read from ", path);
    } else {
      base::log(LogLevel::Warning, path, " is no compiled program of this version, or damaged: it is compiled anew");
    }
    return value;
  } catch (const ValueError&) {  // another process has removed it
    return std::nullopt;
  }
}

void ProgramCache::store(const std::string& key, const std::string& value) const {
  if (folder_.empty() || static_cast<std::int64_t>(sizeof(Head) + key.size() + value.size()) > most_bytes_) return;
  Head head;
  head.key_size = key.size();
  head.value_size = value.size();
  std::string entry(sizeof head, '\0');
  entry += key;
  entry += value;
  head.checksum = checksum(std::string_view(entry).substr(sizeof head));
  std::memcpy(entry.data(), &head, sizeof head);
  try {
    base::write_file("Client::pjrt", path_of(key), entry);
    shrink();
  } catch (const ValueError& e) {
    base::log(LogLevel::Warning, "a compiled program is not kept for later runs: ", e.what());
  }
}

void ProgramCache::remove(const std::string& key) const {
  std::error_code none;
  if (!folder_.empty()) fs::remove(path_of(key), none);
}

void ProgramCache::shrink() const {
  struct Entry {
    fs::file_time_type used;
    std::int64_t bytes;
    fs::path path;
  };
  std::vector<Entry> entries;
  std::int64_t total = 0;
  std::error_code none;
  for (const auto& file : fs::directory_iterator(folder_, none)) {
    if (file.path().extension() != kSuffix) continue;
    const auto bytes = file.file_size(none);
    if (none) continue;  // another process has removed it
    entries.push_back({file.last_write_time(none), static_cast<std::int64_t>(bytes), file.path()});
    total += entries.back().bytes;
  }
  std::ranges::sort(entries, {}, &Entry::used);
  for (const auto& e : entries) {
    if (total <= most_bytes_) return;
    fs::remove(e.path, none);
    total -= e.bytes;
  }
}

}  // namespace tessera::pjrt_engine
