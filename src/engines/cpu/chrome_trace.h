// SPDX-License-Identifier: Apache-2.0
// TESSERA_TRACE=file.json in the environment: every step of every program, as a Chrome trace (chrome://tracing,
// Perfetto) with one row a device. Written when the program ends, or by `write_trace`.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace tessera::cpu {

/// Throws `ValueError` where the file cannot be written.
bool tracing();
/// The steps so far. Throws `ValueError` naming the path and the reason; nothing where no trace is asked for.
void write_trace();

/// When a step began, on the wall and in time of this thread.
struct TraceStart {
  std::chrono::steady_clock::time_point wall;
  std::int64_t thread_ns;
  static TraceStart now();
};
/// Bytes of a step's operands and results in memory, where equal shards are one.
struct Traffic {
  std::int64_t read = 0;
  std::int64_t written = 0;
};
/// A step of process `process`.
struct TracedStep {
  std::string name;
  std::string where;
  int process;
  Traffic bytes;
  std::vector<std::int64_t> results;  ///< by device (position in the program's mesh): bytes; -1 for other processes'
  std::int64_t received;              ///< by the busiest device from others; 0 for steps that move nothing
};
/// The step is finished, on the calling thread.
void trace_step(TracedStep step, const TraceStart& begin);

}  // namespace tessera::cpu
