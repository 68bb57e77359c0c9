// SPDX-License-Identifier: Apache-2.0
// The last line of the terminal: who writes there, and what a bar looks like.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "tessera/progress.h"

namespace tessera::base {

/// What a bar shows.
struct BarState {
  std::string title;
  std::int64_t done = 0;
  std::int64_t total = 0;
  double seconds = 0;
  std::string note;
};
/// "title ████░░ 42 %  12 s, 17 s left  note", at most `width` columns.
std::string bar_text(const BarState& bar, std::size_t width);

/// Writes one line to standard error, above the bar where there is one.
void write_error_line(std::string_view line);

/// A bar of work that cannot tell how far it is: a thread redraws its time, where bars are shown.
class WaitingBar {
 public:
  explicit WaitingBar(const std::string& title);
  ~WaitingBar();
  WaitingBar(const WaitingBar&) = delete;
  WaitingBar& operator=(const WaitingBar&) = delete;

 private:
  void run();

  ProgressBar bar_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool ended_ = false;
  std::thread clock_;
};

}  // namespace tessera::base
