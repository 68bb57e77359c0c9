// SPDX-License-Identifier: Apache-2.0
// Trains a classifier of handwritten digits on a 4x2 mesh of virtual devices, data x model parallel; compares its
// losses with the same training on one device; saves the weights and reads them back on another mesh. Started by
// mpirun, it trains on two devices of every process and compares with the training of one process.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "tessera/tessera.h"

namespace ts = tessera;
using ts::Array;
using ts::P;

namespace {

constexpr std::int64_t kBatch = 96, kEpochs = 16, kHeldOut = 360;

struct Dense {
  Array w, b;
};
struct Model {
  Dense conv1, conv2, hidden, out;
};
struct State {
  Model p, velocity;
};

// 3x3 convolution that keeps the size, written as one product with the nine shifted images.
Array conv3x3(const Array& x, const Dense& d) {
  std::int64_t n = x.shape(0);
  std::int64_t h = x.shape(1);
  std::int64_t w = x.shape(2);
  std::int64_t c = x.shape(3);
  Array padded = ts::lax::pad(x, 0.0, {{}, {1, 1}, {1, 1}, {}});
  std::vector<Array> shifted;
  for (std::int64_t i = 0; i < 3; ++i) {
    for (std::int64_t j = 0; j < 3; ++j) shifted.push_back(ts::lax::slice(padded, {0, i, j, 0}, {n, i + h, j + w, c}));
  }
  return ts::matmul(ts::concatenate(shifted, 3), d.w) + d.b;
}

// 2x2 mean. Mean and silu are smooth, so that losses of different partitions stay close: a maximum or a relu may break
// a tie by the last bit, and then a whole gradient goes another way.
Array pool(const Array& x) {
  std::int64_t n = x.shape(0);
  return ts::mean(ts::reshape(x, {n, x.shape(1) / 2, 2, x.shape(2) / 2, 2, x.shape(3)}), {.axis = {2, 4}});
}

Array silu(const Array& x) { return x * ts::logistic(x); }

Array logits(const Model& m, const Array& images) {
  ts::NamedScope scope("classifier");
  Array x = silu(conv3x3(images, m.conv1));
  x = pool(silu(conv3x3(x, m.conv2)));
  x = ts::reshape(x, {x.shape(0), -1});
  x = silu(ts::matmul(x, m.hidden.w) + m.hidden.b);
  return ts::matmul(x, m.out.w) + m.out.b;
}

// Cross entropy with a tenth of the weight spread over all classes: it never asks for infinite logits.
Array loss(const Model& m, const Array& images, const Array& labels) {
  Array target = 0.9 * ts::one_hot(labels, 10) + 0.01;
  return -ts::mean(ts::sum(target * ts::log_softmax(logits(m, images)), -1));
}

// Stochastic gradient descent with momentum.
std::pair<State, Array> train_step(const State& s, const Array& images, const Array& labels) {
  auto [value, g] = ts::value_and_grad(loss)(s.p, images, labels);
  State next;
  next.velocity = ts::tree_map([](const Array& v, const Array& d) { return 0.9 * v + d; }, s.velocity, g);
  next.p = ts::tree_map([](const Array& w, const Array& v) { return w - 0.05 * v; }, s.p, next.velocity);
  return {next, value};
}

// Weights split over "model" by columns, then by rows: one sum for each pair of layers.
ts::ShardingPtr placed(const ts::Mesh& mesh, const P& spec) { return ts::NamedSharding(mesh, spec); }

Model initial(const ts::Mesh& mesh) {
  std::mt19937 random(1);
  auto weights = [&](std::int64_t in, std::int64_t out, const P& spec) {
    std::normal_distribution<float> normal(0.0F, std::sqrt(2.0F / static_cast<float>(in)));
    std::vector<float> v(static_cast<std::size_t>(in * out));
    for (auto& x : v) x = normal(random);
    return ts::device_put(ts::HostArray::from(v, {in, out}), placed(mesh, spec));
  };
  auto bias = [&](std::int64_t n, const P& spec) {
    return ts::device_put(ts::HostArray::from(std::vector<float>(static_cast<std::size_t>(n)), {n}),
                          placed(mesh, spec));
  };
  return {{weights(9, 16, P()), bias(16, P())},
          {weights(9 * 16, 32, P(ts::none, "model")), bias(32, P("model"))},
          {weights(4 * 4 * 32, 128, P(ts::none, "model")), bias(128, P("model"))},
          {weights(128, 10, P("model", ts::none)), bias(10, P())}};
}

struct Data {
  std::vector<float> images;  // 8x8 each, in [0, 1]
  std::vector<std::int32_t> labels;
  std::vector<std::int64_t> order;  // a fixed permutation: the last fifth is held out
  std::int64_t count() const { return static_cast<std::int64_t>(labels.size()); }

