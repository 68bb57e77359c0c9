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

void check_address_space(std::int64_t bytes) {
  static const bool limited = [] {
    rlimit r{};
    return ::getrlimit(RLIMIT_AS, &r) == 0 && r.rlim_cur != RLIM_INFINITY;
  }();
  if (!limited) return;
  auto n = static_cast<std::size_t>(bytes);
  void* p = ::mmap(nullptr, n, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) {
    throw ResourceExhaustedError(
        str("memory is out: ", bytes,
            " bytes for OpenBLAS do not fit in the process's limit of address space (ulimit -v)"));
  }
  ::munmap(p, n);
}

}  // namespace tessera::base
