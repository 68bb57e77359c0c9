// SPDX-License-Identifier: Apache-2.0
#include "base/strings.h"

#include <charconv>
#include <cmath>

namespace tessera::base {

namespace {
template <class T>
void append_number(std::string& out, T v) {
  char buffer[64];
  auto r = std::to_chars(buffer, buffer + sizeof buffer, v);
  out.append(buffer, r.ptr);
}
}  // namespace

void append(std::string& out, std::string_view v) { out += v; }
void append(std::string& out, const char* v) { out += v; }
void append(std::string& out, char v) { out += v; }
void append(std::string& out, bool v) { out += v ? "true" : "false"; }
void append(std::string& out, std::int64_t v) { append_number(out, v); }
void append(std::string& out, std::uint64_t v) { append_number(out, v); }
void append(std::string& out, double v) {
  if (std::isnan(v)) {
    out += "nan";
  } else if (std::isinf(v)) {
    out += v < 0 ? "-inf" : "inf";
  } else {
    append_number(out, v);
  }
}

std::string tuple_text(std::span<const std::int64_t> values) {
  return values.size() == 1 ? str("(", values[0], ",)") : str("(", join(values), ")");
}
std::string list_text(std::span<const std::int64_t> values) { return str("[", join(values), "]"); }

}  // namespace tessera::base
