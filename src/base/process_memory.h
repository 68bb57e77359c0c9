// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <mutex>

namespace tessera::base {

/// Bytes that the process can have: the machine's memory, or less where its control group has a limit.
std::int64_t machine_memory();

/// While one lives, the calling thread may call OpenBLAS, which asks for its buffers again and again, for ever, until
/// it gets them. Where the process has a limit of address space (`ulimit -v`) one thread calls at a time, as what is
/// left may serve one call alone. Throws `ResourceExhaustedError` where it serves none.
class BlasCall {
 public:
  BlasCall();

 private:
  std::unique_lock<std::recursive_mutex> alone_;
};

}  // namespace tessera::base
