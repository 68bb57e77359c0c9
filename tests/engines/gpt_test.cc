// SPDX-License-Identifier: Apache-2.0
// The training step of the workloads: five chained losses against the peer's.
#include "bench/workloads/gpt.h"

#include <gtest/gtest.h>

#include <chrono>
#include <iostream>

namespace tessera {
namespace {

TEST(Gpt, ChainedLossesAreThePeers) {
  const std::vector<float> peer{6.296738624572754F, 6.009302139282227F, 5.7358808517456055F, 5.5628838539123535F,
                                5.382325649261475F};
  Client client = Client::cpu({.devices = 8});
  ClientScope scope(client);
  auto mesh = make_mesh({4, 2}, {"x", "y"});
  auto [state, tokens] = gpt::state(mesh);
  auto step = jit([](const gpt::State& s, const Array& t) { return gpt::step(s, t); });
  auto start = std::chrono::steady_clock::now();
  for (float expected : peer) {
    auto [next, loss] = step(state, tokens);
    EXPECT_NEAR(loss.item<float>(), expected, 1e-4 * expected);
    state = next;
    auto now = std::chrono::steady_clock::now();
    std::cout << "step " << std::chrono::duration<double, std::milli>(now - start).count() << " ms" << std::endl;
    start = now;
  }
  std::cout << step.comm_plan(state, tokens).steps().size() << " collectives\n";
  if (std::getenv("TESSERA_SHOW_PLAN"))
    std::cout << to_string(step.comm_plan(state, tokens)) << "\n" << step.lower(state, tokens).text() << "\n";
}

}  // namespace
}  // namespace tessera
