// SPDX-License-Identifier: Apache-2.0
// Trains a vision transformer on handwritten digits over a 4x2 mesh, data x tensor parallel. Its layers are one
// stacked set of weights that `scan` goes through, so the program does not grow with their number. The accuracy on
// held-out digits is printed, and the loss compared with the same training on one device.
//
//   vision_transformer [PICTURE.svg]
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "plot.h"
#include "tessera/tessera.h"

namespace ts = tessera;
using ts::Array;
using ts::P;

namespace {

constexpr std::int64_t kPatch = 2, kPatches = 16, kWidth = 32, kHeads = 4, kLayers = 4;
constexpr std::int64_t kBatch = 96, kEpochs = 10, kHeldOut = 360, kClasses = 10;

// All layers, one after the other along the first dimension.
struct Blocks {
  Array norm1, qkv, proj, norm2, up, down;
};
struct Model {
  Array patches, positions, norm, head;
  Blocks blocks;
};
struct State {
  Model params;
  ts::optim::AdamState<Model> optimizer;
};

// 8x8 images as 16 patches of 2x2 pixels.
Array patches(const Array& images) {
  const std::int64_t n = images.shape(0);
  const std::int64_t side = 8 / kPatch;
  Array x = ts::reshape(images, {n, side, kPatch, side, kPatch});
  return ts::reshape(ts::transpose(x, {0, 1, 3, 2, 4}), {n, kPatches, kPatch * kPatch});
}

Array normed(const Array& x, const Array& scale) { return ts::nn::layer_norm(x, scale, 0.0); }

Array block(const Array& x, const Blocks& b) {
  const Array qkv = ts::einsum("npw,wthd->tnphd", {normed(x, b.norm1), b.qkv});
  const Array mixed = ts::nn::dot_product_attention(qkv(0), qkv(1), qkv(2));
  const Array y = x + ts::einsum("nphd,hdw->npw", {mixed, b.proj});
  return y + ts::matmul(ts::nn::gelu(ts::matmul(normed(y, b.norm2), b.up)), b.down);
}

Array logits(const Model& m, const Array& images) {
  Array x = ts::matmul(patches(images), m.patches) + m.positions;
  auto layer = [](const Array& v, const Blocks& b) { return std::pair{block(v, b), std::monostate{}}; };
  x = ts::scan(layer, x, m.blocks).first;
  return ts::matmul(ts::mean(normed(x, m.norm), 1), m.head);
}

Array loss(const Model& m, const Array& images, const Array& labels) {
  const Array target = 0.9 * ts::one_hot(labels, kClasses) + 0.1 / kClasses;  // smoothed labels
  return -ts::mean(ts::sum(target * ts::log_softmax(logits(m, images)), -1));
}

std::pair<State, Array> train_step(const State& s, const Array& images, const Array& labels, const Array& rate) {
  auto [value, g] = ts::value_and_grad([&](const Model& m) { return loss(m, images, labels); })(s.params);
  auto [params, optimizer] = ts::optim::adamw(s.params, g, s.optimizer, {.learning_rate = rate, .weight_decay = 1e-2});
  return {{params, optimizer}, value};
}

// Tensor parallel: heads and hidden units are split over "model", so each block needs one sum after attention and one
// after its dense layers.
Model initial(const ts::Mesh& mesh) {
  int seed = 0;
  auto weights = [&](const ts::Shape& shape, double scale, const P& spec) {
    return ts::device_put(scale * ts::random::normal(ts::random::key(seed++), shape), ts::NamedSharding(mesh, spec));
  };
  auto ones = [&](const ts::Shape& shape) { return ts::device_put(ts::ones(shape), ts::NamedSharding(mesh, P())); };
  const auto none = ts::none;
  constexpr std::int64_t size = kWidth / kHeads;
  const double in = 1 / std::sqrt(static_cast<double>(kWidth));
  Model m;
  m.patches = weights({kPatch * kPatch, kWidth}, 0.5, P());
  m.positions = weights({kPatches, kWidth}, 0.2, P());
  m.norm = ones({kWidth});
  m.head = weights({kWidth, kClasses}, in, P());
  m.blocks = {ones({kLayers, kWidth}),
              weights({kLayers, kWidth, 3, kHeads, size}, in, P(none, none, none, "model")),
              weights({kLayers, kHeads, size, kWidth}, in / 2, P(none, "model")),
              ones({kLayers, kWidth}),
              weights({kLayers, kWidth, 4 * kWidth}, in, P(none, none, "model")),
              weights({kLayers, 4 * kWidth, kWidth}, in / 4, P(none, "model"))};
  return m;
}

struct Data {
  Array images, labels;  // on the host, in a fixed random order; the last are held out
};

Data load() {
  auto file = ts::load_npz("examples/data/digits.npz");
  std::vector<std::int32_t> order(static_cast<std::size_t>(file.at("labels").shape()[0]));
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), std::mt19937(7));
  const Array rows(ts::HostArray::from(order));
  return {ts::take(Array(file.at("images").astype(ts::float32)) / 16.0, rows, 0),
          ts::take(Array(file.at("labels").astype(ts::int32)), rows, 0)};
}

