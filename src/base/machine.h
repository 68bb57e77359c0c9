// SPDX-License-Identifier: Apache-2.0
// What this process has of the machine: cores, caches, memory.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>

namespace tessera::base {

/// Cores that this process may run on: launchers bind processes to some of them.
int own_cores();
/// Equal in processes of one machine that may run on the same cores.
std::uint64_t which_cores();

/// This many processes, which wait for each other, run on our cores: more threads than cores would keep those from
/// working that the others wait for.
void share_cores(int processes);
/// As `share_cores` said, else 1.
int processes_on_cores();

/// Bytes of a last-level cache that `cores` of its cores have, by the description of a core's caches in the folder
/// (`/sys/devices/system/cpu/cpu0/cache`). Virtual machines with few cores may be told of the whole of a host's cache:
/// no core is taken to have more than 16 MB. Without a description as if it were the cache of a common server: 32 MB.
std::int64_t cache_of_cores(const std::string& folder, int cores);
/// The same for this process's part of its own cores. Results of more bytes leave the caches before they are read.
std::int64_t cache_bytes();

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
