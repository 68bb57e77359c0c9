// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "hlo/parse.h"

namespace tessera::hlo {

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