  std::pair<Array, Array> batch(const std::vector<std::int64_t>& rows, const ts::Mesh& mesh) const {
    std::vector<float> x;
    std::vector<std::int32_t> y;
    for (auto r : rows) {
      x.insert(x.end(), images.begin() + r * 64, images.begin() + (r + 1) * 64);
      y.push_back(labels[static_cast<std::size_t>(r)]);
    }
    auto n = static_cast<std::int64_t>(rows.size());
    return {ts::device_put(ts::HostArray::from(x, {n, 8, 8, 1}), placed(mesh, P("data"))),
            ts::device_put(ts::HostArray::from(y, {n}), placed(mesh, P("data")))};
  }
};

Data load(const std::string& path) {
  auto file = ts::load_npz(path);
  Data d;
  for (const char* name : {"images", "labels"}) {
    if (!file.contains(name)) throw ts::ValueError("digits: \"" + path + "\" has no array \"" + name + "\"");
  }
  d.images = file["images"].astype(ts::float32).to_vector<float>();
  for (auto& v : d.images) v /= 16.0F;
  d.labels = file["labels"].astype(ts::int32).to_vector<std::int32_t>();
  d.order.resize(d.labels.size());
  std::iota(d.order.begin(), d.order.end(), 0);
  std::shuffle(d.order.begin(), d.order.end(), std::mt19937(7));
  return d;
}

struct Outcome {
  Model model;
  std::vector<float> losses;
};

Outcome train(const Data& data, const ts::Mesh& mesh, bool show) {
  State s{initial(mesh), {}};
  s.velocity = ts::tree_map([](const Array& a) { return ts::zeros_like(a); }, s.p);
  auto step = ts::jit(train_step, {.name = "train_step", .donate_argnums = {0}});
  std::vector<std::int64_t> rows(data.order.begin(), data.order.end() - kHeldOut);
  std::mt19937 random(11);
  Outcome out;
  auto start = std::chrono::steady_clock::now();
  std::optional<ts::ProgressBar> bar;
  bar.emplace("training on " + std::to_string(mesh.size()) + (mesh.size() == 1 ? " device" : " devices"), kEpochs);
  for (std::int64_t epoch = 0; epoch < kEpochs; ++epoch) {
    std::shuffle(rows.begin(), rows.end(), random);
    std::vector<Array> losses;
    for (std::size_t at = 0; at + kBatch <= rows.size(); at += kBatch) {
      auto [images, labels] = data.batch(
          {rows.begin() + static_cast<std::ptrdiff_t>(at), rows.begin() + static_cast<std::ptrdiff_t>(at + kBatch)},
          mesh);
      if (show && epoch == 0 && at == 0) {
        std::cout << "communication of one training step, by user line:\n"
                  << ts::to_string(step.comm_plan(s, images, labels)) << "\n";
      }
      auto [next, value] = step(s, images, labels);
      s = next;
      losses.push_back(value);
    }
    for (const auto& l : losses) out.losses.push_back(l.item<float>());
    bar->update(epoch + 1, "loss " + std::to_string(out.losses.back()));
  }
  bar.reset();  // the line is free again
  if (show) {
    std::printf("%lld epochs  loss %.4f  %.1f s\n", static_cast<long long>(kEpochs), out.losses.back(),
                std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    std::fflush(stdout);
  }
  out.model = s.p;
  return out;
}

float largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) throw ts::ValueError("digits: the trainings have different numbers of steps");
  float worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i) worst = std::max(worst, std::abs(a[i] - b[i]) / std::abs(b[i]));
  return worst;
}

std::vector<std::int32_t> predict(const Data& data, const Model& m, const ts::Mesh& mesh) {
  std::vector<std::int64_t> rows(data.order.end() - kHeldOut, data.order.end());
  auto [images, labels] = data.batch(rows, mesh);
  std::vector<float> score = ts::jit(logits)(m, images).to_vector<float>();
  std::vector<std::int32_t> out;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    auto row = score.begin() + static_cast<std::ptrdiff_t>(i * 10);
    out.push_back(static_cast<std::int32_t>(std::max_element(row, row + 10) - row));
  }
  return out;
}

