// SPDX-License-Identifier: Apache-2.0
// Values that are computed again where memory is short: what is predicted, what then runs, and with which values.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "ir/builder.h"
#include "ops/ops.h"
#include "planner/recompute/recompute.h"
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

// A step of gradient descent: the loss and the arguments after it, the last of which is not trained.
Arrays descended(const Arrays& all, const std::function<Array(const Arrays&)>& loss) {
  const Arrays parameters(all.begin(), all.end() - 1);
  auto [value, g] = value_and_grad(loss)(parameters);
  Arrays out{value};
  for (std::size_t i = 0; i < parameters.size(); ++i) out.push_back(parameters[i] - 0.1 * g[i]);
  return out;
}

// Of a perceptron: matrices up and down by turns, then the batch.
Arrays trained(const Arrays& all) {
  return descended(all, [&](const Arrays& p) {
    Array h = all.back();
    for (std::size_t i = 0; i < p.size(); i += 2) h = h + matmul(tanh(matmul(h, p[i])), p[i + 1]);
    return mean(h * h);
  });
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
    return descended(all, [&](const Arrays& p) { return loss(p, all.back()); });
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
  std::vector<HostArray> arguments() const {
    const ClientScope scope(test::client_with(1));
    std::vector<HostArray> out;
    for (const auto& s : shapes()) {
      out.push_back((0.1 * random::normal(random::key(static_cast<std::int64_t>(out.size())), s)).host());
    }
    out.push_back(random::randint(random::key(99), {rows, length}, 0, vocabulary).host());
    return out;
  }
};

using Program = std::function<Arrays(const Arrays&)>;

