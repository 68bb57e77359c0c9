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
/// One finished step of process `process` on the calling thread; `bytes` are those of its results.
void trace_step(const std::string& name, const std::string& where, int process, const TraceStart& begin,
                std::int64_t bytes);

}  // namespace tessera::cpu
