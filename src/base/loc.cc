// SPDX-License-Identifier: Apache-2.0
#include "tessera/loc.h"

#include <array>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <set>
#include <string_view>

#include "base/strings.h"

namespace tessera {

namespace {
thread_local const std::string* current_scope = nullptr;
thread_local const CallSite* innermost_site = nullptr;

const std::string* intern(const std::string& text) {
  static auto* mutex = new std::mutex;
  static auto* table = new std::set<std::string>;  // labels live for the program: locations point at them
  std::lock_guard lock(*mutex);
  return &*table->insert(text).first;
}

// What the build calls the folder of the library's sources (-fmacro-prefix-map), wherever they lie.
constexpr std::string_view source_folder = "libtessera/";
static_assert(std::string_view(__FILE__).starts_with(source_folder), "built without the project's -fmacro-prefix-map");

// Sources and public headers of the library, and headers of the standard library that call a user's function object.
bool is_library(std::string_view file) {
  if (file.starts_with(source_folder)) return true;
  if (file.find("/include/c++/") != std::string_view::npos) return true;
  if (!file.ends_with(".h")) return false;
  auto slash = file.rfind('/');
  std::string_view folder = file.substr(0, slash == std::string_view::npos ? 0 : slash);
  return folder == "tessera" || folder.ends_with("/tessera");
}

// Names of files are literals, so their addresses are keys.
bool is_users(const char* file) {
  struct Known {
    const char* file = nullptr;
    bool of_user = false;
  };
  thread_local std::array<Known, 64> cache;
  if (file == nullptr) return false;
  auto& known = cache[(reinterpret_cast<std::uintptr_t>(file) >> 4) % cache.size()];
  if (known.file != file) known = {file, !is_library(file)};
  return known.of_user;
}
}  // namespace

CallSite Loc::current(const char* file, std::uint32_t line) { return {file, line}; }

CallSite::CallSite(const char* file, std::uint32_t line)
    : Loc{file, line, current_scope}, before_(innermost_site), of_user_(is_users(file)) {
  if (!of_user_ && before_ != nullptr) {
    static_cast<Loc&>(*this) = *before_;
    of_user_ = before_->of_user_;
  }
  innermost_site = this;
}
CallSite::CallSite(const Loc& loc) : Loc(loc), before_(innermost_site), of_user_(is_users(loc.file)) {
  if (!of_user_ && before_ != nullptr) {
    static_cast<Loc&>(*this) = *before_;
    of_user_ = before_->of_user_;
  }
  innermost_site = this;
}
CallSite::~CallSite() { innermost_site = before_; }

const Loc* CallSite::innermost() {
  return innermost_site != nullptr && innermost_site->of_user_ ? innermost_site : nullptr;
}

std::string to_string(const Loc& loc) {
  if (loc.file == nullptr) return "unknown";
  const char* name = std::strrchr(loc.file, '/');
  std::string out = str(name ? name + 1 : loc.file, ":", loc.line);
  if (loc.scope) out += str(" (", *loc.scope, ")");
  return out;
}

NamedScope::NamedScope(const std::string& label) : before_(current_scope) {
  current_scope = intern(before_ ? *before_ + "/" + label : label);
}
NamedScope::~NamedScope() { current_scope = before_; }

}  // namespace tessera
