// SPDX-License-Identifier: Apache-2.0
#include "engines/pjrt/client_options.h"

#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <sstream>
#include <string_view>
#include <vector>

#include "base/strings.h"
#include "tessera/error.h"

namespace tessera::pjrt_engine {

namespace {

template <class T>
std::optional<T> number(std::string_view text) {
  T out{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(out) : std::nullopt;
}

// "0,1", and "0," of one.
std::optional<std::vector<std::int64_t>> numbers(const std::string& text) {
  if (text.find(',') == std::string::npos) return std::nullopt;
  std::vector<std::int64_t> out;
  std::istringstream list(text);
  for (std::string part; std::getline(list, part, ',');) {
    const auto n = number<std::int64_t>(part);
    if (!n) return std::nullopt;
    out.push_back(*n);
  }
  return out;
}

// Plugins refuse a value of another type than theirs, so that its form must tell.
PjrtOptions::Value value_of(const std::string& text) {
  if (text == "true" || text == "false") return text == "true";
  if (const auto n = number<std::int64_t>(text)) return *n;
  if (const auto x = number<float>(text)) return *x;
  if (auto list = numbers(text)) return std::move(*list);
  return text;
}

}  // namespace

std::map<std::string, PjrtOptions::Value> client_options(const PjrtOptions& options) {
  auto out = options.options;
  const char* set = std::getenv("TESSERA_PJRT_OPTIONS");
  std::istringstream entries(set == nullptr ? "" : set);
  for (std::string entry; std::getline(entries, entry, ';');) {
    if (entry.empty()) continue;
    const auto colon = entry.find(':');
    if (colon == std::string::npos || colon == 0 || colon + 1 == entry.size()) {
      throw ValueError(str("Client::pjrt: TESSERA_PJRT_OPTIONS = \"", set, "\" has the entry \"", entry,
                           "\"; expected name:value entries with semicolons between them, as in "
                           "\"preallocate:false;memory_fraction:0.5\""));
    }
    out.emplace(entry.substr(0, colon), value_of(entry.substr(colon + 1)));  // the program's own is kept
  }
  return out;
}

}  // namespace tessera::pjrt_engine
