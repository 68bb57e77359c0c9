// SPDX-License-Identifier: Apache-2.0
// Fork-join parallelism for kernels: one pool a process, as many threads as the machine has cores.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>

#include "hwy/cache_control.h"

namespace tessera::base {

/// Threads that `parallel_for` uses, the caller included: as many as `TESSERA_THREADS` in the environment says, else
/// one for each core that the process may run on, or this process's part of the machine's cores (`share_cores`).
int num_threads();

/// Threads that a `parallel_for` uses that is called here, the caller included: all of them or, inside a body, as many
/// as there are for each range of the loop around it. One inside a loop inside a loop.
int team_size();

/// Calls `body(begin, end)` over disjoint ranges that cover [0, n), on the calling thread and the pool's workers, and
/// returns when all are done. Ranges hold at least `grain` items (but the last). Runs on the calling thread alone when
/// there is one range, or where `team_size()` is one. A thread that waits for the end of its loop takes no part of
/// another one, so that what a body keeps for its thread stays its own.
/// The first exception that a body throws is rethrown here, after every range has ended.
void parallel_for(std::int64_t n, std::int64_t grain, const std::function<void(std::int64_t, std::int64_t)>& body);

/// Calls `ready` until it says true, for as long as waking a thread that sleeps would take; false when it never did.
/// The loops of one program, and the works of a pipeline, follow each other within that time.
template <class Ready>
bool spin_until(const Ready& ready) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(100);
  do {
    for (int i = 0; i < 16; ++i) {
      if (ready()) return true;
      hwy::Pause();
    }
  } while (std::chrono::steady_clock::now() < end);
  return false;
}

/// True inside a body of `parallel_for`.
bool in_parallel_region();

}  // namespace tessera::base
