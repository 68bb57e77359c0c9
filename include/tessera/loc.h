// SPDX-License-Identifier: Apache-2.0
// Where in the user's source an operation was asked for. Graphs keep that line, and every error names it.
#pragma once

#include <cstdint>
#include <string>

namespace tessera {

class CallSite;

/// A line of user code, and the label of the innermost `NamedScope` around it.
struct Loc {
  const char* file = nullptr;
  std::uint32_t line = 0;
  const std::string* scope = nullptr;  ///< interned, lives for the program; null outside any scope

  /// The caller's line when used as a default argument. A line of the library's own or of the standard library's code
  /// stands for the user's line that led there.
  static CallSite current(const char* file = __builtin_FILE(), std::uint32_t line = __builtin_LINE());
};
/// "model.cc:42" or "model.cc:42 (attention)"; "unknown" for an empty location.
std::string to_string(const Loc& loc);

/// A location in force: what throws an `Error` on this thread while it lives was called from there. The default
/// argument `const Loc& loc = Loc::current()` makes one that lives to the end of the caller's full expression, so a
/// public function needs nothing more than that argument for its errors to name the caller.
class CallSite : public Loc {
 public:
  CallSite(const char* file, std::uint32_t line);
  explicit CallSite(const Loc& loc);
  ~CallSite();
  CallSite(const CallSite&) = delete;
  CallSite& operator=(const CallSite&) = delete;

  /// The innermost one that is a line of the user's; null where there is none.
  static const Loc* innermost();

 private:
  const CallSite* before_;
  bool of_user_;
};

/// The caller's line without a `CallSite`, for members that are called too often for one.
struct CallLine {
  const char* file;
  std::uint32_t line;
  static constexpr CallLine current(const char* file = __builtin_FILE(), std::uint32_t line = __builtin_LINE()) {
    return {file, line};
  }
};

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
