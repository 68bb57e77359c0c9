// SPDX-License-Identifier: Apache-2.0
#include "tessera/loc.h"

#include <cstring>
#include <mutex>
#include <set>

#include "base/strings.h"
#include "ir/call_site.h"

namespace tessera {

namespace {
thread_local const std::string* current_scope = nullptr;
thread_local const Loc* call_site = nullptr;

const std::string* intern(const std::string& text) {
  static auto* mutex = new std::mutex;
  static auto* table = new std::set<std::string>;  // labels live for the program: locations point at them
  std::lock_guard lock(*mutex);
  return &*table->insert(text).first;
}
}  // namespace

Loc Loc::current(const char* file, std::uint32_t line) {
  return call_site ? *call_site : Loc{file, line, current_scope};
}

namespace ir {
CallSite::CallSite(const Loc& loc) : loc_(loc), before_(call_site) { call_site = &loc_; }
CallSite::~CallSite() { call_site = before_; }
}  // namespace ir

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
