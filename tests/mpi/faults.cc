// SPDX-License-Identifier: Apache-2.0
// Run by every process that mpirun starts, for tests/mpi/check_faults.py: one of them fails in the way that the
// argument names, and each tells what it saw of that.
//
//   mpi_faults MODE                      at a place of the program, or `under_way`: in steps that have begun an
//   exchange mpi_faults random MODE RANK MILLIS   at a moment, in the middle of a loop of sums
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <sstream>
#include <string>
#include <thread>

#include "tessera/tessera.h"

namespace ts = tessera;

namespace {

constexpr double kTimeout = 2;
constexpr std::int64_t kMemoryLimit = 512 << 20;  // bytes, in the mode `under_way`

// One write a line: those of other processes come between otherwise.
void tell(const std::string& what) {
  std::ostringstream line;
  line << "process " << ts::process_index() << ": " << what << '\n';
  std::cout << line.str() << std::flush;
}

struct Program {
  ts::Mesh mesh = ts::make_mesh({std::ssize(ts::devices())}, {"x"});
  ts::Array x = ts::device_put(ts::HostArray::from(std::vector<float>(ts::devices().size() * 4, 1)),
                               ts::NamedSharding(mesh, ts::P("x")));

  float sum(const std::function<void()>& before = nullptr) const {
    auto f = ts::shard_map(
        [before](const ts::Array& v) {
          ts::Array seen = v;
          if (before) {
            seen = ts::pure_callback(
                [before](const std::vector<ts::HostArray>& in) {
                  before();
                  return in;
                },
                {{v.shape(), v.dtype()}}, {v})[0];
          }
          return ts::psum(ts::sum(seen), "x");
        },
        mesh, ts::P("x"), ts::P());
    return f(x).item<float>();
  }
};

// What the call throws, and how long it took to.
template <class F>
bool fails(F&& f) {
  const auto begin = std::chrono::steady_clock::now();
  std::string said;
  try {
    f();
  } catch (const std::exception& e) {
    said = e.what();
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  tell(said.empty() ? "no exception" : "exception after " + std::to_string(took.count()) + " s: " + said);
  return !said.empty();
}

// Steps that fail between the beginning and the end of a large exchange: by a function of one process that throws, or
// by memory that none has. MPI still moves what they have sent; the steps after them are right all the same.
int fail_under_way() {
  const std::int64_t devices = std::ssize(ts::devices());
  constexpr std::int64_t rows = 2 << 20;
  const ts::Mesh mesh = ts::make_mesh({devices}, {"x"});
  const ts::Array x = ts::make_array_from_callback(
      {devices * rows}, ts::NamedSharding(mesh, ts::P("x")).share(), [&](const ts::Index& index) {
        return ts::HostArray::from(std::vector<float>(rows, static_cast<float>(*index[0].start / rows)));
      });
  std::vector<std::pair<std::int64_t, std::int64_t>> next;
  for (std::int64_t d = 0; d < devices; ++d) next.emplace_back(d, (d + 2) % devices);  // 2 devices a process
  enum class Fault : std::uint8_t { None, Function, Memory };
  auto step = [&](Fault fault, float factor) {
    auto f = ts::shard_map(
        [&](const ts::Array& v) {
          const ts::Array moved = ts::ppermute(ts::lax::cummax(v * factor), "x", next);
          ts::Array other = ts::sum(v) * 0;
          if (fault == Fault::Function) {
            other = ts::pure_callback(
                [](const std::vector<ts::HostArray>& in) -> std::vector<ts::HostArray> {
                  if (ts::process_index() == 0) throw std::runtime_error("this process has had enough");
                  return in;
                },
                {{other.shape(), other.dtype()}}, {other})[0];
          } else if (fault == Fault::Memory) {
            other = ts::sum(ts::cumsum(ts::broadcast_to(other, {kMemoryLimit / 4})));
          }
          return moved + ts::psum(other, "x");
        },
        mesh, ts::P("x"), ts::P("x"));
    return f(x);
  };
  for (int i = 0; i < 12; ++i) {
    if (!fails([&] { step(i % 2 == 0 ? Fault::Function : Fault::Memory, 2).block_until_ready(); })) return 1;
    const ts::Array right = step(Fault::None, 3);
    for (const ts::Shard& shard : right.addressable_shards()) {
      const auto from = (*shard.index()[0].start / rows + devices - 2) % devices;
      const ts::HostArray values = shard.data()->host();
      for (float value : values.span<float>()) {
        if (value == static_cast<float>(3 * from)) continue;
        tell("a value is wrong after the fault");
        return 3;
      }
    }
  }
  return 0;
}

int run(const std::string& mode) {
  if (mode == "under_way") return fail_under_way();
  Program program;
  const int me = ts::process_index();
  const int last = ts::process_count() - 1;
  const auto expected = static_cast<float>(ts::devices().size() * 4);
  if (program.sum() != expected) return 1;  // all is well so far

  if (mode == "early_exit") {
    if (me == last) return 0;
    return fails([&] { program.sum(); }) ? 0 : 1;
  }
  if (mode == "late") {
    if (me != last) return fails([&] { program.sum(); }) ? 0 : 1;
    std::this_thread::sleep_for(std::chrono::duration<double>(3 * kTimeout));
    fails([&] { program.sum(); });  // may be right: what the others had to give has come before they gave up
    return fails([&] { program.sum(); }) ? 0 : 1;
  }
  if (mode == "stop") {
    ts::HostArray pids = ts::process_allgather(ts::HostArray::from(std::vector<std::int32_t>{getpid()}));
    if (me == last) {
      raise(SIGSTOP);
      return 0;  // until the first process lets it go on
    }
    const bool good = fails([&] { program.sum(); });
    // The others are not stopped: what they have in common without the last one goes on.
    if (me == 0) {
      std::this_thread::sleep_for(std::chrono::seconds(1));
      kill(pids.span<std::int32_t>()[static_cast<std::size_t>(last)], SIGCONT);
    }
    return good ? 0 : 1;
  }
  if (mode == "throw") {
    const bool good = fails([&] {
      program.sum([&] {
        if (me == last) throw std::runtime_error("this process has had enough");
      });
    });
    return good && program.sum() == expected ? 0 : 1;
  }
  if (mode == "other_program") {
    const bool good = fails([&] { me == last ? program.sum([] {}) : program.sum(); });
    return good && program.sum() == expected ? 0 : 1;
  }
  if (mode == "other_array") {
    const ts::Array common = program.x;
    const std::int64_t rows = me == last ? 8 : 4;
    program.x = ts::make_array_from_callback({std::ssize(ts::devices()) * rows},
                                             ts::NamedSharding(program.mesh, ts::P("x")).share(),
                                             [rows](const ts::Index&) { return ts::HostArray(ts::float32, {rows}); });
    const bool good = fails([&] { program.sum(); });
    program.x = common;
    return good && program.sum() == expected ? 0 : 1;
  }
  if (mode == "kill") {
    if (me == last) raise(SIGKILL);
    fails([&] { program.sum(); });
    return 0;
  }
  if (mode == "uncaught") {
    if (me == last) throw std::runtime_error("nobody catches this");
    fails([&] { program.sum(); });
    return 0;
  }
  std::cerr << "mpi_faults: unknown mode " << mode << '\n';
  return 2;
}

// Sums without end, until the fault of process `rank`, after a while, is seen. What is right must be right to the end.
class Random {
 public:
  Random(std::string mode, int rank, int millis)
      : mode_(std::move(mode)),
        faulty_(ts::process_index() == rank),
        rank_(rank),
        when_(Clock::now() + Millis(millis)) {
    pids_ = ts::process_allgather(ts::HostArray::from(std::vector<std::int32_t>{getpid()}));
    if (!faulty_ || (mode_ != "kill" && mode_ != "stop")) return;
    std::thread([this] {
      std::this_thread::sleep_until(when_);
      kill(getpid(), mode_ == "kill" ? SIGKILL : SIGSTOP);
    }).detach();
  }

  int run() {
    for (;;) {
      if (faulty_ && Clock::now() >= when_ && mode_ == "early_exit") return 0;
      if (faulty_ && Clock::now() >= when_ && mode_ == "other_program") {
        fails([&] { program_.sum(); });
        return 0;
      }
      std::string said;
      try {
        if (program_.sum([this] { throw_in_time(); }) != expected_) return wrong("a sum is wrong before the fault");
      } catch (const std::exception& e) {
        said = e.what();
      }
      if (said.empty()) continue;
      tell("exception: " + said);
      return after_fault();
    }
  }

 private:
  using Clock = std::chrono::steady_clock;
  using Millis = std::chrono::milliseconds;

  void throw_in_time() {
    if (!faulty_ || mode_ != "throw" || Clock::now() < when_ || thrown_.exchange(true)) return;
    throw std::runtime_error("this process has had enough");
  }
  int after_fault() {
    if (mode_ == "throw") {
      for (int i = 0; i < 20; ++i) {
        if (program_.sum([this] { throw_in_time(); }) != expected_) return wrong("a sum is wrong after the fault");
      }
    }
    if (mode_ == "stop" && ts::process_index() == (rank_ == 0 ? 1 : 0)) {
      std::this_thread::sleep_for(Millis(500));
      kill(pids_.span<std::int32_t>()[static_cast<std::size_t>(rank_)], SIGCONT);
    }
    return 0;
  }
  static int wrong(const char* what) {
    tell(what);
    return 3;
  }

  std::string mode_;
  bool faulty_;
  int rank_;
  Clock::time_point when_;
  std::atomic<bool> thrown_{false};
  ts::HostArray pids_;
  Program program_;
  float expected_ = static_cast<float>(ts::devices().size() * 4);
};

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  if (mode == "alone" || mode == "wrong_mpi" || mode == "no_module") {
    try {
      ts::distributed::initialize({.implementation = argc > 2 ? argv[2] : "", .module = argc > 3 ? argv[3] : ""});
      std::cout << "joined " << ts::process_count() << " processes\n";
    } catch (const ts::Error& e) {
      std::cout << "refused: " << e.what() << '\n';
    }
    return 0;
  }
  ts::distributed::initialize(
      {.devices = 2, .memory_limit = mode == "under_way" ? kMemoryLimit : 0, .timeout_seconds = kTimeout});
  if (mode == "threads") {
    std::cout << "process " + std::to_string(ts::process_index()) + ": " + std::to_string(ts::num_threads()) +
                     " threads, " + std::to_string(ts::processes_per_core()) + " processes a core\n";
    return 0;
  }
  if (mode == "random" && argc == 5) return Random(argv[2], std::atoi(argv[3]), std::atoi(argv[4])).run();
  return run(mode);
}
