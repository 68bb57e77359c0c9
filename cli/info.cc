// SPDX-License-Identifier: Apache-2.0
// tessera info
#include <CLI/CLI.hpp>
#include <cstdio>
#include <fstream>
#include <string>
#include <thread>

#include "commands.h"
#include "tessera/device.h"
#include "tessera/threads.h"
#include "tessera/version.h"

namespace tessera::cli {

namespace {
// Vector instruction sets that the machine has, of those that kernels are compiled for.
std::string instruction_sets() {
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  while (std::getline(file, line)) {
    if (line.rfind("flags", 0) != 0 && line.rfind("Features", 0) != 0) continue;
    line += ' ';
    std::string out;
    for (const char* name : {"sse4_2", "avx2", "fma", "f16c", "avx512f", "avx512_bf16", "amx_tile", "asimd", "sve"}) {
      if (line.find(" " + std::string(name) + " ") == std::string::npos) continue;
      out += out.empty() ? "" : " ";
      out += name;
    }
    return out.empty() ? "none" : out;
  }
  return "unknown";
}

void info() {
  Client client = Client::current();
  std::printf("Tessera %s\n", version());
  std::printf("engines: %s\n", std::string(client.platform()).c_str());
  std::printf("devices: %zu\n", client.devices().size());
  for (const auto& d : client.devices()) {
    if (d.id() < 16) std::printf("  %s\n", to_string(d).c_str());
  }
  if (client.devices().size() > 16) std::printf("  ...\n");
  std::printf("cores: %u\n", std::thread::hardware_concurrency());
  std::printf("threads: %d\n", num_threads());
  std::printf("instruction sets: %s\n", instruction_sets().c_str());
}
}  // namespace

void add_info(CLI::App& app) {
  app.add_subcommand("info", "Version, engines, devices, instruction sets")->callback(info);
}

}  // namespace tessera::cli
