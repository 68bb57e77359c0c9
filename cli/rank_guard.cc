// SPDX-License-Identifier: Apache-2.0
#include "rank_guard.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <system_error>
#include <thread>
#include <utility>

#include "tessera/error.h"

namespace tessera::cli {

namespace {

namespace fs = std::filesystem;

constexpr int kCannotStart = 127;  // as a shell has it
constexpr const char* kBegun = "begun.";
constexpr const char* kDone = "done.";
constexpr const char* kFailed = "failed.";

int own_rank() {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"}) {
    if (const char* text = std::getenv(name)) return std::atoi(text);
  }
  return -1;
}

// Where there are several ranks of no known number, each has a file.
std::string report_path(const std::string& reports, const char* prefix) {
  const int rank = own_rank();
  return reports + "/" + prefix + (rank < 0 ? "p" + std::to_string(::getpid()) : std::to_string(rank));
}

// A first report stays: the program's process knows why it could not begin, the other one only that it ended.
void report(const std::string& path, RankEnd::Kind kind, int number) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (file < 0) return;  // then the launcher knows from mpirun alone that something failed
  char text[64];
  const int length = std::snprintf(text, sizeof text, "%d %d\n", static_cast<int>(kind), number);
  [[maybe_unused]] auto written = ::write(file, text, static_cast<std::size_t>(length));
  ::close(file);
}

bool asks_to_end(int number) { return number == SIGTERM || number == SIGINT || number == SIGHUP; }

sigset_t heard_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (int number : {SIGCHLD, SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2}) sigaddset(&set, number);
  return set;
}

struct Watched {
  int status = 0;
  bool told_to_end = false, killed_here = false;
};

// Waits for the program and hands signals on. Whoever started this process may be killed itself.
Watched watch(pid_t program, pid_t starter) {
  const sigset_t heard = heard_signals();
  Watched out;
  bool ended = false;
  auto hear = [&](const timespec& patience) {
    const int number = ::sigtimedwait(&heard, nullptr, &patience);
    if (number <= 0) return false;
    if (number == SIGCHLD) return true;
    out.told_to_end = out.told_to_end || asks_to_end(number);
    if (!ended) ::kill(program, number);
    return true;
  };
  while (!ended) {
    hear({0, 200'000'000});
    ended = ::waitpid(program, &out.status, WNOHANG) == program;
    if (ended || ::getppid() == starter) continue;
    ::kill(program, SIGKILL);
    ended = ::waitpid(program, &out.status, 0) == program;
    out.told_to_end = out.killed_here = true;
  }
  while (hear({0, 0})) continue;  // a signal that came for both
  return out;
}

// MPI may abort a rank in the middle of a transfer with one that is gone, and mpirun ends all ranks when the first of
// their guards has ended. The one that is gone shall have been told of by then.
void let_others_tell() { std::this_thread::sleep_for(std::chrono::milliseconds(500)); }

}  // namespace

int become(const std::vector<std::string>& command) {
  for (int number : {SIGPIPE, SIGXFSZ, SIGTERM, SIGINT, SIGHUP}) {
    struct sigaction old {};
    // What was ignored before this program stays so, as under nohup.
    if (number == SIGHUP && ::sigaction(number, nullptr, &old) == 0 && old.sa_handler == SIG_IGN) continue;
    ::signal(number, SIG_DFL);
  }
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  std::vector<char*> arguments;
  arguments.reserve(command.size() + 1);
  for (const auto& text : command) arguments.push_back(const_cast<char*>(text.c_str()));  // exec does not write to them
  arguments.push_back(nullptr);
  ::execvp(arguments[0], arguments.data());
  return errno;
}

int guard_rank(const std::string& reports, const std::vector<std::string>& program) {
  const std::string failed = report_path(reports, kFailed);
  const sigset_t heard = heard_signals();
  ::sigprocmask(SIG_BLOCK, &heard, nullptr);
  const pid_t starter = ::getppid();
  const pid_t self = ::getpid();
  std::ofstream(report_path(reports, kBegun)) << self << '\n';
  const pid_t child = ::fork();
  if (child < 0) {
    report(failed, RankEnd::Kind::NotStarted, errno);
    return kCannotStart;
  }
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != self) ::_exit(kCannotStart);  // it has ended before it was asked about
    report(failed, RankEnd::Kind::NotStarted, become(program));
    ::_exit(kCannotStart);
  }
  const Watched end = watch(child, starter);
  const bool killed = WIFSIGNALED(end.status);
  const int number = killed ? WTERMSIG(end.status) : WEXITSTATUS(end.status);
  if (number == 0) {
    std::ofstream(report_path(reports, kDone)) << self << '\n';
  } else if (!end.told_to_end ||
             (number == SIGKILL && killed && !end.killed_here)) {  // nobody is told to end like this
    report(failed, killed ? RankEnd::Kind::Killed : RankEnd::Kind::Exited, number);
    if (killed && number != SIGKILL) let_others_tell();
  }
  return killed ? 128 + number : number;
}

RankReports read_reports(const std::string& reports) {
  RankReports out;
  std::vector<std::pair<fs::file_time_type, RankEnd>> ends;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(reports, none)) {
    const std::string name = entry.path().filename().string();
    if (name.rfind(kBegun, 0) == 0) ++out.begun;
    if (name.rfind(kDone, 0) == 0) ++out.done;
    if (name.rfind(kFailed, 0) != 0) continue;
    RankEnd end;
    int kind = 0;
    if (!(std::ifstream(entry.path()) >> kind >> end.number)) continue;  // not written yet
    end.kind = static_cast<RankEnd::Kind>(kind);
    const std::string rank = name.substr(std::strlen(kFailed));
    if (rank[0] != 'p') end.rank = std::atoi(rank.c_str());
    ends.emplace_back(entry.last_write_time(none), end);
  }
  std::stable_sort(ends.begin(), ends.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  for (const auto& [when, end] : ends) out.failed.push_back(end);
  return out;
}

}  // namespace tessera::cli
