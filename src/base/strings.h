// SPDX-License-Identifier: Apache-2.0
// Text building for messages: str("x = ", 3, " of ", shape).
#pragma once

#include <concepts>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace tessera {

namespace base {

void append(std::string& out, std::string_view v);
void append(std::string& out, const char* v);
void append(std::string& out, char v);
void append(std::string& out, bool v);
void append(std::string& out, std::int64_t v);
void append(std::string& out, std::uint64_t v);
void append(std::string& out, double v);  // shortest text that reads back as the same double

/// "(8, 2)", "(8,)", "()": Python's tuple text of integers.
std::string tuple_text(std::span<const std::int64_t> values);
/// "[4, 2]".
std::string list_text(std::span<const std::int64_t> values);

template <class T>
void append_any(std::string& out, const T& v) {
  if constexpr (std::is_same_v<T, bool> || std::is_same_v<T, char> ||
                std::is_convertible_v<const T&, std::string_view>) {
    append(out, v);
  } else if constexpr (std::is_floating_point_v<T>) {
    append(out, static_cast<double>(v));
  } else if constexpr (std::is_integral_v<T>) {
    if constexpr (std::is_signed_v<T>) {
      append(out, static_cast<std::int64_t>(v));
    } else {
      append(out, static_cast<std::uint64_t>(v));
    }
  } else if constexpr (std::is_convertible_v<const T&, std::span<const std::int64_t>>) {
    out += tuple_text(v);  // shapes
  } else {
    out += to_string(v);  // found by argument-dependent look-up
  }
}

/// Concatenates anything that has a text: numbers, strings, and types with a `to_string` in their namespace.
template <class... Ts>
std::string str(const Ts&... parts) {
  std::string out;
  (append_any(out, parts), ...);
  return out;
}

/// "a, b, c".
template <class Range>
std::string join(const Range& range, std::string_view separator = ", ") {
  std::string out;
  bool first = true;
  for (const auto& v : range) {
    if (!first) out += separator;
    first = false;
    append_any(out, v);
  }
  return out;
}

}  // namespace base

using base::join;
using base::str;

}  // namespace tessera
