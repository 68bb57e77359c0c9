// SPDX-License-Identifier: Apache-2.0
// Library functions that are written with other public functions stand for one line of the user's program.
#pragma once

#include "tessera/loc.h"

namespace tessera::ir {

/// While it lives, operations asked for on this thread are said to come from `loc`.
class CallSite {
 public:
  explicit CallSite(const Loc& loc);
  ~CallSite();
  CallSite(const CallSite&) = delete;
  CallSite& operator=(const CallSite&) = delete;

 private:
  const Loc loc_;
  const Loc* before_;
};

}  // namespace tessera::ir
