// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace tessera {

/// Threads that the CPU engine computes with in this process, the calling one among them: as many as `TESSERA_THREADS`
/// says, else one for each core that the process may run on. Processes of `Client::mpi` that may run on the same cores
/// share them out, each at least one.
int num_threads();

/// Processes of `Client::mpi` for each core that this one may run on: 2 where four run on two cores, 1 where there are
/// cores enough.
double processes_per_core();

/// Bytes of the last-level cache that this process has for itself, by what the system says of its cores: processes of
/// `Client::mpi` that may run on the same cores share it. Results of more bytes, of all devices of the process
/// together, are written around the caches.
std::int64_t cache_bytes();

}  // namespace tessera