int run(const std::string& path, const std::string& weights) {
  Data data = load(path);
  ts::Client client = ts::Client::from_environment(8);
  ts::ClientScope scope(client);
  auto mesh = ts::make_mesh({4, 2}, {"data", "model"});
  std::cout << data.count() << " images, " << kHeldOut << " held out; mesh:\n" << ts::visualize_mesh(mesh);
  Model fresh = initial(mesh);
  std::cout << "hidden.w " << ts::to_string(fresh.hidden.w.shape()) << ":\n"
            << ts::visualize_array_sharding(fresh.hidden.w.sharding(), fresh.hidden.w.shape()) << "out.w "
            << ts::to_string(fresh.out.w.shape()) << ":\n"
            << ts::visualize_array_sharding(fresh.out.w.sharding(), fresh.out.w.shape());

  Outcome many = train(data, mesh, true);
  auto answers = predict(data, many.model, mesh);
  std::int64_t right = 0;
  for (std::size_t i = 0; i < answers.size(); ++i) {
    auto row = static_cast<std::size_t>(data.order[data.order.size() - kHeldOut + i]);
    right += answers[i] == data.labels[row] ? 1 : 0;
  }
  std::printf("accuracy: %.1f %%\n", 100.0 * static_cast<double>(right) / static_cast<double>(kHeldOut));

  // The same training on one device.
  auto single = ts::Mesh(ts::DeviceArray({client.devices()[0]}, {1, 1}), {"data", "model"});
  Outcome one = train(data, single, false);
  const float worst = largest_difference(many.losses, one.losses);
  std::printf("losses of 8 devices against 1 device: %zu steps, largest relative difference %.2e\n", one.losses.size(),
              worst);

  // The weights go to a file and come back on a mesh of two devices.
  ts::save_npz(weights, ts::named_leaves(many.model));
  auto pair =
      ts::make_mesh({2, 1}, {"data", "model"}, std::vector<ts::Device>{client.devices()[0], client.devices()[1]});
  Model again = ts::with_named_leaves(initial(pair), ts::load_npz(weights));
  bool equal = predict(data, again, pair) == answers;
  std::printf("weights saved to %s and reloaded on a 2x1 mesh: predictions %s\n", weights.c_str(),
              equal ? "equal" : "DIFFER");
  bool good = right * 100 >= kHeldOut * 97 && worst <= 1e-4F && equal;
  if (!good) std::cerr << "digits: expected accuracy >= 97 %, losses within 1e-4 and equal predictions\n";
  return good ? 0 : 1;
}

bool started_by_mpirun() {
  return std::getenv("OMPI_COMM_WORLD_SIZE") != nullptr || std::getenv("PMI_SIZE") != nullptr;
}

// Data parallel over the processes and model parallel over the two devices of each; then the same training by every
// process for itself, on one device.
int run_with_others(const std::string& path) {
  const Data data = load(path);
  ts::distributed::initialize({.devices = 2});
  const bool tells = ts::process_index() == 0;
  const Outcome many = train(data, ts::make_mesh({ts::process_count(), 2}, {"data", "model"}), tells);
  const ts::Mesh single(ts::DeviceArray({ts::local_devices()[0]}, {1, 1}), {"data", "model"});
  const Outcome one = train(data, single, false);
  const float worst = largest_difference(many.losses, one.losses);
  const bool good = worst <= 1e-4F;
  if (tells) {
    std::printf("%12s %23s %12s\n", "step", (std::to_string(ts::process_count()) + " processes x 2 devices").c_str(),
                "one process");
    for (std::size_t i = 0; i < one.losses.size(); ++i) {
      if (i % 16 == 0 || i + 1 == one.losses.size())
        std::printf("%12zu %23.7f %12.7f\n", i, many.losses[i], one.losses[i]);
    }
    std::printf("%zu steps, largest relative difference %.2e\n", one.losses.size(), worst);
  }
  if (!good) {
    std::cerr << "digits: process " << ts::process_index() << ": losses differ by " << worst
              << "; expected 1e-4 at most\n";
  }
  return good ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (started_by_mpirun()) return run_with_others(argc > 1 ? argv[1] : "examples/data/digits.npz");
    return run(argc > 1 ? argv[1] : "examples/data/digits.npz", argc > 2 ? argv[2] : "demo_weights.npz");
  } catch (const std::exception& e) {
    std::cerr << e.what() << "\n";
    return 1;
  }
}
