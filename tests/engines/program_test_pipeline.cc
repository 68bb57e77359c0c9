// SPDX-License-Identifier: Apache-2.0
// Steps whose works run as soon as what they read is there: their order, failures and memory; and programs beside the
// same steps one after the other.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <functional>
#include <random>
#include <stdexcept>
#include <thread>

#include "base/thread_pool.h"
#include "engines/cpu/pipeline.h"
#include "runtime/write_trace.h"
#include "support/meshes.h"
#include "tessera/tessera.h"

namespace tessera::cpu {
namespace {

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

// Step number `s`, each of whose works writes its own shard of value `s` and calls `body`.
class Fake final : public Step {
 public:
  using Body = std::function<void(std::size_t step, std::int64_t work)>;
  Fake(std::size_t s, std::vector<std::vector<ShardOf>> of_works, Body body)
      : s_(s), of_works_(std::move(of_works)), body_(std::move(body)) {
    for (const auto& list : of_works_) {
      for (auto r : list) reads.push_back(r.value);
    }
    writes.push_back(static_cast<ir::ValueId>(s));
  }
  void run(Frame& frame) const override {
    auto all = open(frame);
    for (std::size_t k = 0; k < of_works_.size(); ++k) all->work(static_cast<std::int64_t>(k));
  }
  std::optional<Works> works(std::size_t) const override {
    Works out;
    out.cost = 1e6;
    for (std::size_t k = 0; k < of_works_.size(); ++k) {
      out.list.push_back({of_works_[k], {{static_cast<ir::ValueId>(s_), static_cast<std::int32_t>(k)}}});
    }
    return out;
  }
  std::unique_ptr<OpenStep> open(Frame& frame) const override {
    ShardBuffers& to = frame.slots.own(s_);
    to.resize(of_works_.size());
    frame.run.memory.allocate(64, to);
    return std::make_unique<Open>(*this);
  }
  std::string label() const override { return "fake"; }

 private:
  struct Open final : OpenStep {
    explicit Open(const Fake& f) : fake(f) {}
    void work(std::int64_t k) const override { fake.body_(fake.s_, k); }
    const Fake& fake;
  };
  std::size_t s_;
  std::vector<std::vector<ShardOf>> of_works_;
  Body body_;
};

// A graph with nothing but so many values.
ir::Graph values(std::size_t n) {
  ir::Graph g;
  g.types.resize(n);
  return g;
}

struct Fakes {
  std::vector<StepPtr> steps;
  std::shared_ptr<runtime::MemoryPool> memory = runtime::MemoryPool::create();

  void add(std::vector<std::vector<ShardOf>> of_works, Fake::Body body) {
    steps.push_back(std::make_unique<Fake>(steps.size(), std::move(of_works), std::move(body)));
  }
  // All as one pipeline; false where this machine has one thread, and no pipelines.
  bool run() {
    auto found = Pipeline::find(steps, values(steps.size()));
    EXPECT_EQ(found.size(), base::num_threads() > 1 ? 1U : 0U);
    if (found.empty()) return false;
    EXPECT_EQ(found[0].first(), 0U);
    EXPECT_EQ(found[0].end(), steps.size());
    Run run{*memory};
    Frame frame{run, Slots(steps.size()), {}};
    found[0].run(frame);
    return true;
  }
};

// The second of two works goes on only once the next step has begun.
TEST(Pipeline, AThreadWithoutWorkBeginsTheNextStep) {
  Fakes fakes;
  std::atomic<bool> begun = false;
  fakes.add({{}, {}}, [&](std::size_t, std::int64_t k) {
    const auto patience = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (k == 1 && !begun && std::chrono::steady_clock::now() < patience) std::this_thread::yield();
    EXPECT_TRUE(k == 0 || begun);
  });
  fakes.add({{{0, 0}}, {{0, 1}}}, [&](std::size_t, std::int64_t k) {
    if (k == 0) begun = true;
  });
  fakes.run();
}

TEST(Pipeline, WorksComeAfterWhatTheyRead) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 rng(seed);
    Fakes fakes;
    const std::size_t count = 2 + rng() % 12;
    const auto works = std::int64_t{2} * base::num_threads();
    std::vector<std::vector<std::atomic<int>>> done(count);
    for (auto& d : done) d = std::vector<std::atomic<int>>(at(works));
    std::vector<std::vector<std::vector<ShardOf>>> needs;
    for (std::size_t s = 0; s < count; ++s) {
      std::vector<std::vector<ShardOf>> of_works(at(works));
      for (auto& list : of_works) {
        for (std::size_t n = s == 0 ? 0 : rng() % 4; n > 0; --n) {
          list.push_back({static_cast<ir::ValueId>(rng() % s), static_cast<std::int32_t>(rng() % at(works))});
        }
      }
      needs.push_back(of_works);
      fakes.add(std::move(of_works), [&](std::size_t step, std::int64_t k) {
        for (auto r : needs[step][at(k)]) EXPECT_EQ(done[at(r.value)][at(r.shard)], 1);
        for (std::uint64_t spin = (step * 7 + at(k) * 13 + seed) % 5 * 2000; spin > 0; --spin)
          std::atomic_thread_fence(std::memory_order_seq_cst);
        EXPECT_EQ(done[step][at(k)]++, 0);
      });
    }
    if (!fakes.run()) break;
    for (const auto& step : done) {
      for (const auto& d : step) EXPECT_EQ(d, 1);
    }
    EXPECT_EQ(fakes.memory->stats().live_buffers, 0);
  }
}

