// SPDX-License-Identifier: Apache-2.0
// The line of the user's source that calls an operation.
#pragma once

#include <cstdint>
#include <string>

namespace tessera {

/// A line of user code, and the label of the innermost `NamedScope` around it.
struct Loc {
  const char* file = nullptr;
  std::uint32_t line = 0;
  const std::string* scope = nullptr;  ///< interned, lives for the program; null outside any scope

  /// The caller's line when used as a default argument.
  static Loc current(const char* file = __builtin_FILE(), std::uint32_t line = __builtin_LINE());
};
/// "model.cc:42" or "model.cc:42 (attention)"; "unknown" for an empty location.
std::string to_string(const Loc& loc);

/// Labels the operations made while it lives: `NamedScope scope("attention");`. Nested labels join with '/'.
class NamedScope {
 public:
  explicit NamedScope(const std::string& label);
  ~NamedScope();
  NamedScope(const NamedScope&) = delete;
  NamedScope& operator=(const NamedScope&) = delete;

 private:
  const std::string* before_;
};

}  // namespace tessera
