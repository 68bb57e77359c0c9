// SPDX-License-Identifier: Apache-2.0
// TESSERA_TRACE=file.json in the environment: every step of every program, as a Chrome trace (chrome://tracing,
// Perfetto) with one row a device, and arrows round each group of devices that a collective joins. Written when the
// program ends, or by `write_trace`. Between `begin_trace` and `end_trace`, the steps of that time.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace tessera::cpu {

/// Whether steps are asked for now. Throws `ValueError` where TESSERA_TRACE's file cannot be written.
bool tracing();
/// The steps so far. Throws `ValueError` naming the path and the reason; nothing where no trace is asked for.
void write_trace();
/// Keeps the steps that begin from now on for `path`. Returns the trace's number for `end_trace`; traces may overlap.
/// Throws `ValueError` where the file cannot be written.
std::int64_t begin_trace(const std::string& path);
/// Writes what `begin_trace` began, and forgets it. Throws `ValueError` naming the path and the reason, or for a number
/// of no trace.
void end_trace(std::int64_t trace);

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
  std::vector<std::size_t> next;      ///< by device the next one of its group, in a ring; empty where none moves data
};
/// The step is finished, on the calling thread.
void trace_step(const TracedStep& step, const TraceStart& begin);

}  // namespace tessera::cpu
