// SPDX-License-Identifier: Apache-2.0
// A language model of characters that reads "Alice's Adventures in Wonderland" and goes on writing. Trained over a
// 2x2x2 mesh: the batch is split over "data", heads and hidden units over "model", the characters of a row over "seq".
// Layers are stacked and gone through by `scan`. The training is compared with one device's, and repeated from a
// checkpoint on another mesh.
//
//   text_model [STEPS [CURVE.svg [PLAN.html]]]      600 steps, a minute on two cores, write readable words
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <random>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "plot.h"
#include "tessera/pictures.h"
#include "tessera/tessera.h"

namespace ts = tessera;
using ts::Array;
using ts::P;

namespace {

constexpr std::int64_t kWidth = 96, kHeads = 4, kSize = kWidth / kHeads, kLayers = 3, kLength = 64, kBatch = 32;
constexpr std::int64_t kHeldOut = 8000;  // characters at the end of the text

// All layers, one after the other along the first dimension.
struct Blocks {
  Array norm1, qkv, proj, norm2, up, down;
};
struct Model {
  Array embed, positions, norm, head;
  Blocks blocks;
};
struct State {
  Model params;
  ts::optim::AdamState<Model> optimizer;
};

Array normed(const Array& x, const Array& scale) { return ts::nn::layer_norm(x, scale, 0.0); }

// Queries stay split over "seq"; attention needs the keys and values of whole rows.
Array block(const Array& x, const Blocks& b, const ts::ShardingPtr& whole_rows) {
  const Array qkv = ts::einsum("nlw,wthd->tnlhd", {normed(x, b.norm1), b.qkv});
  const Array keys = ts::with_sharding_constraint(qkv(1), whole_rows);
  const Array values = ts::with_sharding_constraint(qkv(2), whole_rows);
  const Array mixed = ts::nn::dot_product_attention(qkv(0), keys, values, {.is_causal = true});
  const Array y = x + ts::einsum("nlhd,hdw->nlw", {mixed, b.proj});
  return y + ts::matmul(ts::nn::gelu(ts::matmul(normed(y, b.norm2), b.up)), b.down);
}

Array logits(const Model& m, const Array& text, const ts::Mesh& mesh) {
  const ts::ShardingPtr whole_rows = ts::NamedSharding(mesh, P(ts::unconstrained, ts::none, "model"));
  auto layer = [&](const Array& x, const Blocks& b) { return std::pair{block(x, b, whole_rows), std::monostate{}}; };
  const Array x = ts::scan(layer, ts::take(m.embed, text, 0) + m.positions, m.blocks).first;
  return ts::matmul(normed(x, m.norm), m.head);
}

// Mean cross entropy of the next character, in nats.
Array loss(const Model& m, const Array& text, const Array& next, const ts::Mesh& mesh) {
  const Array logp = ts::log_softmax(logits(m, text, mesh));
  return -ts::mean(ts::take_along_axis(logp, ts::expand_dims(next, -1), -1));
}

struct Text {
  std::string characters;         // that occur, in order
  std::vector<std::int32_t> ids;  // of the whole text

