// SPDX-License-Identifier: Apache-2.0
// tessera launch -n 4 --restarts 3 -- program arguments
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "commands.h"
#include "rank_guard.h"
#include "tessera/error.h"

namespace tessera::cli {

namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

struct LaunchOptions {
  int ranks = 1, restarts = 0, fewest = 1, attempt = 0;
  bool replace = false;
  std::string mpirun, hostfile, reports, rank_reports;
  std::vector<std::string> mpirun_options, program;
};

template <class... Args>
void say(const char* format, const Args&... args) {
  std::fprintf(stderr, "tessera launch: ");
  std::fprintf(stderr, format, args...);
  std::fprintf(stderr, "\n");
}

std::string own_path() {
  std::error_code error;
  const fs::path path = fs::read_symlink("/proc/self/exe", error);
  if (error) throw StateError("launch: the command's own path is not known: " + error.message());
  return path.string();
}

// A folder of this launch, removed with it.
class ReportsFolder {
 public:
  explicit ReportsFolder(const std::string& parent) {
    std::string path = (parent.empty() ? fs::temp_directory_path() : fs::absolute(parent)) / "tessera-launch-XXXXXX";
    if (::mkdtemp(path.data()) == nullptr) {
      throw StateError("launch: no folder can be made for the ranks' reports (" + path + "): " + std::strerror(errno));
    }
    path_ = path;
  }
  ~ReportsFolder() {
    std::error_code none;
    fs::remove_all(path_, none);
  }
  ReportsFolder(const ReportsFolder&) = delete;
  ReportsFolder& operator=(const ReportsFolder&) = delete;

  std::string of_attempt(int attempt) const {
    const fs::path out = path_ / std::to_string(attempt);
    fs::create_directories(out);
    return out.string();
  }

 private:
  fs::path path_;
};

std::vector<std::string> command_of(const LaunchOptions& o, int ranks, int attempt, const std::string& reports) {
  std::vector<std::string> out{o.mpirun, "-n", std::to_string(ranks)};
  if (!o.hostfile.empty()) out.insert(out.end(), {"--hostfile", o.hostfile});
  out.insert(out.end(), o.mpirun_options.begin(), o.mpirun_options.end());
  out.insert(out.end(), {own_path(), "launch", "--as-rank", reports, "--attempt", std::to_string(attempt), "--"});
  out.insert(out.end(), o.program.begin(), o.program.end());
  return out;
}

// How one start of the program on some ranks ended.
struct Attempt {
  int status = 0;  // of mpirun, as a shell has it
  int signal = 0;  // that this process was told to end by
  RankReports reports;
};

sigset_t launcher_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (int number : {SIGCHLD, SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2}) sigaddset(&set, number);
  return set;
}

// Ends an mpirun that does not end its ranks though one has failed or a signal has asked for it: by a request, then by
// force, which every rank's guard notices.
class Impatience {
 public:
  explicit Impatience(pid_t mpirun) : mpirun_(mpirun) {}
  void reason() {
    if (since_ == Clock::time_point{}) since_ = Clock::now();
  }
  void act() {
    constexpr std::chrono::seconds kPatience{10};
    if (since_ == Clock::time_point{} || Clock::now() - since_ < kPatience) return;
    ::kill(mpirun_, asked_ ? SIGKILL : SIGTERM);
    asked_ = true;
    since_ = Clock::now();
  }

 private:
  pid_t mpirun_;
  Clock::time_point since_{};
  bool asked_ = false;
};

// Waits for mpirun; signals go on to it. A terminal has sent its own to all processes already.
Attempt wait_for(pid_t mpirun, const std::string& reports) {
  const sigset_t heard = launcher_signals();
  Attempt out;
  Impatience impatience(mpirun);
  int status = 0;
  while (::waitpid(mpirun, &status, WNOHANG) == 0) {
    siginfo_t info{};
    const timespec patience{0, 500'000'000};
    const int number = ::sigtimedwait(&heard, &info, &patience);
    if (number > 0 && number != SIGCHLD) {
      if (info.si_code != SI_KERNEL) ::kill(mpirun, number);
      if (number != SIGUSR1 && number != SIGUSR2) {
        out.signal = number;
        impatience.reason();
      }
    }
    if (!read_reports(reports).failed.empty()) impatience.reason();
    impatience.act();
  }
  out.status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  out.reports = read_reports(reports);
  return out;
}

Attempt start(const LaunchOptions& o, int ranks, int attempt, const std::string& reports) {
  const auto command = command_of(o, ranks, attempt, reports);
  const pid_t self = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) throw StateError(std::string("launch: no process can be started: ") + std::strerror(errno));
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);  // it ends its ranks then
    if (::getppid() == self) {
      const int error = become(command);
      say("%s cannot be started: %s", o.mpirun.c_str(), std::strerror(error));
    }
    ::_exit(127);
  }
  return wait_for(child, reports);
}

std::string text_of(const RankEnd& end) {
  const std::string who = end.rank < 0 ? std::string("a rank") : "rank " + std::to_string(end.rank);
  switch (end.kind) {
    case RankEnd::Kind::Killed:
      return who + " was killed by signal " + std::to_string(end.number) + " (" + ::strsignal(end.number) + ")";
    case RankEnd::Kind::NotStarted:
      return who + " could not start the program: " + std::strerror(end.number);
    case RankEnd::Kind::Exited:
      break;
  }
  return who + " ended with exit status " + std::to_string(end.number);
}

