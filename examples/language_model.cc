// SPDX-License-Identifier: Apache-2.0
// A small language model of characters that saves its state as it trains, is killed again and again, goes on from the
// last checkpoint, and ends with the bits of the run that nobody disturbed. Then another mesh takes its weights.
//
//   language_model [KILLS]             the whole demonstration; 5 kills
//   language_model train DIR [STEPS]   trains, or goes on, with checkpoints below DIR
//
// Started by mpirun, `train` uses two devices of every process, however many there are, so that
//   tessera launch -n 4 --restarts 3 -- language_model train DIR
// goes on with fewer when some are lost.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "tessera/tessera.h"

namespace ts = tessera;
using ts::Array;
using ts::P;

namespace {

constexpr std::int64_t kWidth = 48, kHeads = 4, kLayers = 2, kLength = 24, kBatch = 16, kVocabulary = 128;
constexpr std::int64_t kSteps = 480, kSaveEvery = 4;  // unless the command line says another number

constexpr std::string_view kText =
    "Four score and seven years ago our fathers brought forth on this continent, a new nation, conceived in Liberty, "
    "and dedicated to the proposition that all men are created equal. Now we are engaged in a great civil war, testing "
    "whether that nation, or any nation so conceived and so dedicated, can long endure. We are met on a great "
    "battle-field of that war. We have come to dedicate a portion of that field, as a final resting place for those "
    "who here gave their lives that that nation might live. It is altogether fitting and proper that we should do "
    "this. But, in a larger sense, we can not dedicate -- we can not consecrate -- we can not hallow -- this ground. "
    "The brave men, living and dead, who struggled here, have consecrated it, far above our poor power to add or "
    "detract. The world will little note, nor long remember what we say here, but it can never forget what they did "
    "here. It is for us the living, rather, to be dedicated here to the unfinished work which they who fought here "
    "have thus far so nobly advanced.";

struct Block {
  Array qkv, proj, up, down;
};
struct Params {
  Array embed, pos;
  std::vector<Block> blocks;
};
struct State {
  Params params;
  ts::optim::AdamState<Params> optimizer;
};

Array norm(const Array& x) {
  Array c = x - ts::mean(x, {.axis = -1, .keepdims = true});
  return c * ts::rsqrt(ts::mean(c * c, {.axis = -1, .keepdims = true}) + 1e-5);
}

// Causal attention, then two dense layers.
Array transform(const Array& input, const Block& b) {
  const std::int64_t n = input.shape(0);
  auto qkv = ts::split(ts::matmul(norm(input), b.qkv), 3, -1);
  auto heads = [&](const Array& t) {
    return ts::transpose(ts::reshape(t, {n, kLength, kHeads, kWidth / kHeads}), {0, 2, 1, 3});
  };
  Array scores = ts::matmul(heads(qkv[0]), ts::transpose(heads(qkv[1]), {0, 1, 3, 2})) /
                 std::sqrt(static_cast<double>(kWidth / kHeads));
  Array weights = ts::softmax(ts::where(ts::tri(kLength, {}, 0, ts::bool_), scores, -1e9), -1);
  Array mixed = ts::reshape(ts::transpose(ts::matmul(weights, heads(qkv[2])), {0, 2, 1, 3}), {n, kLength, kWidth});
  Array x = input + ts::matmul(mixed, b.proj);
  return x + ts::matmul(ts::nn::silu(ts::matmul(norm(x), b.up)), b.down);
}

Array logits(const Params& p, const Array& tokens) {
  Array x = ts::take(p.embed, tokens, 0) + p.pos;
  for (const auto& b : p.blocks) x = transform(x, b);
  return ts::matmul(norm(x), ts::transpose(p.embed));
}

// Mean cross entropy of the next character, in nats.
Array loss(const Params& p, const Array& tokens, const Array& next) {
  Array logp = ts::log_softmax(logits(p, tokens), -1);
  return -ts::mean(ts::take_along_axis(logp, ts::expand_dims(next, {-1}), -1));
}

std::pair<State, Array> train_step(const State& s, const Array& tokens, const Array& next) {
  auto [value, g] = ts::value_and_grad(loss)(s.params, tokens, next);
  auto [params, optimizer] = ts::optim::adam(s.params, g, s.optimizer, {.learning_rate = 3e-3});
  return {{params, optimizer}, value};
}

ts::ShardingPtr placed(const ts::Mesh& mesh, const P& spec) { return ts::NamedSharding(mesh, spec); }

State initial(const ts::Mesh& mesh) {
  std::mt19937 random(1);
  auto weights = [&](std::int64_t in, std::int64_t out, double scale, const P& spec) {
    std::vector<float> v(static_cast<std::size_t>(in * out));
    for (auto& x : v) x = static_cast<float>(scale * (static_cast<double>(random()) / 4294967296.0 - 0.5));
    return ts::device_put(ts::HostArray::from(v, {in, out}), placed(mesh, spec));
  };
  Params p{weights(kVocabulary, kWidth, 0.2, P()), weights(kLength, kWidth, 0.2, P()), {}};
  for (std::int64_t l = 0; l < kLayers; ++l) {
    p.blocks.push_back({weights(kWidth, 3 * kWidth, 0.3, P(ts::none, "model")),
                        weights(kWidth, kWidth, 0.3, P("model", ts::none)),
                        weights(kWidth, 4 * kWidth, 0.3, P(ts::none, "model")),
                        weights(4 * kWidth, kWidth, 0.15, P("model", ts::none))});
  }
  State s{p, ts::optim::adam_init(p)};
  s.optimizer.v = ts::tree_map([](const Array& a) { return ts::copy(a); }, s.optimizer.v);  // a step donates both
  return s;
}

// The batch follows from the step alone, so a run that goes on sees what the undisturbed one sees.
std::pair<Array, Array> batch(std::int64_t step, const ts::Mesh& mesh) {
  std::mt19937 random(static_cast<std::uint32_t>(1000 + step));
  std::vector<std::int32_t> tokens;
  std::vector<std::int32_t> next;
  for (std::int64_t row = 0; row < kBatch; ++row) {
    const std::size_t at = random() % (kText.size() - kLength - 1);
    for (std::size_t i = at; i < at + kLength; ++i) {
      tokens.push_back(static_cast<std::int32_t>(kText[i]));
      next.push_back(static_cast<std::int32_t>(kText[i + 1]));
    }
  }
  auto put = [&](const std::vector<std::int32_t>& v) {
    // Not every number of processes divides the batch.
    return ts::device_put(ts::HostArray::from(v, {kBatch, kLength}),
                          ts::NamedSharding(mesh, P("data"), ts::NamedOptions{.uneven = true}));
  };
  return {put(tokens), put(next)};
}

// Trains to the end. With a manager: from its newest checkpoint, saving as it goes.
State train(const ts::Mesh& mesh, std::int64_t steps, ts::CheckpointManager* manager, float* last_loss) {
  State s = initial(mesh);
  std::int64_t first = 0;
  if (manager != nullptr && manager->latest_step()) {
    first = *manager->latest_step();
    s = manager->restore(s);
  }
  auto step = ts::jit(train_step, {.name = "train_step", .donate_argnums = {0}});
  ts::ProgressBar bar("training", steps);
  for (std::int64_t i = first; i < steps; ++i) {
    bar.update(i);
    auto [tokens, next] = batch(i, mesh);
    auto [state, value] = step(s, tokens, next);
    s = state;
    if (last_loss != nullptr) *last_loss = value.item<float>();
    // Returns at once: the next step, which donates these arrays, runs while they are written.
    if (manager != nullptr) manager->save(i + 1, s);
  }
  if (manager != nullptr) manager->wait();
  return s;
}

ts::CheckpointManagerOptions options() { return {.max_to_keep = 2, .save_interval_steps = kSaveEvery}; }

// Another program, so that it can be killed.
pid_t start(const std::string& dir) {
  const pid_t child = ::fork();
  if (child != 0) return child;
  ::execl("/proc/self/exe", "language_model", "train", dir.c_str(), nullptr);
  ::_exit(127);
}

// Kills the training when it has gone on a while, in the middle of whatever it does then.
bool kill_after_progress(pid_t child, const std::string& dir, std::int64_t more, unsigned microseconds) {
  const std::int64_t until = ts::checkpoints::latest_step(dir).value_or(0) + more;
  int status = 0;
  while (::waitpid(child, &status, WNOHANG) == 0) {
    if (ts::checkpoints::latest_step(dir).value_or(0) >= until) {
      ::usleep(microseconds);
      ::kill(child, SIGKILL);
      ::waitpid(child, &status, 0);
      return WIFSIGNALED(status);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return false;
  throw ts::StateError("language_model: the training process failed");
}

std::string continued(const Params& p, std::string text, std::size_t more) {
  auto predict = ts::jit(logits);
  while (more-- > 0) {
    std::vector<std::int32_t> window;
    for (char c : text.substr(text.size() - kLength)) window.push_back(c);
    const auto scores = predict(p, Array(ts::HostArray::from(window, {1, kLength}))).to_vector<float>();
    const auto last = scores.end() - kVocabulary;
    text += static_cast<char>(std::max_element(last, scores.end()) - last);
  }
  return text;
}

bool started_by_mpirun() {
  return std::getenv("OMPI_COMM_WORLD_SIZE") != nullptr || std::getenv("PMI_SIZE") != nullptr;
}

// The sides of every layer on the two devices of a process, the batch dealt out to all processes.
ts::Mesh mesh_of_processes() { return ts::make_mesh({ts::process_count(), 2}, {"data", "model"}); }

// One of the processes that mpirun has started; it may have lost some since the last checkpoint.
void train_with_others(const std::string& dir, std::int64_t steps) {
  ts::config().deterministic = true;
  ts::distributed::initialize({.devices = 2});
  ts::CheckpointManager manager(dir, options());
  const std::int64_t first = manager.latest_step().value_or(0);
  float value = 0;
  train(mesh_of_processes(), steps, &manager, &value);
  if (ts::process_index() == 0) {
    std::printf("%d processes: steps %lld to %lld, loss %.6f\n", ts::process_count(), static_cast<long long>(first),
                static_cast<long long>(steps), value);
  }
}

int demonstrate(std::int64_t wanted_kills) {
  ts::Client client = ts::Client::cpu({.devices = 8});
  ts::ClientScope scope(client);
  const ts::Mesh mesh = ts::make_mesh({4, 2}, {"data", "model"});
  float value = 0;
  const State undisturbed = train(mesh, kSteps, nullptr, &value);
  std::printf("undisturbed: %lld steps on 8 devices, loss %.3f\n", static_cast<long long>(kSteps), value);
  std::fflush(stdout);

  const std::string dir =
      (std::filesystem::temp_directory_path() / ("language_model-" + std::to_string(::getpid()))).string();
  std::filesystem::create_directories(dir);
  std::mt19937 random(std::random_device{}());
  std::int64_t kills = 0;
  for (;; ++kills) {
    const std::int64_t from = ts::checkpoints::latest_step(dir).value_or(0);
    const std::int64_t most = kSteps / (wanted_kills + 2) * 3 / 2 + 1;
    const std::int64_t more = kills < wanted_kills ? static_cast<std::int64_t>(random()) % most : kSteps + 1;
    const bool killed = kill_after_progress(start(dir), dir, more, random() % 20000);
    std::printf("from step %lld: %s, the last checkpoint is of step %lld\n", static_cast<long long>(from),
                killed ? "killed" : "done", static_cast<long long>(ts::checkpoints::latest_step(dir).value_or(0)));
    std::fflush(stdout);
    if (!killed) break;
  }

  const State resumed = ts::checkpoints::restore(dir, kSteps, initial(mesh));
  const auto a = ts::tree_leaves(undisturbed);
  const auto b = ts::tree_leaves(resumed);
  std::size_t equal = 0;
  for (std::size_t i = 0; i < a.size(); ++i) equal += ts::identical(a[i].host(), b[i].host()) ? 1 : 0;
  std::printf("after %lld kills: %zu of %zu arrays have the bits of the undisturbed run\n",
              static_cast<long long>(kills), equal, a.size());

  // Two devices take the weights alone, each reading its own shards; the moments are passed over.
  const ts::Mesh pair = ts::make_mesh({1, 2}, {"data", "model"}, client.devices().first(2));
  struct Weights {
    Params params;
  };
  const Weights small = ts::checkpoints::restore(dir, kSteps, Weights{initial(pair).params}, {.partial = true});
  std::printf("on two devices: \"%s\"\n", continued(small.params, std::string(kText.substr(0, kLength)), 80).c_str());
  std::filesystem::remove_all(dir);
  return equal == a.size() && kills > 0 && value < 1.0F ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc == 1) return demonstrate(5);
    if (argc == 2 && std::atoll(argv[1]) > 0) return demonstrate(std::atoll(argv[1]));
    const std::int64_t steps = argc == 4 ? std::atoll(argv[3]) : kSteps;
    if (argc < 3 || argc > 4 || std::string_view(argv[1]) != "train" || steps < 1) {
      std::cerr << "usage: language_model [KILLS | train DIR [STEPS]]\n";
      return 2;
    }
    if (started_by_mpirun()) {
      train_with_others(argv[2], steps);
      return 0;
    }
    ts::Client client = ts::Client::cpu({.devices = 8});
    ts::ClientScope scope(client);
    ts::CheckpointManager manager(argv[2], options());
    train(ts::make_mesh({4, 2}, {"data", "model"}), steps, &manager, nullptr);
    return 0;
  } catch (const std::exception& e) {
    std::cerr << e.what() << "\n";
    return 1;
  }
}