  // Rows of text that begin at these places, and their next characters.
  std::pair<Array, Array> rows(const std::vector<std::size_t>& places, const ts::Mesh& mesh) const {
    std::vector<std::int32_t> now;
    std::vector<std::int32_t> next;
    for (std::size_t at : places) {
      const auto begin = ids.begin() + static_cast<std::ptrdiff_t>(at);
      now.insert(now.end(), begin, begin + kLength);
      next.insert(next.end(), begin + 1, begin + kLength + 1);
    }
    const ts::ShardingPtr split = ts::NamedSharding(mesh, P("data", "seq"));
    const auto n = static_cast<std::int64_t>(places.size());
    return {ts::device_put(ts::HostArray::from(now, {n, kLength}), split),
            ts::device_put(ts::HostArray::from(next, {n, kLength}), split)};
  }
  // Follows from the step alone, so that a training that goes on sees what it would have seen.
  std::pair<Array, Array> batch(std::int64_t step, const ts::Mesh& mesh) const {
    std::mt19937 random(static_cast<std::uint32_t>(step));
    std::vector<std::size_t> places;
    for (std::int64_t i = 0; i < kBatch; ++i) places.push_back(random() % (ids.size() - kHeldOut - kLength - 1));
    return rows(places, mesh);
  }
  std::pair<Array, Array> held_out(const ts::Mesh& mesh) const {
    std::vector<std::size_t> places;
    for (std::int64_t i = 0; i < 64; ++i) places.push_back(ids.size() - kHeldOut + static_cast<std::size_t>(i) * 120);
    return rows(places, mesh);
  }
};

std::string read(const std::string& path) {
  std::ifstream in(path);
  if (!in) throw ts::ValueError("text_model: cannot read " + path);
  return {std::istreambuf_iterator<char>(in), {}};
}

Text encode(const std::string& text) {
  const std::set<char> used(text.begin(), text.end());
  Text t{{used.begin(), used.end()}, {}};
  for (char c : text) t.ids.push_back(static_cast<std::int32_t>(t.characters.find(c)));
  return t;
}

State initial(const ts::Mesh& mesh, std::int64_t characters) {
  int seed = 0;
  auto weights = [&](const ts::Shape& shape, double scale, const P& spec = {}) {
    return ts::device_put(scale * ts::random::normal(ts::random::key(seed++), shape), ts::NamedSharding(mesh, spec));
  };
  auto ones = [&](const ts::Shape& shape) { return ts::device_put(ts::ones(shape), ts::NamedSharding(mesh, P())); };
  const auto none = ts::none;
  const double in = 1 / std::sqrt(static_cast<double>(kWidth));
  Model m;
  m.embed = weights({characters, kWidth}, 0.5);
  m.positions = weights({kLength, kWidth}, 0.5, P("seq"));
  m.norm = ones({kWidth});
  m.head = weights({kWidth, characters}, in);
  m.blocks = {ones({kLayers, kWidth}),
              weights({kLayers, kWidth, 3, kHeads, kSize}, in, P(none, none, none, "model")),
              weights({kLayers, kHeads, kSize, kWidth}, in / 2, P(none, "model")),
              ones({kLayers, kWidth}),
              weights({kLayers, kWidth, 4 * kWidth}, in, P(none, none, "model")),
              weights({kLayers, 4 * kWidth, kWidth}, in / 4, P(none, "model"))};
  return {m, ts::optim::adam_init(m)};
}

// Steps of a training of `all` steps.
auto step_of(const ts::Mesh& mesh, std::int64_t all) {
  return ts::jit([=](const State& s, const Array& text, const Array& next) {
    auto [value, g] = ts::value_and_grad([&](const Model& m) { return loss(m, text, next, mesh); })(s.params);
    const auto rate = ts::optim::warmup_cosine_decay_schedule(0, 4e-3, 20, all, 2e-4);
    auto [params, optimizer] = ts::optim::adamw(s.params, g, s.optimizer, {.learning_rate = rate(s.optimizer.step)});
    return std::pair{State{params, optimizer}, value};
  });
}

// The losses of steps first … last - 1 of `all`; the state becomes that after them.
std::vector<float> train(State* s, const Text& text, const ts::Mesh& mesh, std::array<std::int64_t, 3> steps) {
  const auto [first, last, all] = steps;
  auto step = step_of(mesh, all);
  std::vector<float> losses;
  for (std::int64_t i = first; i < last; ++i) {
    const auto [now, next] = text.batch(i, mesh);
    auto [state, value] = step(*s, now, next);
    *s = state;
    losses.push_back(value.item<float>());
  }
  return losses;
}

// Goes on from a row of text; the whole loop is one program.
std::string write_on(const Model& m, const Text& text, const Array& row, std::int64_t count, const ts::Mesh& mesh) {
  auto write = ts::jit([&](const Model& model, const Array& start) {
    auto one = [&](const Array& window, const Array& key) {
      const Array scores = logits(model, window, mesh)(0, -1) / 0.6;
      const Array next = ts::reshape(ts::random::categorical(key, scores), {1, 1});
      return std::pair{ts::concatenate({window(ts::span(), ts::span(1, {})), next}, 1), next};
    };
    return ts::scan(one, start, ts::random::split(ts::random::key(5), count)).second;
  });
  std::string out;
  for (std::int32_t id : write(m, row).to_vector<std::int32_t>()) {
    out += text.characters[static_cast<std::size_t>(id)];
  }
  return out;
}

// Which part of the words of `written` occurs in `text`.
double share_of_words(const std::string& written, const std::string& text) {
  auto words = [](const std::string& s) {
    std::string letters = s;
    for (char& c : letters)
      c = std::isalpha(static_cast<unsigned char>(c)) != 0 ? static_cast<char>(std::tolower(c)) : ' ';
    std::istringstream in(letters);
    return std::vector<std::string>(std::istream_iterator<std::string>(in), {});
  };
  const std::vector<std::string> all = words(text);
  const std::set<std::string> known(all.begin(), all.end());
  const std::vector<std::string> own = words(written);
  return static_cast<double>(std::count_if(own.begin(), own.end(), [&](const auto& w) { return known.contains(w); })) /
         static_cast<double>(own.size());
}

float largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  float worst = 0;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) worst = std::max(worst, std::abs(a[i] / b[i] - 1));
  return worst;
}

