// SPDX-License-Identifier: Apache-2.0
// The GPT-like training step alone, on as many virtual devices as asked for:
//   build/bench/gpt_step [devices [steps]]
// Prints the loss and the time of every chained step, and the memory high-water mark of the process.
#include <sys/resource.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "gpt.h"

namespace ts = tessera;

int main(int argc, char** argv) {
  try {
    std::int64_t devices = argc > 1 ? std::atoll(argv[1]) : 8;
    int steps = argc > 2 ? std::atoi(argv[2]) : 5;
    if (devices < 2 || devices % 2 != 0) throw ts::ValueError("gpt_step: devices must be even and at least 2");
    ts::ClientScope scope(ts::Client::cpu({.devices = devices}));
    auto mesh = ts::make_mesh({devices / 2, 2}, {"x", "y"});
    auto [state, tokens] = gpt::state(mesh);
    auto step = ts::jit(gpt::step);
    for (int i = 0; i < steps; ++i) {
      auto start = std::chrono::steady_clock::now();
      auto [next, loss] = step(state, tokens);
      float value = loss.item<float>();
      double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      state = next;
      std::printf("step %d  loss %.6f  %.1f ms\n", i, static_cast<double>(value), seconds * 1e3);
      std::fflush(stdout);
    }
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    std::printf("devices %lld  peak memory %.2f GB\n", static_cast<long long>(devices),
                static_cast<double>(usage.ru_maxrss) / 1048576.0);
    return 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
