// SPDX-License-Identifier: Apache-2.0
// One function a sub-command: it adds its options and what it does.
#pragma once

#include <cstdint>

namespace CLI {
class App;
}

namespace tessera::cli {

/// Virtual devices that a command makes at most.
inline constexpr std::int64_t kMostDevices = 1 << 20;

void add_bench(CLI::App& app);
void add_calibrate(CLI::App& app);
void add_info(CLI::App& app);
/// Fails with the exit status of the program, by `CLI::RuntimeError`.
void add_launch(CLI::App& app);
void add_plan(CLI::App& app);
void add_run(CLI::App& app);
void add_shard(CLI::App& app);
void add_show_sharding(CLI::App& app);
void add_simulate(CLI::App& app);

}  // namespace tessera::cli
