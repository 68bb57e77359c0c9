// SPDX-License-Identifier: Apache-2.0
// Where in the user's own source operations come from, as `loc(…)` behind them says it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "hlo/text/ast.h"
#include "hlo/text/parse.h"

namespace tessera::hlo {

/// A line of a file, counted from 1.
struct SourceLine {
  std::string file;
  std::uint32_t line = 0;
};

/// The locations of a module, each looked into once.
class Locations {
 public:
  Locations(const Source& source, const AstModule& module) : source_(source), module_(module) {}

  /// The innermost line of the user's in what stands inside `loc(…)`: of a call, where the called function's body is;
  /// of JAX's own code, who called it. Null where no file is named, or the location cannot be read: a program does not
  /// fail for what is said about it.
  const SourceLine* find(Raw location);

 private:
  using Found = std::optional<SourceLine>;
  Found read(Parser& p);
  Found alias(Parser& p);
  Found quoted_location(Parser& p);
  Found call(Parser& p);
  Found fused(Parser& p);

  const Source& source_;
  const AstModule& module_;
  std::unordered_map<std::string_view, Found> known_;  // by text
  int depth_ = 0;
};

}  // namespace tessera::hlo