std::pair<Model, std::vector<float>> train(const Data& data, const ts::Mesh& mesh, std::int64_t steps) {
  State s;
  s.params = initial(mesh);
  s.optimizer = ts::optim::adam_init(s.params);
  const std::int64_t per_epoch = (data.labels.size() - kHeldOut) / kBatch;
  const auto rate = ts::optim::warmup_cosine_decay_schedule(0, 4e-3, 2 * per_epoch, kEpochs * per_epoch);
  auto step = ts::jit(train_step);
  const ts::ShardingPtr rows = ts::NamedSharding(mesh, P("data"));
  std::vector<Array> losses;
  Array order;
  for (std::int64_t i = 0; i < steps; ++i) {
    const std::int64_t at = i % per_epoch * kBatch;
    if (at == 0) order = ts::random::permutation(ts::random::key(100 + i), data.labels.size() - kHeldOut);
    const Array chosen = order(ts::span(at, at + kBatch));
    const Array images = ts::device_put(ts::take(data.images, chosen, 0), rows);
    const Array labels = ts::device_put(ts::take(data.labels, chosen, 0), rows);
    if (i == 0 && mesh.size() > 1) {
      const ts::CommPlan plan = step.comm_plan(s, images, labels, rate(0));
      std::printf("a step sends %lld bytes to a device in %zu collectives, %lld of them sums\n",
                  static_cast<long long>(plan.bytes_per_device()), plan.steps().size(),
                  static_cast<long long>(plan.count("all_reduce")));
    }
    auto [next, value] = step(s, images, labels, rate(i));
    s = next;
    losses.push_back(value);
  }
  std::vector<float> out;
  for (const auto& l : losses) out.push_back(l.item<float>());
  return {s.params, out};
}

double accuracy(const Model& m, const Data& data) {
  const Array images = data.images(ts::span(-kHeldOut, {}));
  const Array labels = data.labels(ts::span(-kHeldOut, {}));
  const Array right = ts::jit([](const Model& model, const Array& x, const Array& y) {
    return ts::mean(ts::astype(ts::argmax(logits(model, x), 1) == y, ts::float32));
  })(m, images, labels);
  return 100.0 * right.item<double>();
}

int run(const std::string& picture) {
  const Data data = load();
  const ts::Mesh mesh = ts::make_mesh({4, 2}, {"data", "model"});
  const ts::Mesh single = ts::make_mesh({1, 1}, {"data", "model"}, ts::devices().first(1));
  const std::int64_t steps = kEpochs * ((data.labels.size() - kHeldOut) / kBatch);
  const auto [model, losses] = train(data, mesh, steps);
  const auto one = train(data, single, 40).second;  // then rounding has grown: the comparison ends
  float apart = 0;
  for (std::size_t i = 0; i < one.size(); ++i) apart = std::max(apart, std::abs(losses[i] - one[i]) / one[i]);
  const double percent = accuracy(model, data);
  plot::curves(picture, "A vision transformer on handwritten digits, over 4 x 2 devices", "step", "loss",
               {{"training loss", losses}});
  std::printf("%lld steps, loss %.3f to %.3f; accuracy on %lld held-out digits: %.1f %%\n",
              static_cast<long long>(steps), losses.front(), losses.back(), static_cast<long long>(kHeldOut), percent);
  std::printf("losses of 8 devices and of 1 differ by %.1e in %zu steps; loss curve in %s\n", apart, one.size(),
              picture.c_str());
  return percent >= 95 && apart < 1e-3F ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    ts::ClientScope eight(ts::Client::cpu({.devices = 8}));
    return run(argc > 1 ? argv[1] : "vision_transformer.svg");
  } catch (const std::exception& e) {
    std::cerr << e.what() << '\n';
    return 1;
  }
}
