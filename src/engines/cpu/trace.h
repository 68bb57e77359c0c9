// SPDX-License-Identifier: Apache-2.0
// TESSERA_TRACE=file.json in the environment: every step of every program, as a Chrome trace (chrome://tracing,
// Perfetto). Written when the program ends.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace tessera::cpu {

bool tracing();

/// When a step began, on the wall and in time of this thread.
struct TraceStart {
  std::chrono::steady_clock::time_point wall;
  std::int64_t thread_ns;
  static TraceStart now();
};
/// Bytes of a step's operands and results.
struct Traffic {
  std::int64_t read = 0;
  std::int64_t written = 0;
};
/// One finished step of process `process` on the calling thread.
void trace_step(const std::string& name, const std::string& where, int process, const TraceStart& begin,
                const Traffic& bytes);

}  // namespace tessera::cpu
