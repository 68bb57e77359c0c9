// SPDX-License-Identifier: Apache-2.0
#include "base/check.h"

#include <cstring>

#include "base/strings.h"
#include "tessera/error.h"

namespace tessera::base {
void check_failed(const char* file, int line, const char* condition, const std::string& detail) {
  const char* name = std::strrchr(file, '/');
  throw InternalError(str("internal error in ", name ? name + 1 : file, ":", line, ": expected ", condition, "; ",
                          detail, ". Please report this with the program that caused it"));
}
}  // namespace tessera::base
