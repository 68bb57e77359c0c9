// SPDX-License-Identifier: Apache-2.0
#include "base/report/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <system_error>
#include <utility>
#include <vector>

#include "base/immortal.h"
#include "base/strings.h"
#include "tessera/config.h"

namespace tessera {

namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kHidden{1000};
constexpr std::chrono::milliseconds kBetweenDrawings{100};
constexpr std::string_view kErase = "\r\x1b[K";

void write_all(std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(STDERR_FILENO, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;  // nobody to tell it to
    text.remove_prefix(static_cast<std::size_t>(n));
  }
}

std::size_t columns() {
  constexpr std::size_t kUsual = 80;
  winsize size{};
  return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : kUsual;
}

// "7 s", "3:05 min", "2:03 h".
std::string time_text(double seconds) {
  const auto s = static_cast<std::int64_t>(std::clamp(seconds, 0.0, 1e9));
  const auto two = [](std::int64_t v) { return (v < 10 ? "0" : "") + std::to_string(v); };
  if (s < 60) return str(s, " s");
  if (s < 3600) return str(s / 60, ":", two(s % 60), " min");
  return str(s / 3600, ":", two(s / 60 % 60), " h");
}

// What other parts of the program hand over may move the cursor.
std::string printable(std::string_view text) {
  std::string out(text);
  std::ranges::replace_if(
      out, [](unsigned char c) { return c < ' ' || c == 0x7F; }, ' ');
  return out;
}

// The first columns of UTF-8 text, one for each code point.
std::string first_columns(std::string_view text, std::size_t width) {
  std::size_t end = 0;
  std::size_t used = 0;
  while (end < text.size()) {
    if ((static_cast<unsigned char>(text[end]) & 0xC0) != 0x80 && ++used > width) break;
    ++end;
  }
  return std::string(text.substr(0, end));
}

}  // namespace

std::string base::bar_text(const BarState& bar, std::size_t width) {
  constexpr int kCells = 24;
  std::string out = bar.title + " ";
  if (bar.total > 0) {
    const double part = std::clamp(static_cast<double>(bar.done) / static_cast<double>(bar.total), 0.0, 1.0);
    const auto full = static_cast<int>(std::floor(part * kCells));
    for (int i = 0; i < kCells; ++i) out += i < full ? "█" : "░";
    out += str(" ", static_cast<std::int64_t>(std::floor(part * 100)), " %  ");
    out += time_text(bar.seconds);
    if (part > 0 && part < 1) out += str(", ", time_text(bar.seconds * (1 - part) / part), " left");
  } else {
    out += time_text(bar.seconds);
  }
  if (!bar.note.empty()) out += "  " + bar.note;
  return first_columns(out, width);
}

struct ProgressBar::State {
  base::BarState bar;
  Clock::time_point began = Clock::now();
  Clock::time_point drawn{};
};

namespace {

// The line that all bars share.
struct Line {
  std::mutex mutex;
  std::vector<ProgressBar::State*> bars;  // the oldest first
  bool used = false;                      // something is drawn

  void draw(ProgressBar::State& s, Clock::time_point now);
  void erase() {
    if (std::exchange(used, false)) write_all(kErase);
  }
};
Line& line() {
  static base::Immortal<Line> made;  // threads may work while the program ends
  return made.value;
}

}  // namespace

void Line::draw(ProgressBar::State& s, Clock::time_point now) {
  s.drawn = now;
  s.bar.seconds = std::chrono::duration<double>(now - s.began).count();
  // A last column that is written to would make some terminals begin a new line.
  write_all(str(kErase, base::bar_text(s.bar, columns() - 1)));
  used = true;
}

void base::write_error_line(std::string_view text) {
  Line& l = line();
  const std::lock_guard lock(l.mutex);
  l.erase();
  write_all(str(text, '\n'));  // in one call: lines of processes that share the terminal do not mix
}

bool ProgressBar::shown() {
  if (!config().progress || ::isatty(STDERR_FILENO) == 0) return false;
  const char* terminal = std::getenv("TERM");
  return terminal == nullptr || std::string_view(terminal) != "dumb";
}

ProgressBar::ProgressBar(const std::string& title, std::int64_t total) {
  if (!shown()) return;
  state_ = std::make_unique<State>();
  state_->bar.title = printable(title);
  state_->bar.total = total;
  const std::lock_guard lock(line().mutex);
  line().bars.push_back(state_.get());
}

ProgressBar::~ProgressBar() {
  if (!state_) return;
  Line& l = line();
  const std::lock_guard lock(l.mutex);
  std::erase(l.bars, state_.get());
  l.erase();  // the bar below draws itself at its next step
}

void ProgressBar::update(std::int64_t done, std::string_view note) {
  if (!state_) return;
  Line& l = line();
  const std::lock_guard lock(l.mutex);
  state_->bar.done = done;
  const auto now = Clock::now();
  if (l.bars.back() != state_.get() || now - state_->began < kHidden || now - state_->drawn < kBetweenDrawings) return;
  state_->bar.note = printable(note);
  l.draw(*state_, now);
}

namespace base {

WaitingBar::WaitingBar(const std::string& title) : bar_(title) {
  if (!ProgressBar::shown()) return;
  try {
    clock_ = std::thread([this] { run(); });
  } catch (const std::system_error&) {
    return;  // no thread to be had: the work matters more than its bar
  }
}

WaitingBar::~WaitingBar() {
  if (!clock_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  wake_.notify_one();
  clock_.join();
}

void WaitingBar::run() {
  std::unique_lock lock(mutex_);
  while (!wake_.wait_for(lock, 2 * kBetweenDrawings, [this] { return ended_; })) bar_.update(0);
}

}  // namespace base
}  // namespace tessera