TEST(Pipeline, AFailureIsRethrownWhenAllHaveEnded) {
  for (std::size_t failing = 0; failing < 3; ++failing) {
    Fakes fakes;
    std::atomic<int> running = 0;
    for (int s = 0; s < 4; ++s) {
      const auto before = static_cast<ir::ValueId>(s - 1);
      const bool first = s == 0;
      fakes.add({first ? std::vector<ShardOf>{} : std::vector<ShardOf>{{before, 0}},
                 first ? std::vector<ShardOf>{} : std::vector<ShardOf>{{before, 1}}},
                [&, failing](std::size_t step, std::int64_t k) {
                  ++running;
                  if (k == 0) std::this_thread::sleep_for(std::chrono::milliseconds(3));
                  --running;
                  if (step == failing && k == 1) throw std::runtime_error("not today");
                });
    }
    if (base::num_threads() == 1) break;
    EXPECT_THROW(fakes.run(), std::runtime_error);
    EXPECT_EQ(running, 0);
    EXPECT_EQ(fakes.memory->stats().live_buffers, 0);
  }
}

// While a trace is recorded, steps run one after the other.
template <class F>
auto in_order(const F& f) {
  const std::string path = testing::TempDir() + "pipeline_trace.json";
  const std::int64_t trace = runtime::begin_trace(path);
  auto out = f();
  out.block_until_ready();
  runtime::end_trace(trace);
  std::remove(path.c_str());
  return out;
}

bool same_bits(const Array& a, const Array& b) { return a.to_vector<float>() == b.to_vector<float>(); }

Array random_rows(std::int64_t rows, std::int64_t columns, const Sharding& sharding) {
  return device_put(random::normal(random::key(rows * 31 + columns), {rows, columns}), sharding);
}

// Chains of random operations over arrays of moderate size: products whose sums are exchanged, rows, columns,
// transposes, halos, and operands that several steps read.
TEST(Pipeline, ProgramsGiveTheBitsOfStepsInOrder) {
  test::EightDevices devices;
  const Mesh mesh = devices.A();
  for (unsigned seed = 0; seed < 24; ++seed) {
    SCOPED_TRACE(seed);
    const std::int64_t n = seed % 3 == 0 ? 200 : 256;  // 200 rows divide unevenly by 16
    auto program = jit([seed, n](const Array& a, const Array& b) {
      std::mt19937_64 rng(seed);
      std::vector<Array> live{a, b, a + b};
      auto pick = [&] { return live[rng() % live.size()]; };
      for (int i = 0; i < 14; ++i) {
        Array x = pick();
        switch (rng() % 8) {
          case 0:
            x = matmul(x, pick()) * (1.0 / static_cast<double>(n));
            break;
          case 1:
            x = nn::softmax(x, -1);
            break;
          case 2:
            x = tanh(x) + pick();
            break;
          case 3:
            x = transpose(x);
            break;
          case 4:
            x = x - mean(x, {.axis = Dims{0}, .keepdims = true});
            break;
          case 5:
            x = roll(x, 3, static_cast<int>(rng() % 2));
            break;
          case 6:
            x = concatenate({lax::slice(x, {n / 4, 0}, {n, n}), lax::slice(pick(), {0, 0}, {n / 4, n})}, 0);
            break;
          default:
            x = cumsum(x, 1) * 0.01 + sin(pick());
        }
        live[rng() % live.size()] = x;
        if (i % 5 == 0) live.push_back(x);
      }
      Array sum = live[0];
      for (std::size_t i = 1; i < live.size(); ++i) sum = sum + live[i];
      return sum;
    });
    const std::vector<P> specs{P("x", "y"), P("x"), P(none, "y"), P({"x", "y"})};
    const Array a = random_rows(n, n, NamedSharding(mesh, specs[seed % 4]));
    const Array b = random_rows(n, n, NamedSharding(mesh, specs[seed / 4 % 4]));
    const Array want = in_order([&] { return program(a, b); });
    for (int again = 0; again < 4; ++again) EXPECT_TRUE(same_bits(program(a, b), want));
  }
}

}  // namespace
}  // namespace tessera::cpu
