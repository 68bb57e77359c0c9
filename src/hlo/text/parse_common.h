// SPDX-License-Identifier: Apache-2.0
// What the files of the parser share.
#pragma once

#include "hlo/text/parse.h"

namespace tessera::hlo {

inline bool is_digit(char c) { return c >= '0' && c <= '9'; }
inline bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
inline bool is_word(char c) { return is_letter(c) || is_digit(c) || c == '.' || c == '$'; }

inline AstAttr empty_dict() {
  AstAttr a;
  a.kind = AstAttr::Kind::Dict;
  return a;
}

/// Counts how deep the parser has gone, and refuses to go deeper than any honest text.
class Deeper {
 public:
  explicit Deeper(Parser& p) : parser_(p) {
    if (++parser_.depth_ > kMaxDepth) {
      --parser_.depth_;
      parser_.fail("nested too deeply");
    }
  }
  ~Deeper() { --parser_.depth_; }
  Deeper(const Deeper&) = delete;
  Deeper& operator=(const Deeper&) = delete;

 private:
  Parser& parser_;
};

}  // namespace tessera::hlo
