// SPDX-License-Identifier: Apache-2.0
#include "gpt.h"
#include "inputs.h"
#include "workload.h"

namespace tessera::bench {

namespace {

auto make_step(bool remat) {
  return [remat](const gpt::State& s, const Array& tokens) { return gpt::step(s, tokens, remat); };
}

// Products of the forward pass, and twice as many of the backward pass.
double products(std::int64_t devices) {
  auto rows = static_cast<double>(gpt::batch(devices) * gpt::kLength);
  constexpr double d = gpt::kWidth;
  double block = rows * (d * 3 * d + d * d + 2 * d * 4 * d) + 2 * rows * gpt::kLength * d;
  return 3 * 2 * (gpt::kLayers * block + rows * d * gpt::kVocabulary);
}

// Results in any order but for the first, from which the peer prints elements: its trees are ordered by name.
std::vector<Array> in_order(const std::pair<gpt::State, Array>& result) {
  std::vector<Array> leaves{result.first.p.blocks[0].down};
  for (const Array& a : tree_leaves(result)) {
    if (a.impl() != leaves[0].impl()) leaves.push_back(a);
  }
  return leaves;
}

Result step(const Settings& s) {
  auto [state, tokens] = gpt::state(mesh2(s.devices));
  auto f = jit(make_step(s.remat));
  std::vector<double> losses;
  {
    gpt::State chained = state;
    for (int i = 0; i < 5; ++i) {
      auto [next, loss] = f(chained, tokens);
      chained = next;
      losses.push_back(static_cast<double>(loss.item<float>()));
    }
  }
  auto once = [f, state = state, tokens = tokens] {
    std::vector<Array> results = in_order(f(state, tokens));
    for (const Array& r : results) r.block_until_ready();
    return results;
  };
  Result r = timed(s, once, {.flops = products(s.devices)}, 1);
  r.check.losses = losses;
  return r;
}

}  // namespace

void add_training(std::vector<Workload>& list) {
  list.push_back({"gpt_step_alldev", step});
  list.push_back(
      {"gpt_trace_lower", [](const Settings& s) {
         auto [state, tokens] = gpt::state(mesh2(s.devices));
         return each(
             5, [&](std::int64_t) { return microseconds([&] { jit(make_step(s.remat)).lower(state, tokens); }); }, {});
       }});
  list.push_back({"gpt_first_step", [](const Settings& s) {
                    auto [state, tokens] = gpt::state(mesh2(s.devices));
                    return each(3,
                                [&](std::int64_t) {
                                  return microseconds([&] {
                                    auto result = jit(make_step(s.remat))(state, tokens);
                                    for (const Array& a : tree_leaves(result)) a.block_until_ready();
                                  });
                                },
                                {.flops = products(s.devices)});
                  }});
}

}  // namespace tessera::bench