ts::Mesh mesh_of(const ts::Shape& shape) {
  return ts::make_mesh(shape, {"data", "model", "seq"},
                       ts::devices().first(static_cast<std::size_t>(ts::size_of(shape))));
}

struct Training {
  State end;
  std::vector<float> losses;
  float after_checkpoint;  // how far the losses of another mesh, which goes on from the checkpoint, are from these
};

// Trains, with a checkpoint after half of the steps, from which four devices repeat some of the second half.
Training train_and_repeat(const Text& text, const ts::Mesh& mesh, std::int64_t steps) {
  const std::int64_t half = steps / 2;
  const auto characters = static_cast<std::int64_t>(text.characters.size());
  const std::string dir =
      (std::filesystem::temp_directory_path() / ("text_model-" + std::to_string(::getpid()))).string();
  Training t{initial(mesh, characters), {}, 0};
  t.losses = train(&t.end, text, mesh, {0, half, steps});
  ts::CheckpointManager manager(dir);
  manager.save(half, t.end);  // is written while the training goes on
  const std::vector<float> second = train(&t.end, text, mesh, {half, steps, steps});
  t.losses.insert(t.losses.end(), second.begin(), second.end());
  manager.wait();
  const ts::Mesh four = mesh_of({4, 1, 1});
  State restored = ts::checkpoints::restore(dir, half, initial(four, characters));
  t.after_checkpoint = largest_difference(train(&restored, text, four, {half, half + 5, steps}), second);
  std::filesystem::remove_all(dir);
  return t;
}

int run(std::int64_t steps, const std::string& picture, const std::string& page) {
  const std::string book = read("examples/data/alice.txt");
  const Text text = encode(book);
  const ts::Mesh mesh = mesh_of({2, 2, 2});
  const ts::Mesh single = mesh_of({1, 1, 1});
  State alone = initial(single, static_cast<std::int64_t>(text.characters.size()));
  const auto [first, first_next] = text.batch(0, mesh);
  const ts::CommPlan plan =
      step_of(mesh, steps)
          .comm_plan(initial(mesh, static_cast<std::int64_t>(text.characters.size())), first, first_next);
  if (!page.empty()) {
    std::ofstream out(page);
    out << ts::to_html(plan, {.title = "A step of the text model", .mesh = mesh});
    if (!out.flush()) throw std::runtime_error("cannot write " + page);
  }
  const Training t = train_and_repeat(text, mesh, steps);
  const float from_one = largest_difference(train(&alone, text, single, {0, 5, steps}), t.losses);

  const auto [now, next] = text.held_out(mesh);
  auto error = ts::jit([&](const Model& m, const Array& a, const Array& b) { return loss(m, a, b, mesh); });
  const float held_out = error(t.end.params, now, next).item<float>();
  const Model model =
      ts::tree_map([&](const Array& a) { return ts::device_put(a, ts::NamedSharding(single, P())); }, t.end.params);
  const Array start = text.rows({text.ids.size() - kHeldOut}, single).first;
  const std::string written = write_on(model, text, start, std::clamp<std::int64_t>(steps, 200, 600), single);
  const double words = share_of_words(written, book);

  std::printf(
      "%s\n\n%lld steps: loss %.3f to %.3f, %.3f on text that was held out; %.0f %% of these words are the book's\n",
      written.c_str(), static_cast<long long>(steps), t.losses.front(), t.losses.back(), held_out, 100 * words);
  std::printf("losses differ from one device's by %.1e, and by %.1e from those of 4 devices after the checkpoint\n",
              from_one, t.after_checkpoint);
  std::printf("a step sends %lld bytes to a device in %zu collectives\n",
              static_cast<long long>(plan.bytes_per_device()), plan.steps().size());
  plot::curves(picture, "A model of characters over 2 x 2 x 2 devices", "step", "loss in nats a character",
               {{"training loss", t.losses}});
  return t.losses.back() < 2.8F && words > 0.35 && from_one < 1e-4F && t.after_checkpoint < 1e-3F ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    ts::ClientScope eight(ts::Client::cpu({.devices = 8}));
    const std::int64_t steps = argc > 1 ? std::atoll(argv[1]) : 50;
    if (steps < 40) {
      std::cerr << "usage: text_model [STEPS [CURVE.svg [PLAN.html]]], at least 40 steps\n";
      return 2;
    }
    return run(steps, argc > 2 ? argv[2] : "text_model.svg", argc > 3 ? argv[3] : "");
  } catch (const std::exception& e) {
    std::cerr << e.what() << '\n';
    return 1;
  }
}
