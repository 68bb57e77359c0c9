// SPDX-License-Identifier: Apache-2.0
// Fork-join parallelism for kernels: one pool a process, as many threads as the machine has cores.
#pragma once

#include <cstdint>
#include <functional>

namespace tessera::base {

/// Threads that `parallel_for` uses, the caller included. `TESSERA_THREADS` in the environment overrides the core
/// count.
int num_threads();

/// Calls `body(begin, end)` over disjoint ranges that cover [0, n), on the calling thread and the pool's workers, and
/// returns when all are done. Ranges hold at least `grain` items (but the last). Runs on the calling thread alone when
/// there is one range, or when called from inside another `parallel_for` (nested loops never wait for each other).
/// The first exception that a body throws is rethrown here, after every range has ended.
void parallel_for(std::int64_t n, std::int64_t grain, const std::function<void(std::int64_t, std::int64_t)>& body);

/// True inside a body of `parallel_for`.
bool in_parallel_region();

}  // namespace tessera::base
