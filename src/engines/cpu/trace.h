// SPDX-License-Identifier: Apache-2.0
// TESSERA_TRACE=file.json in the environment: every step of every program, as a Chrome trace (chrome://tracing,
// Perfetto). Written when the program ends.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace tessera::cpu {

using TraceClock = std::chrono::steady_clock;

bool tracing();
/// One finished step of process `process` on the calling thread; `bytes` are those of its results.
void trace_step(const std::string& name, const std::string& where, int process, TraceClock::time_point begin,
                std::int64_t bytes);

}  // namespace tessera::cpu
