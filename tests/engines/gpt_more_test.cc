// SPDX-License-Identifier: Apache-2.0
// The training step of the workloads: five chained losses against the peer's.
#include <gtest/gtest.h>

#include <chrono>
#include <iostream>
#include <set>
#include <string>

#include "bench/workloads/gpt.h"

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

// What a plan moves, but for the forms of the values: a gradient may be transposed before or after it is completed.
std::multiset<std::string> moves(const CommPlan& plan) {
  std::multiset<std::string> out;
  for (const auto& step : plan.steps()) {
    std::string line = step.op + " " + std::to_string(step.bytes_per_device) + " x " + std::to_string(step.times);
    for (const auto& axis : step.axes) line += " " + axis;
    out.insert(std::move(line));
  }
  return out;
}

// Over explicit axes: the same losses and the same plan, all of which the program states.
TEST(Gpt, ExplicitAxesMoveWhatIsStated) {
  Client client = Client::cpu({.devices = 8});
  ClientScope scope(client);
  const auto automatic = make_mesh({4, 2}, {"x", "y"});
  const auto explicit_mesh = make_explicit_mesh({4, 2}, {"x", "y"});
  auto [auto_state, auto_tokens] = gpt::state(automatic);
  auto auto_step = jit([](const gpt::State& s, const Array& t) { return gpt::step(s, t); });
  const CommPlan plan = auto_step.comm_plan(auto_state, auto_tokens);
  std::vector<float> losses;
  for (int i = 0; i < 3; ++i) {
    auto [next, loss] = auto_step(auto_state, auto_tokens);
    losses.push_back(loss.item<float>());
    auto_state = next;
  }
  SetMesh set(explicit_mesh);
  auto [state, tokens] = gpt::state(explicit_mesh);
  auto step = jit([](const gpt::State& s, const Array& t) { return gpt::step(s, t, false, P("x")); });
  NoHiddenCommunication guard;
  const CommPlan typed = step.comm_plan(state, tokens);
  EXPECT_EQ(typed.bytes_per_device(), plan.bytes_per_device()) << to_string(typed) << to_string(plan);
  EXPECT_EQ(moves(typed), moves(plan));
  for (float expected : losses) {
    auto [next, loss] = step(state, tokens);
    EXPECT_NEAR(loss.item<float>(), expected, 1e-5 * expected);
    EXPECT_EQ(type_of(next.p.blocks[0].qkv).text(), "float32[256,768@y]");
    state = next;
  }
}

}  // namespace
}  // namespace tessera
