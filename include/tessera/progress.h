// SPDX-License-Identifier: Apache-2.0
// Bars for long work on the terminal. The library shows them for compilations and checkpoints that take more than a
// second; a program may for its own loops:
//
//   ts::ProgressBar bar("training", steps);
//   for (std::int64_t i = 0; i < steps; ++i) bar.update(i, "loss " + std::to_string(loss));
//
// They are written to standard error where that is a terminal, and to nothing else: logs and pipes stay clean.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace tessera {

/// Work that is under way. Nothing is shown during its first second, so that short work leaves no trace; after that the
/// last line of the terminal is the bar's until it ends, then the line is empty again. Of several bars the newest is
/// shown. Members may be called on any thread.
class ProgressBar {
 public:
  /// `total` is the work in any unit; 0 where it is not known: then only the time is shown.
  explicit ProgressBar(const std::string& title, std::int64_t total = 0);
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  /// So much is done; `note` is shown behind the bar, its control characters as spaces.
  void update(std::int64_t done, std::string_view note = {});
  /// Whether bars are shown: standard error is a terminal that moves its cursor, and `Config::progress` is on.
  static bool shown();

  struct State;

 private:
  std::unique_ptr<State> state_;  // null where none are shown
};

}  // namespace tessera
