// SPDX-License-Identifier: Apache-2.0
#include "base/report/log.h"

#include <time.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <optional>
#include <utility>

#include "base/immortal.h"
#include "base/report/progress.h"
#include "tessera/error.h"

namespace tessera {

namespace {

constexpr std::array<std::string_view, 5> kNames = {"debug", "info", "warning", "error", "off"};

std::optional<LogLevel> level_named(std::string_view name) {
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == name) return static_cast<LogLevel>(i);
  }
  return std::nullopt;
}

// "tessera 12:59:19.042 info: …", in local time.
void to_standard_error(LogLevel level, std::string_view line) {
  const auto now = std::chrono::system_clock::now();
  const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count() % 1000;
  std::tm local{};
  ::localtime_r(&seconds, &local);
  std::array<char, 16> clock{};
  std::snprintf(clock.data(), clock.size(), "%02d:%02d:%02d.%03d", local.tm_hour, local.tm_min, local.tm_sec,
                static_cast<int>(ms));
  base::write_error_line(str("tessera ", clock.data(), " ", to_string(level), ": ", line));
}

struct Logger {
  std::mutex mutex;  // held while the sink runs
  LogSink sink;
  std::atomic<LogLevel> from{LogLevel::Off};

  Logger() {
    const char* text = std::getenv("TESSERA_LOG");
    if (text == nullptr || *text == '\0') return;
    const auto level = level_named(text);
    if (!level) {
      base::write_error_line(
          str("tessera: TESSERA_LOG = \"", text, "\"; expected debug, info, warning, error or off; nothing is logged"));
      return;
    }
    sink = to_standard_error;
    from = *level;
  }
};
Logger& logger() {
  static base::Immortal<Logger> made;  // threads may log while the program ends
  return made.value;
}

thread_local bool in_sink = false;

}  // namespace

std::string_view to_string(LogLevel level) { return kNames[static_cast<std::size_t>(level)]; }

void set_log_sink(LogSink sink, LogLevel from) {
  if (in_sink) throw StateError("set_log_sink: called by the sink itself; expected a call outside it");
  Logger& l = logger();
  const std::lock_guard lock(l.mutex);
  l.from = sink ? from : LogLevel::Off;
  l.sink = std::move(sink);
}

LogLevel log_level() { return logger().from.load(std::memory_order_relaxed); }

std::string base::seconds_since(std::chrono::steady_clock::time_point began) {
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - began);
  return str(static_cast<double>(ms.count()) / 1000, " s");
}

void base::write_log(LogLevel level, const std::string& line) noexcept {
  if (in_sink) return;
  try {
    Logger& l = logger();
    const std::lock_guard lock(l.mutex);
    if (level < l.from || !l.sink) return;
    in_sink = true;
    try {
      l.sink(level, line);
    } catch (...) {  // NOLINT(bugprone-empty-catch): what is told must not change what the program does
    }
    in_sink = false;
  } catch (const std::exception&) {
    return;
  }
}

}  // namespace tessera
