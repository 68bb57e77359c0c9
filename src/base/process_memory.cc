// SPDX-License-Identifier: Apache-2.0
#include "base/process_memory.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <fstream>

#include "base/strings.h"
#include "tessera/error.h"

namespace tessera::base {

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
