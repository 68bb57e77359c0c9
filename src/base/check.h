// SPDX-License-Identifier: Apache-2.0
// Broken invariants. A user's mistake throws one of the public errors; a failed TESSERA_CHECK is a bug of ours, and it
// too is an exception (`InternalError`), because no input may end the process.
#pragma once

#include <string>

namespace tessera::base {
[[noreturn]] void check_failed(const char* file, int line, const char* condition, const std::string& detail);
}  // namespace tessera::base

#define TESSERA_CHECK(condition, detail)                                       \
  do {                                                                         \
    if (!(condition)) [[unlikely]]                                             \
      ::tessera::base::check_failed(__FILE__, __LINE__, #condition, (detail)); \
  } while (false)
