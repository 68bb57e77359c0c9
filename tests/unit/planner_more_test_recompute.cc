// SPDX-License-Identifier: Apache-2.0
// Values that are computed again where memory is short: what is predicted, what then runs, and with which values.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "hlo/module.h"
#include "ir/graph.h"
#include "planner/recompute_choice.h"
#include "planner/search.h"
#include "runtime/buffer.h"
#include "runtime/engine.h"
#include "support/engine_programs.h"
#include "support/graphs.h"
#include "support/meshes.h"
#include "support/planned_programs.h"
#include "tessera/simulate.h"
#include "tessera/tessera.h"

namespace tessera {
namespace {

using test::Arrays;

// A step of gradient descent of a perceptron: matrices up and down by turns, then the batch.
Arrays trained(const Arrays& all) {
  const Arrays parameters(all.begin(), all.end() - 1);
  auto [value, g] = value_and_grad([&](const Arrays& p) {
    Array h = all.back();
    for (std::size_t i = 0; i < p.size(); i += 2) h = h + matmul(tanh(matmul(h, p[i])), p[i + 1]);
    return mean(h * h);
  })(parameters);
  Arrays out{value};
  for (std::size_t i = 0; i < parameters.size(); ++i) out.push_back(parameters[i] - 0.1 * g[i]);
  return out;
}
std::vector<HostArray> perceptron(std::int64_t rows, std::int64_t width, std::int64_t hidden, std::int64_t layers) {
  const ClientScope scope(test::client_with(1));
  std::vector<HostArray> out;
  auto add = [&](const Shape& shape, double scale) {
    out.push_back((scale * random::normal(random::key(static_cast<std::int64_t>(out.size())), shape)).host());
  };
  for (std::int64_t l = 0; l < layers; ++l) {
    add({width, hidden}, 0.1);
    add({hidden, width}, 0.1);
  }
  add({rows, width}, 1);
  return out;
}
Arrays placed(const std::vector<HostArray>& values) { return Arrays(values.begin(), values.end()); }

// What the pool of a fresh client held at most while the program ran, the plan that it had, and its results.
struct Outcome {
  ShardingPlan plan;
  std::int64_t measured = 0;
  std::vector<HostArray> values;
};
Outcome run(const std::vector<HostArray>& arguments, std::int64_t devices, std::int64_t limit) {
  const Client client = Client::cpu({.devices = devices});
  const ClientScope scope(client);
  auto f = jit(trained, {.in_shardings = automatic(test::slow_node(), {.memory_limit = limit, .devices = devices})});
  const Arrays in = placed(arguments);
  const auto lowered = f.lower(in);
  Outcome out{lowered.sharding_plan(), 0, {}};
  Arrays there;
  for (std::size_t i = 0; i < in.size(); ++i) there.push_back(device_put(in[i], out.plan.arguments[i]));
  EXPECT_EQ(lowered.compile().memory_analysis().peak_memory_in_bytes, out.plan.peak_memory);
  EXPECT_EQ(lowered.simulate(test::slow_node()).peak_memory(), out.plan.peak_memory);
  EXPECT_NEAR(lowered.simulate(test::slow_node()).step, out.plan.step, 1e-9);
  const Arrays results = f(there);
  for (const auto& r : results) r.block_until_ready();
  out.measured = runtime::runtime_of(client).memory->stats().peak_bytes;
  for (const auto& r : results) out.values.push_back(r.host());
  return out;
}

TEST(Recompute, OneDeviceFitsBelowItsPeak) {
  const auto arguments = perceptron(2048, 64, 256, 6);
  const Outcome roomy = run(arguments, 1, 0);
  EXPECT_TRUE(roomy.plan.recomputed.empty());
  for (const double share : {0.9, 0.7, 0.5}) {
    const auto limit = static_cast<std::int64_t>(share * static_cast<double>(roomy.plan.peak_memory));
    const Outcome tight = run(arguments, 1, limit);
    std::printf("%g: predicted %ld -> %ld, measured %ld -> %ld, step %g -> %g\n%s", share, roomy.plan.peak_memory,
                tight.plan.peak_memory, roomy.measured, tight.measured, roomy.plan.step, tight.plan.step,
                tight.plan.text.c_str());
    EXPECT_LE(tight.plan.peak_memory, limit);
    EXPECT_LT(tight.plan.step, 1.4 * roomy.plan.step);
    EXPECT_EQ(tight.plan.kept_memory, roomy.plan.peak_memory);
    EXPECT_EQ(tight.plan.kept_step, roomy.plan.step);
    EXPECT_FALSE(tight.plan.recomputed.empty());
    EXPECT_LE(tight.measured, limit);
    for (std::size_t i = 0; i < roomy.values.size(); ++i) EXPECT_TRUE(identical(tight.values[i], roomy.values[i])) << i;
  }
}

// Layers of attention and a perceptron; all arguments but the tokens are trained.
struct Transformer {
  std::int64_t width = 64, heads = 4, length = 64, vocabulary = 256, rows = 32;
  std::size_t layers = 2;

  Array loss(const Arrays& p, const Array& tokens) const {
    const auto normed = [](const Array& x) {
      const Array c = x - mean(x, {.axis = Dims{-1}, .keepdims = true});
      return c * rsqrt(mean(c * c, {.axis = Dims{-1}, .keepdims = true}) + 1e-5);
    };
    Array h = take(p[0], tokens, 0);
    for (std::size_t l = 0; l < layers; ++l) {
      const Array* w = &p[1 + 6 * l];
      const Array x = normed(h);
      const Array q = einsum("btd,dhe->bhte", {x, w[0]});
      const Array k = einsum("btd,dhe->bhte", {x, w[1]});
      const Array v = einsum("btd,dhe->bhte", {x, w[2]});
      const Array scores = softmax(einsum("bhte,bhse->bhts", {q, k}) * 0.25, -1);
      h = h + einsum("bhte,hed->btd", {einsum("bhts,bhse->bhte", {scores, v}), w[3]});
      h = h + matmul(nn::gelu(matmul(normed(h), w[4])), w[5]);
    }
    const Array logp = log_softmax(einsum("btd,vd->btv", {h, p[0]}), -1);
    return -mean(take_along_axis(logp, expand_dims(tokens, {-1}), -1));
  }
  Arrays step(const Arrays& all) const {
    const Arrays parameters(all.begin(), all.end() - 1);
    auto [value, g] = value_and_grad([&](const Arrays& p) { return loss(p, all.back()); })(parameters);
    Arrays out{value};
    for (std::size_t i = 0; i < parameters.size(); ++i) out.push_back(parameters[i] - 0.1 * g[i]);
    return out;
  }
  std::vector<Shape> shapes() const {
    std::vector<Shape> out{{vocabulary, width}};
    for (std::size_t l = 0; l < layers; ++l) {
      const Shape projection{width, heads, width / heads};
      out.insert(out.end(), {projection, projection, projection, {heads, width / heads, width}});
      out.insert(out.end(), {{width, 4 * width}, {4 * width, width}});
    }
    return out;
  }
  Arrays types() const {
    Arrays out;
    for (const auto& s : shapes()) out.push_back(without_data({s, float32}));
    out.push_back(without_data({{rows, length}, int32}));
    return out;
  }
};

TEST(Recompute, Deep) {
  if (std::getenv("DEEP") == nullptr) return;
  const Transformer t{.width = 4096, .heads = 32, .length = 2048, .vocabulary = 32000, .rows = 64, .layers = 48};
  std::printf("%s", jit([&](const Arrays& a) { return t.step(a); }).lower(t.types()).as_text().c_str());
}

}  // namespace
}  // namespace tessera