// What the pool of a fresh client held at most while the program ran, the plan that it had, and its results.
struct Outcome {
  ShardingPlan plan;
  std::int64_t measured = 0;
  std::int64_t between = 0;  // predicted, beside arguments and results
  std::vector<HostArray> values;
};
Outcome outcome(const Program& f, const std::vector<HostArray>& arguments, std::int64_t devices, std::int64_t limit) {
  const Client client = Client::cpu({.devices = devices});
  const ClientScope scope(client);
  const Mesh mesh = make_mesh({devices}, "x");
  auto planned = jit(f, {.in_shardings = automatic(test::slow_node(), {.memory_limit = limit, .mesh = mesh})});
  const auto lowered = planned.lower(placed(arguments));
  Outcome out{lowered.sharding_plan()};
  const CompiledMemoryStats memory = lowered.compile().memory_analysis();
  EXPECT_EQ(memory.peak_memory_in_bytes, out.plan.peak_memory);
  out.between = memory.temp_size_in_bytes;
  EXPECT_EQ(lowered.simulate(test::slow_node()).peak_memory(), out.plan.peak_memory);
  EXPECT_NEAR(lowered.simulate(test::slow_node()).step, out.plan.step, 1e-9);
  const Arrays results = planned(placed(arguments));
  for (const auto& r : results) r.block_until_ready();
  out.measured = runtime::runtime_of(client).memory->stats().peak_bytes;
  for (const auto& r : results) out.values.push_back(r.host());
  return out;
}
std::int64_t of(double share, std::int64_t bytes) {
  return static_cast<std::int64_t>(share * static_cast<double>(bytes));
}
void expect_same_bits(const std::vector<HostArray>& found, const std::vector<HostArray>& wanted) {
  ASSERT_EQ(found.size(), wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) EXPECT_TRUE(identical(found[i], wanted[i])) << i;
}
// Beside the largest element.
double difference(const HostArray& found, const HostArray& wanted) {
  const auto a = found.to_vector<float>(), b = wanted.to_vector<float>();
  double most = 0, size = 1e-30;
  for (std::size_t i = 0; i < b.size(); ++i) {
    most = std::max(most, std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
    size = std::max(size, std::abs(static_cast<double>(b[i])));
  }
  return most / size;
}

std::size_t count(const std::string& text, const std::string& what) {
  std::size_t n = 0;
  for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
  return n;
}

// Computed again once, however many read it late; what it is computed from passes a barrier. Copies of an argument are
// read through a barrier, too.
TEST(Recompute, WritesEquationsBeforeTheirLateReaders) {
  ir::Builder b;
  const ir::Value x = b.input({DType::F32, {4, 4}}), w = b.input({DType::F32, {4, 4}});
  const ir::Value early = ops::tanh(x);
  const ir::Value product = ops::mul(early, w);
  const ir::Value late = ops::mul(early, product);
  const ir::Value later = ops::mul(late, early);
  const ir::GraphPtr g = b.finish_shared(ir::Values{ops::mul(later, w)});
  const auto at = [&](std::size_t i) { return g->eqns[i].out[0]; };
  const std::string again = ir::to_string(*planner::with_recomputations(g, {{at(0), 1, false}}));
  EXPECT_EQ(count(again, "tanh"), 2U) << again;
  EXPECT_EQ(count(again, "optimization_barrier"), 1U) << again;
  EXPECT_LT(again.find("mul"), again.rfind("tanh")) << again;
  EXPECT_LT(again.rfind("tanh"), again.rfind("mul")) << again;
  const std::string copies = ir::to_string(*planner::with_recomputations(g, {{g->inputs[1], 2, true}}));
  EXPECT_EQ(count(copies, "tanh"), 1U) << copies;
  EXPECT_EQ(count(copies, "optimization_barrier"), 1U) << copies;
  EXPECT_EQ(planner::with_recomputations(g, {}), g);
}

TEST(Recompute, OneDeviceFitsBelowItsPeak) {
  const auto arguments = perceptron(2048, 64, 256, 6);
  const Outcome roomy = outcome(trained, arguments, 1, 0);
  EXPECT_TRUE(roomy.plan.recomputed.empty());
  EXPECT_EQ(roomy.plan.kept_memory, 0);
  for (const double share : {0.9, 0.7, 0.5}) {
    const std::int64_t limit = of(share, roomy.plan.peak_memory);
    const Outcome tight = outcome(trained, arguments, 1, limit);
    EXPECT_LE(tight.plan.peak_memory, limit);
    EXPECT_LE(tight.measured, limit);
    EXPECT_LT(tight.plan.step, 1.2 * roomy.plan.step);
    EXPECT_GE(tight.plan.step, roomy.plan.step);
    EXPECT_EQ(tight.plan.kept_memory, roomy.plan.peak_memory);
    EXPECT_EQ(tight.plan.kept_step, roomy.plan.step);
    ASSERT_FALSE(tight.plan.recomputed.empty());
    EXPECT_TRUE(test::has(tight.plan.text, {"computed again", "planner_more_test_recompute.cc", "less for"}));
    expect_same_bits(tight.values, roomy.values);
    if (share > 0.5) continue;
    // What fusion keeps out of memory anyway is not missed there; all else is.
    const auto& freed = tight.plan.recomputed;
    auto stored = std::ranges::find(freed, "tanh", &PlannedRecomputation::op);
    ASSERT_NE(stored, freed.end());
    EXPECT_NEAR(static_cast<double>(roomy.measured - tight.measured), static_cast<double>(stored->bytes), 64e3);
  }
}

TEST(Recompute, TransformerOverEightDevices) {
  const Transformer t;
  const auto arguments = t.arguments();
  const Program f = [&](const Arrays& a) { return t.step(a); };
  const Outcome roomy = outcome(f, arguments, 8, 0);
  const Outcome alone = outcome(f, arguments, 1, 0);
  for (const double share : {0.8, 0.6}) {
    const std::int64_t limit = of(share, roomy.plan.peak_memory);
    const Outcome tight = outcome(f, arguments, 8, limit);
    EXPECT_LE(tight.plan.peak_memory, limit);
    EXPECT_LT(tight.plan.step, 1.25 * roomy.plan.step) << tight.plan.text;
    EXPECT_LE(tight.measured, 8 * limit);
    // Shards of all devices together, beside arguments before they are split.
    const auto predicted = static_cast<double>(8 * (roomy.plan.peak_memory - tight.plan.peak_memory));
    EXPECT_GT(static_cast<double>(roomy.measured - tight.measured), 0.15 * predicted);
    for (std::size_t i = 0; i < alone.values.size(); ++i) {
      EXPECT_LT(difference(tight.values[i], alone.values[i]), 1e-4) << i;
    }
  }
}

TEST(Recompute, WhatNothingFitsIntoNamesTheLeastPeak) {
  const auto arguments = perceptron(1024, 32, 128, 3);
  const std::string message = test::error_of<ValueError>([&] { outcome(trained, arguments, 1, 1); });
  const std::string before = "the least peak that was found is ";
  const auto at = message.find(before);
  ASSERT_NE(at, std::string::npos) << message;
  const std::int64_t least = std::stoll(message.substr(at + before.size()));
  const Outcome roomy = outcome(trained, arguments, 1, 0);
  EXPECT_LT(least, of(0.6, roomy.plan.peak_memory));
  const Outcome tightest = outcome(trained, arguments, 1, least);
  EXPECT_LE(tightest.plan.peak_memory, least);
  expect_same_bits(tightest.values, roomy.values);
}

// A training step of layers of random kinds, some of which read what earlier ones have made; square matrices, then
// rows.
struct RandomNet {
  std::uint64_t seed;
  static constexpr std::int64_t kWidth = 32, kRows = 512;

  Arrays step(const Arrays& all) const {
    return descended(all, [&](const Arrays& p) { return loss(p, all.back()); });
  }
  Array loss(const Arrays& p, const Array& rows) const {
    std::mt19937_64 rng(seed);
    Arrays made{rows};
    for (const Array& w : p) {
      const Array& h = made.back();
      const Array& other = made[rng() % made.size()];
      switch (rng() % 6) {
        case 0:
          made.push_back(tanh(matmul(h, w)));
          break;
        case 1:
          made.push_back(other + nn::gelu(matmul(h, w)));
          break;
        case 2:
          made.push_back(matmul(h * tanh(other), w));
          break;
        case 3:
          made.push_back(softmax(matmul(h, w), -1) * 4.0 - other);
          break;
        case 4:
          made.push_back(other + matmul(tanh(matmul(h, w)), transpose(w)));
          break;
        default:
          made.push_back(nn::relu(matmul(h - mean(h, {.axis = Dims{-1}, .keepdims = true}), w)) + other);
      }
    }
    return mean(made.back() * made.back()) + mean(tanh(made[made.size() / 2]));
  }
  std::vector<HostArray> arguments() const {
    const ClientScope scope(test::client_with(1));
    std::vector<HostArray> out;
    for (std::size_t i = 0; i < 4 + seed % 9; ++i) {
      out.push_back((0.18 * random::normal(random::key(static_cast<std::int64_t>(i)), {kWidth, kWidth})).host());
    }
    out.push_back(random::normal(random::key(99), {kRows, kWidth}).host());
    return out;
  }
};

// Programs one in so many: all where `make test-planner` asks for it.
TEST(Recompute, RandomProgramsFitOrAreRefused) {
  const std::uint64_t stride = std::getenv("TESSERA_ALL_PLANS") != nullptr ? 1 : 10;
  int fitted = 0, again = 0;
  for (std::uint64_t seed = 0; seed < 40; seed += stride) {
    const RandomNet net{seed};
    const Program f = [&](const Arrays& a) { return net.step(a); };
    const auto arguments = net.arguments();
    const Outcome alone = outcome(f, arguments, 1, 0);
    const std::int64_t devices = seed % 20 == 10 ? 8 : 1;
    const Outcome roomy = devices == 1 ? alone : outcome(f, arguments, devices, 0);
    for (const double share : {0.2, 0.4, 0.6, 0.8}) {
      const std::int64_t limit = roomy.plan.peak_memory - of(share, roomy.between);
      std::optional<Outcome> tight;
      const std::string message = test::error_of<ValueError>([&] { tight = outcome(f, arguments, devices, limit); });
      if (!tight) {
        EXPECT_NE(message.find("the least peak"), std::string::npos) << seed << ": " << message;
        continue;
      }
      ++fitted;
      again += tight->plan.recomputed.empty() ? 0 : 1;
      EXPECT_LE(tight->plan.peak_memory, limit) << seed;
      // Fusion keeps more out of memory than the prediction knows, and less where values are computed again.
      EXPECT_LE(tight->measured, std::max(devices * limit, of(1.2, roomy.measured))) << seed;
      if (devices == 1) expect_same_bits(tight->values, alone.values);
      for (std::size_t i = 0; i < alone.values.size(); ++i) {
        EXPECT_LT(difference(tight->values[i], alone.values[i]), 1e-4) << seed << " result " << i;
      }
    }
  }
  EXPECT_GT(again, fitted / 2);
}

// What the host sees happens as often as the program says; what comes from a callback is kept.
TEST(Recompute, EffectsAndCallbacksHappenOnce) {
  const Client client = Client::cpu({.devices = 1});
  const ClientScope scope(client);
  std::atomic<int> seen = 0, called = 0;
  auto f = [&](const Array& x) {
    const auto host = [&](const std::vector<HostArray>& in) {
      ++called;
      return in;
    };
    Array h = pure_callback(host, {ShapeDtype{x.shape(), float32}}, {x})[0];
    debug_callback([&](const std::vector<HostArray>&) { ++seen; }, {h});
    const Array a = tanh(h), b = matmul(a, a), c = matmul(b, b);
    return matmul(matmul(c, c), b) + matmul(a, h);
  };
  const Array x = 0.01 * random::normal(random::key(1), {256, 256});
  const auto peak = jit(f, {.in_shardings = automatic(test::slow_node(), {.devices = 1})}).lower(x).sharding_plan();
  const std::int64_t limit = peak.peak_memory - 256 * 256 * 4;
  auto tight = jit(f, {.in_shardings = automatic(test::slow_node(), {.memory_limit = limit, .devices = 1})});
  EXPECT_FALSE(tight.lower(x).sharding_plan().recomputed.empty());
  EXPECT_TRUE(identical(tight(x).host(), jit(f)(x).host()));
  EXPECT_EQ(called, 2);
  EXPECT_EQ(seen, 2);
}

}  // namespace
}  // namespace tessera
