// SPDX-License-Identifier: Apache-2.0
// What the library tells beside results and errors. Silent by default: a program takes the lines by a sink, or whoever
// starts it has them written to standard error by TESSERA_LOG=info in the environment.
//
//   ts::set_log_sink([](ts::LogLevel level, std::string_view line) { my_logger.write(ts::to_string(level), line); });
#pragma once

#include <functional>
#include <string_view>

namespace tessera {

/// How much a line matters.
enum class LogLevel : unsigned char {
  Debug,    ///< every compiled program, what was found in a cache, what was copied and could have been shared
  Info,     ///< compilations over a second, checkpoints written and restored, plugins and transports loaded
  Warning,  ///< another way was taken than the one asked for, or something was passed over
  Error,    ///< a save in the background has failed, another process has a fault
  Off,      ///< no line has it: from here on nothing is logged
};
/// "debug", "info", "warning", "error", "off": the values of TESSERA_LOG.
std::string_view to_string(LogLevel level);

/// Takes one line, without a line break at its end. It is called on the thread where the thing happens, also while that
/// holds locks of the library, so that it must not call Tessera; one call at a time. What it throws is dropped. The
/// text lasts as long as the call.
using LogSink = std::function<void(LogLevel level, std::string_view line)>;

/// Gives lines of `from` and above to `sink`, in place of what the environment sets; null: to nobody. When it returns,
/// the sink before this one is not running any more. Throws `StateError` when a sink calls it.
void set_log_sink(LogSink sink, LogLevel from = LogLevel::Info);
/// The lowest level that is logged now: that of `set_log_sink`, else of TESSERA_LOG in the environment; `Off` where
/// there is neither.
LogLevel log_level();

}  // namespace tessera
