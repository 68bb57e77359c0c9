// SPDX-License-Identifier: Apache-2.0
// Lines for `tessera/logging.h`. A line that nobody takes costs one comparison.
//
//   base::log(LogLevel::Info, "checkpoint ", dir, ": ", bytes, " bytes");
#pragma once

#include <chrono>
#include <string>

#include "base/strings.h"
#include "tessera/logging.h"

namespace tessera::base {

/// Hands a line to whoever takes lines; never throws.
void write_log(LogLevel level, const std::string& line) noexcept;

/// How long ago that was: "3.214 s".
std::string seconds_since(std::chrono::steady_clock::time_point began);

/// The parts as one line, which is only made where somebody takes it.
template <class... Parts>
void log(LogLevel level, const Parts&... parts) {
  if (level >= log_level()) write_log(level, str(parts...));
}

}  // namespace tessera::base
