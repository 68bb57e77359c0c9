// SPDX-License-Identifier: Apache-2.0
// Bars of long work, on a terminal of the test's own.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>

#include "base/report/log.h"
#include "base/report/progress.h"
#include "tessera/tessera.h"

namespace tessera {
namespace {

using base::bar_text;

// Standard error is a terminal of 60 columns while the object lives.
class Terminal {
 public:
  Terminal() : master_(::posix_openpt(O_RDWR | O_NOCTTY)), before_(::dup(STDERR_FILENO)) {
    ::grantpt(master_);
    ::unlockpt(master_);
    const int end = ::open(::ptsname(master_), O_RDWR | O_NOCTTY);
    termios modes{};
    ::tcgetattr(end, &modes);
    ::cfmakeraw(&modes);
    ::tcsetattr(end, TCSANOW, &modes);
    winsize size{};
    size.ws_col = 60;
    size.ws_row = 24;
    ::ioctl(end, TIOCSWINSZ, &size);
    ::dup2(end, STDERR_FILENO);
    ::close(end);
    ::fcntl(master_, F_SETFL, O_NONBLOCK);
  }
  ~Terminal() {
    ::dup2(before_, STDERR_FILENO);
    ::close(before_);
    ::close(master_);
  }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;
  bool open() const { return master_ >= 0; }
  // What was written since the last call.
  std::string shown() const {
    std::string out;
    char bytes[4096];
    for (ssize_t n = 0; (n = ::read(master_, bytes, sizeof bytes)) > 0;) out.append(bytes, static_cast<std::size_t>(n));
    return out;
  }

 private:
  int master_;
  int before_;
};

void wait_past_the_first_second() { std::this_thread::sleep_for(std::chrono::milliseconds(1050)); }

TEST(Progress, TextOfABar) {
  EXPECT_EQ(bar_text({.title = "training", .done = 25, .total = 100, .seconds = 10, .note = "loss 0.5"}, 200),
            "training ██████░░░░░░░░░░░░░░░░░░ 25 %  10 s, 30 s left  loss 0.5");
  EXPECT_EQ(bar_text({.title = "t", .done = 3, .total = 3, .seconds = 75, .note = ""}, 200),
            "t ████████████████████████ 100 %  1:15 min");
  EXPECT_EQ(bar_text({.title = "t", .done = 9, .total = 3, .seconds = 7380, .note = ""}, 200),
            "t ████████████████████████ 100 %  2:03 h");
  EXPECT_EQ(bar_text({.title = "compiling f", .done = 0, .total = 0, .seconds = 3.9, .note = ""}, 200),
            "compiling f 3 s");
  EXPECT_EQ(bar_text({.title = "training", .done = 25, .total = 100, .seconds = 10, .note = ""}, 12), "training ███");
}

TEST(Progress, NothingIsWrittenWhereStandardErrorIsNoTerminal) {
  ::testing::internal::CaptureStderr();
  EXPECT_FALSE(ProgressBar::shown());
  {
    ProgressBar bar("work", 2);
    wait_past_the_first_second();
    bar.update(1);
  }
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

TEST(Progress, LongWorkIsShownAndLeavesNothing) {
  ::setenv("TERM", "xterm", 1);
  const Terminal terminal;
  ASSERT_TRUE(terminal.open());
  ASSERT_TRUE(ProgressBar::shown());
  {
    ProgressBar bar("work", 4);
    bar.update(1);
    EXPECT_EQ(terminal.shown(), "");  // nothing yet
    wait_past_the_first_second();
    bar.update(2, "half\x1b[2J\n");
    EXPECT_EQ(terminal.shown(), "\r\x1b[Kwork ████████████░░░░░░░░░░░░ 50 %  1 s, 1 s left  half [2J");
    bar.update(3);
    EXPECT_EQ(terminal.shown(), "");  // too soon after the last drawing
    base::write_error_line("a line of the log");
    EXPECT_EQ(terminal.shown(), "\r\x1b[Ka line of the log\n");
    ProgressBar newer("newer", 1);
    wait_past_the_first_second();
    bar.update(4);
    EXPECT_EQ(terminal.shown(), "");  // the newest bar has the line
    newer.update(1);
    EXPECT_NE(terminal.shown().find("newer"), std::string::npos);
  }
  EXPECT_EQ(terminal.shown(), "\r\x1b[K");
}

TEST(Progress, TheSwitchAndDumbTerminalsKeepBarsAway) {
  ::setenv("TERM", "xterm", 1);
  const Terminal terminal;
  {
    const ConfigScope off(&Config::progress, false);
    EXPECT_FALSE(ProgressBar::shown());
  }
  ::setenv("TERM", "dumb", 1);
  EXPECT_FALSE(ProgressBar::shown());
  ::setenv("TERM", "xterm", 1);
  EXPECT_TRUE(ProgressBar::shown());
}

TEST(Progress, WorkThatCannotTellHowFarItIsShowsItsTime) {
  ::setenv("TERM", "xterm", 1);
  const Terminal terminal;
  {
    const base::WaitingBar bar("compiling step");
    std::this_thread::sleep_for(std::chrono::milliseconds(1600));
    EXPECT_NE(terminal.shown().find("\r\x1b[Kcompiling step 1 s"), std::string::npos);
  }
  EXPECT_TRUE(terminal.shown().ends_with("\r\x1b[K"));
}

}  // namespace
}  // namespace tessera
