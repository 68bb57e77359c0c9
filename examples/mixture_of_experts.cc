// SPDX-License-Identifier: Apache-2.0
// Trains a mixture of experts whose experts are split over a mesh axis. A router sends every token to one expert;
// tokens travel to the device of their expert and back by ragged all-to-alls, as many to each as there are, so none is
// dropped and none padded. The layer is compared with one that lets every expert see every token, and its training with
// that of a single network of an expert's size.
//
//   mixture_of_experts [PICTURE.svg]
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "plot.h"
#include "tessera/tessera.h"

namespace ts = tessera;
using ts::Array;
using ts::P;

namespace {

constexpr std::int64_t kExperts = 4, kTokens = 512, kWidth = 16, kHidden = 32, kSteps = 400;

struct Layer {
  Array router;    // (width, experts)
  Array up, down;  // (experts, width, hidden), (experts, hidden, width)
};

Array expert(const Array& x, const Array& up, const Array& down) {
  return ts::matmul(ts::nn::silu(ts::matmul(x, up)), down);
}

// Inside shard_map: the own tokens go to the devices of their experts, which stand along the axis "expert", and come
// back. A sender sorts its tokens by expert, so that what goes to one device is one range of rows; the devices tell
// each other how long the ranges are and where they land.
Array travel(const Array& tokens, const Array& choice, const Array& up, const Array& down) {
  const std::int64_t count = tokens.shape(0);
  auto exchange = [](const Array& a) { return ts::all_to_all(a, "expert", 0, 0, {.tiled = true}); };
  const Array order = ts::argsort(choice);
  const Array sizes = ts::sum(ts::one_hot(choice, kExperts, ts::int32), 0);
  const Array starts = ts::cumsum(sizes) - sizes;
  const Array received = exchange(sizes);
  const Array received_starts = ts::cumsum(received) - received;
  const Array room = ts::zeros({kExperts * count, kWidth});  // if all tokens chose this device
  const Array arrived = ts::ragged_all_to_all(ts::take(tokens, order, 0), room, starts, sizes,
                                              exchange(received_starts), received, "expert");
  const Array done = expert(arrived, ts::squeeze(up, {{0}}), ts::squeeze(down, {{0}}));
  const Array back =
      ts::ragged_all_to_all(done, ts::zeros_like(tokens), received_starts, received, exchange(starts), sizes, "expert");
  return ts::take(back, ts::argsort(order), 0);
}

// What every token makes of its expert. Without a mesh every expert sees every token and all but one are left out.
using Route = std::function<Array(Array tokens, Array choice, Array up, Array down)>;

Array see_all(const Array& tokens, const Array& choice, const Array& up, const Array& down) {
  const Array all = expert(ts::expand_dims(tokens, 0), up, down);
  return ts::einsum("etw,te->tw", {all, ts::one_hot(choice, kExperts)});
}

// A Switch layer (Fedus et al., 2021): the expert's output times its probability. Also: how unevenly tokens are spread.
std::pair<Array, Array> mixture(const Layer& p, const Array& x, const Route& route) {
  const Array probability = ts::softmax(ts::matmul(x, p.router));
  const Array choice = ts::argmax(probability, 1);
  const Array y = route(x, choice, p.up, p.down) * ts::max(probability, {.axis = {1}, .keepdims = true});
  const Array share = ts::mean(ts::one_hot(choice, kExperts), 0);
  return {y, kExperts * ts::sum(share * ts::mean(probability, 0))};
}

// Tokens of four kinds that lie around four centres. The task: a different linear map for each kind.
std::pair<Array, Array> batch(const Array& step) {
  const Array key = ts::random::fold_in(ts::random::key(1), step);
  const Array kind = ts::random::randint(ts::random::fold_in(key, 0), {kTokens}, 0, kExperts);
  const Array centres = ts::random::normal(ts::random::key(2), {kExperts, kWidth});
  const Array maps = ts::random::normal(ts::random::key(3), {kExperts, kWidth, kWidth}) / std::sqrt(1.0 * kWidth);
  const Array x = ts::take(centres, kind, 0) + 0.5 * ts::random::normal(ts::random::fold_in(key, 1), {kTokens, kWidth});
  const Array hot = ts::one_hot(kind, kExperts);
  return {x, ts::einsum("tw,ewv,te->tv", {x, maps, hot})};
}

// What is minimised, and the mean squared error alone.
std::pair<Array, Array> loss(const Layer& p, const Array& x, const Array& y, const Route& route) {
  const auto [out, imbalance] = mixture(p, x, route);
  const Array error = ts::mean(ts::square(out - y));
  return {error + 0.01 * imbalance, error};
}

Layer initial() {
  auto weights = [](int seed, const ts::Shape& shape, std::int64_t in) {
    return ts::random::normal(ts::random::key(seed), shape) / std::sqrt(static_cast<double>(in));
  };
  return {weights(4, {kWidth, kExperts}, kWidth), weights(5, {kExperts, kWidth, kHidden}, kWidth),
          weights(6, {kExperts, kHidden, kWidth}, kHidden)};
}

struct State {
  Layer params;
  ts::optim::AdamState<Layer> optimizer;
};

std::pair<State, Array> train_step(const State& s, const Array& x, const Array& y, const Route& route) {
  auto [values, g] = ts::value_and_grad_aux([&](const Layer& p) { return loss(p, x, y, route); })(s.params);
  auto [params, optimizer] = ts::optim::adam(s.params, g, s.optimizer, {.learning_rate = 1e-2});
  return {{params, optimizer}, values.second};
}

// The mean squared error before every step.
std::vector<float> train(const Layer& start, const ts::ShardingPtr& tokens, const Route& route) {
  auto step = ts::jit([&](const State& s, const Array& i) {
    auto [x, y] = batch(i);
    return train_step(s, ts::device_put(x, tokens), ts::device_put(y, tokens), route);
  });
  State s{start, ts::optim::adam_init(start)};
  std::vector<Array> errors;
  for (std::int64_t i = 0; i < kSteps; ++i) {
    auto [next, error] = step(s, i);
    s = next;
    errors.push_back(error);
  }
  std::vector<float> out;
  for (const auto& e : errors) out.push_back(e.item<float>());
  return out;
}

int run(const std::string& picture) {
  const ts::Mesh mesh = ts::make_mesh({2, 4}, {"data", "expert"});
  const P rows({"data", "expert"});
  const ts::ShardingPtr tokens = ts::NamedSharding(mesh, rows);
  const ts::ShardingPtr experts = ts::NamedSharding(mesh, P("expert"));
  const ts::ShardingPtr single = ts::SingleDeviceSharding(ts::devices()[0]);
  const Route split = ts::shard_map(travel, mesh, {rows, rows, P("expert"), P("expert")}, rows);
  const Route alone = [](const Array& x, const Array&, const Array& up, const Array& down) {
    return expert(x, up(0), down(0));
  };
  const Layer start = initial();
  const Layer placed{ts::device_put(start.router, ts::NamedSharding(mesh, P())), ts::device_put(start.up, experts),
                     ts::device_put(start.down, experts)};

  auto layer = ts::jit([&](const Layer& p, const Array& x) { return mixture(p, x, split).first; });
  std::cout << "what the layer sends:\n"
            << ts::to_string(layer.comm_plan(placed, ts::device_put(batch(Array(0)).first, tokens))) << '\n';
  const std::vector<float> many = train(placed, tokens, split);
  const std::vector<float> dense = train(start, single, see_all);
  const std::vector<float> one = train(start, single, alone);
  std::printf("%6s %24s %24s %16s\n", "step", "4 experts on 8 devices", "4 experts on 1 device", "one network");
  float apart = 0;
  for (std::size_t i = 0; i < many.size(); ++i) {
    if (i % 50 == 0 || i + 1 == many.size()) std::printf("%6zu %24.6f %24.6f %16.6f\n", i, many[i], dense[i], one[i]);
    apart = std::max(apart, std::abs(many[i] - dense[i]) / dense[i]);
  }
  plot::curves(picture, "Four experts beside one network of an expert's size", "step", "mean squared error",
               {{"mixture of experts over 8 devices", many}, {"one network", one}}, true);
  std::printf("8 devices and 1 device differ by %.1e at most; loss curves in %s\n", apart, picture.c_str());
  return apart < 1e-3F && many.back() < 0.02F && many.back() * 3 < one.back() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    ts::ClientScope eight(ts::Client::cpu({.devices = 8}));
    return run(argc > 1 ? argv[1] : "mixture_of_experts.svg");
  } catch (const std::exception& e) {
    std::cerr << e.what() << '\n';
    return 1;
  }
}
