// SPDX-License-Identifier: Apache-2.0
#include "base/address_space.h"

#include <sys/mman.h>
#include <sys/resource.h>

#include <cstddef>

#include "base/strings.h"
#include "tessera/error.h"

namespace tessera::base {

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