// Taken from outside, with what it ran on. What ends by a fault of its own, or because MPI aborts when another rank is
// gone, can be started again.
bool lost(const RankEnd& end) {
  if (end.kind != RankEnd::Kind::Killed) return false;
  for (int own : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS}) {
    if (end.number == own) return false;
  }
  return true;
}

// What one attempt says about the next.
struct Verdict {
  int status = 0;     // of the command, if this was the last attempt
  int lost = 0;       // ranks
  bool hope = false;  // another attempt may fare better
  std::string why;
};

Verdict judge(const LaunchOptions& o, int ranks, const Attempt& a) {
  Verdict v;
  if (a.status == 0 && a.reports.done == ranks) return v;  // of an mpirun that was ended itself the status may be 0
  v.status = a.status != 0 ? a.status : 1;
  if (a.reports.begun == 0) {
    v.status = 1;
    v.why = o.mpirun + " started no rank (exit status " + std::to_string(a.status) + ")";
    return v;
  }
  const RankEnd* first = nullptr;
  bool runs = true;
  for (const RankEnd& end : a.reports.failed) {
    v.lost += lost(end) ? 1 : 0;
    runs = runs && end.kind != RankEnd::Kind::NotStarted;
    if (first == nullptr || (lost(end) && !lost(*first))) first = &end;
  }
  if (first == nullptr) {  // its guard or its machine was lost with it
    v.lost = 1;
    v.why = "a rank was lost, and nobody knows how";
  } else {
    v.status = first->kind == RankEnd::Kind::Killed ? 128 + first->number : runs ? first->number : 127;
    v.why = text_of(*first);
    if (v.lost > 1) v.why += ", and " + std::to_string(v.lost - 1) + " more were killed";
  }
  v.hope = runs;
  return v;
}

int launch(const LaunchOptions& o) {
  const ReportsFolder folder(o.reports);
  const sigset_t heard = launcher_signals();
  ::sigprocmask(SIG_BLOCK, &heard, nullptr);
  int ranks = o.ranks;
  for (int attempt = 0;; ++attempt) {
    const Attempt a = start(o, ranks, attempt, folder.of_attempt(attempt));
    const Verdict v = judge(o, ranks, a);
    if (v.status == 0) return 0;
    if (a.signal != 0) {
      say("ended by signal %d (%s)", a.signal, ::strsignal(a.signal));
      return 128 + a.signal;
    }
    const int left = o.replace ? ranks : ranks - v.lost;
    if (!v.hope) {
      say("%s", v.why.c_str());
      return v.status;
    }
    if (attempt == o.restarts) {
      say("%s; %d of %d restarts used", v.why.c_str(), attempt, o.restarts);
      return v.status;
    }
    if (left < o.fewest) {
      say("%s; %d of %d ranks are left, fewer than --min %d", v.why.c_str(), left, ranks, o.fewest);
      return v.status;
    }
    say("%s; restart %d of %d, on %d of %d ranks", v.why.c_str(), attempt + 1, o.restarts, left, ranks);
    ranks = left;
  }
}

int run_launch(const LaunchOptions& o) {
  if (!o.rank_reports.empty()) {
    ::setenv("TESSERA_RESTARTS", std::to_string(o.attempt).c_str(), 1);
    return guard_rank(o.rank_reports, o.program);
  }
  if (o.fewest > o.ranks) {
    throw ValueError("launch: --min " + std::to_string(o.fewest) + " is more than -n " + std::to_string(o.ranks));
  }
  return launch(o);
}

}  // namespace

void add_launch(CLI::App& app) {
  auto o = std::make_shared<LaunchOptions>();
  o->mpirun = "mpirun";
  constexpr int kMost = 1 << 20;
  CLI::App* command =
      app.add_subcommand("launch", "Run a program as several processes under mpirun; when some are lost, again");
  command->add_option("-n", o->ranks, "Processes (1)")->check(CLI::Range(1, kMost));
  command->add_option("--restarts", o->restarts, "How often the program is started again when ranks fail (0)")
      ->check(CLI::Range(0, kMost));
  command->add_option("--min", o->fewest, "Ranks at least; with fewer left it is not started again (1)")
      ->check(CLI::Range(1, kMost));
  command->add_flag("--replace", o->replace, "Start again on as many ranks; default: without those that were killed");
  command->add_option("--mpirun", o->mpirun, "Whose processes: mpirun.openmpi, mpirun.mpich, ... (mpirun)");
  command->add_option("--hostfile", o->hostfile, "Machines, as mpirun reads them")->check(CLI::ExistingFile);
  command
      ->add_option("--mpirun-option", o->mpirun_options, "Given to mpirun; may be repeated: --mpirun-option=--bind-to")
      ->expected(1)
      ->take_all()
      ->allow_extra_args(false);
  command
      ->add_option("--reports", o->reports,
                   "Folder that all machines share, for what ranks tell (a temporary one of this machine)")
      ->check(CLI::ExistingDirectory);
  command->add_option("--as-rank", o->rank_reports)->group("");
  command->add_option("--attempt", o->attempt)->group("");
  command->add_option("program", o->program, "After --: the program and its arguments")->required();
  command->callback([o] {
    const int status = run_launch(*o);
    if (status != 0) throw CLI::RuntimeError(status);
  });
}

}  // namespace tessera::cli
