// SPDX-License-Identifier: Apache-2.0
#include "guard.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <exception>
#include <iostream>
#include <new>

#include "base/file.h"

namespace tessera::cli {

namespace {

void print_error(const char* text) noexcept {
  [[maybe_unused]] auto n = ::write(STDERR_FILENO, text, std::strlen(text));
}

void open_standard_streams() {
  for (int fd = 0; fd <= 2; ++fd) {
    if (::fcntl(fd, F_GETFD) >= 0) continue;
    // The lowest free number is `fd`. What is printed to a stream that was closed fails, as it would have.
    [[maybe_unused]] int got = ::open("/dev/null", O_RDONLY);
  }
}

void end_by_signal(int number) {
  base::discard_unfinished_files();
  ::raise(number);  // the action is the default one again: the shell sees the signal
}

char time_message[96];

void end_by_time(int) {
  base::discard_unfinished_files();
  print_error(time_message);
  ::_exit(1);
}

[[noreturn]] void end_by_exception() {
  base::discard_unfinished_files();
  if (auto e = std::current_exception()) {
    try {
      std::rethrow_exception(e);
    } catch (const std::bad_alloc&) {
      print_error("tessera: out of memory\n");
    } catch (const std::exception& what) {
      print_error("tessera: ");
      print_error(what.what());
      print_error("\n");
    } catch (...) {
      print_error("tessera: an unknown exception\n");
    }
  } else {
    print_error("tessera: ended without an exception\n");
  }
  ::_exit(1);
}

#ifdef TESSERA_MIMALLOC
// OpenBLAS starts its threads while it is loaded. Each asks for some 150 MB of address space, again and again until it
// gets it, or raises SIGINT: under a limit (`ulimit -v`) no `main` would follow. This runs before any library does, and
// starts the program again with OpenBLAS's threads switched off; the engine uses none of them.
void before_libraries(int, char** arguments, char** environment) {
  constexpr std::size_t kMost = 4096;
  static char setting[] = "OPENBLAS_NUM_THREADS=1";
  static char* changed[kMost + 2];
  rlimit space{};
  if (::getrlimit(RLIMIT_AS, &space) != 0 || space.rlim_cur == RLIM_INFINITY) return;
  std::size_t n = 0;
  for (; environment[n] != nullptr && n < kMost; ++n) {
    if (std::strncmp(environment[n], setting, sizeof setting - 2) == 0) return;
    changed[n] = environment[n];
  }
  changed[n] = setting;
  ::execve("/proc/self/exe", arguments, changed);
}
__attribute__((section(".preinit_array"), used)) void (*const at_load)(int, char**, char**) = before_libraries;
#endif

}  // namespace

void guard_process() {
  open_standard_streams();
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGXFSZ, SIG_IGN);  // `ulimit -f`
  std::set_terminate(end_by_exception);
  for (int number : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction old {};
    if (::sigaction(number, nullptr, &old) != 0 || old.sa_handler == SIG_IGN) continue;  // as under nohup
    struct sigaction action {};
    action.sa_handler = end_by_signal;
    action.sa_flags = static_cast<int>(SA_RESETHAND | SA_NODEFER);
    ::sigaction(number, &action, nullptr);
  }
}

void limit_time(double seconds) {
  std::snprintf(time_message, sizeof time_message, "tessera: the time limit of %g seconds is over (--time-limit)\n",
                seconds);
  struct sigaction action {};
  action.sa_handler = end_by_time;
  ::sigaction(SIGALRM, &action, nullptr);
  sigset_t alarm;
  sigemptyset(&alarm);
  sigaddset(&alarm, SIGALRM);
  ::pthread_sigmask(SIG_UNBLOCK, &alarm, nullptr);
  double whole = std::floor(seconds);
  itimerval timer{};
  timer.it_value.tv_sec = static_cast<time_t>(whole);
  timer.it_value.tv_usec = std::max<suseconds_t>(static_cast<suseconds_t>((seconds - whole) * 1e6), whole > 0 ? 0 : 1);
  ::setitimer(ITIMER_REAL, &timer, nullptr);
}

bool output_complete() {
  std::cout.flush();
  return std::fflush(stdout) == 0 && std::ferror(stdout) == 0 && !std::cout.fail();
}

}  // namespace tessera::cli
