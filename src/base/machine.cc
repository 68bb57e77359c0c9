// SPDX-License-Identifier: Apache-2.0
#include "base/machine.h"

#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <fstream>
#include <string_view>
#include <thread>

#include "base/strings.h"
#include "tessera/error.h"
#include "tessera/threads.h"

namespace tessera::base {

namespace {

std::atomic<int> sharing{1};  // processes, our cores

struct Cores {
  int count = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  int first = 0;
  std::uint64_t set = 0;

  Cores() {
#ifdef __linux__
    cpu_set_t found;
    if (sched_getaffinity(0, sizeof found, &found) != 0) return;
    count = std::max(1, CPU_COUNT(&found));
    while (first + 1 < CPU_SETSIZE && !CPU_ISSET(first, &found)) ++first;
    set = std::hash<std::string_view>{}({reinterpret_cast<const char*>(&found), sizeof found});
#endif
  }
};
const Cores& cores() {
  static const Cores found;
  return found;
}

// How many numbers a list as "0-3,8" holds; 0: it is none.
std::int64_t length_of(std::istream& list) {
  std::int64_t out = 0;
  for (std::int64_t first = 0; list >> first;) {
    std::int64_t last = first;
    if (list.peek() == '-' && !(list.ignore() >> last)) return 0;
    out += last - first + 1;
    if (list.peek() == ',') list.ignore();
  }
  return out;
}

}  // namespace

int own_cores() { return cores().count; }
std::uint64_t which_cores() { return cores().set; }
void share_cores(int processes) { sharing = std::max(1, processes); }
int processes_on_cores() { return sharing.load(std::memory_order_relaxed); }

std::int64_t cache_of_cores(const std::string& folder, int cores) {
  constexpr std::int64_t kUnknown = 32 << 20;
  constexpr std::int64_t kMostOfCore = 16 << 20;
  std::int64_t last = 1;  // level: those of the first one hold too little to be what decides
  std::int64_t bytes = 0;
  std::int64_t sharers = 0;
  for (int i = 0;; ++i) {
    const std::string cache = str(folder, "/index", i, "/");
    std::int64_t level = 0;
    std::int64_t kilobytes = 0;
    if (!(std::ifstream(cache + "level") >> level)) break;
    if (level <= last || !(std::ifstream(cache + "size") >> kilobytes)) continue;
    std::ifstream list(cache + "shared_cpu_list");
    last = level;
    bytes = kilobytes << 10;
    sharers = length_of(list);
  }
  if (bytes <= 0 || sharers <= 0) return kUnknown;
  return std::min(bytes / sharers, kMostOfCore) * std::min<std::int64_t>(cores, sharers);
}

std::int64_t cache_bytes() {
  static const std::int64_t all =
      cache_of_cores(str("/sys/devices/system/cpu/cpu", cores().first, "/cache"), own_cores());
  return all / processes_on_cores();
}

std::int64_t machine_memory() {
  static const std::int64_t most = [] {
    std::int64_t bytes = std::int64_t{::sysconf(_SC_PHYS_PAGES)} * std::int64_t{::sysconf(_SC_PAGESIZE)};
    for (const char* path : {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
      std::int64_t group = 0;  // "max" is no number
      if (std::ifstream(path) >> group && group > 0) bytes = std::min(bytes, group);
    }
    return bytes;
  }();
  return most;
}

BlasCall::BlasCall() {
  static const bool limited = [] {
    rlimit r{};
    return ::getrlimit(RLIMIT_AS, &r) == 0 && r.rlim_cur != RLIM_INFINITY;
  }();
  if (!limited) return;
  static std::recursive_mutex& calls = *new std::recursive_mutex;  // threads may outlive the program
  alone_ = std::unique_lock(calls);
  constexpr std::size_t kBuffer = std::size_t{160} << 20;  // what it asks for at most for a call on one thread
  void* p = ::mmap(nullptr, kBuffer, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) {
    throw ResourceExhaustedError(
        str("memory is out: ", kBuffer,
            " bytes for OpenBLAS do not fit in the process's limit of address space (ulimit -v)"));
  }
  ::munmap(p, kBuffer);
}

}  // namespace tessera::base

double tessera::processes_per_core() {
  return std::max(1.0, static_cast<double>(base::processes_on_cores()) / base::own_cores());
}
std::int64_t tessera::cache_bytes() { return base::cache_bytes(); }
