// SPDX-License-Identifier: Apache-2.0
// Programs of one client that have no data in common run at the same time; those that have keep its order.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <random>
#include <thread>

#include "tessera/tessera.h"

namespace tessera {
namespace {

using std::chrono::seconds;

// Opened by the test; what waits for it longer than ten seconds fails in place of hanging.
class Gate {
 public:
  // More than once where a program is run again, in verification mode.
  void open() {
    if (!open_.exchange(true)) promise_.set_value();
  }
  void pass() const {
    if (opened_.wait_for(seconds(10)) != std::future_status::ready) throw StateError("the gate was never opened");
  }

 private:
  std::atomic<bool> open_{false};
  std::promise<void> promise_;
  std::shared_future<void> opened_ = promise_.get_future().share();
};

// A loop of unknown length is too much for the calling thread.
Array leaves_the_caller(const Array& v) {
  return fori_loop(
      Array(0), Array(1), [](const Array&, const Array& c) { return c; }, v);
}

class Concurrent : public ::testing::Test {
 protected:
  Concurrent() : client(Client::cpu({.devices = 4})), scope(client) {}
  // `x` once the gate is open.
  static Array after(const Gate& gate, const Array& x) {
    auto f = jit([&gate](const Array& v) {
      return pure_callback(
          [&gate](const std::vector<HostArray>& in) {
            gate.pass();
            return in;
          },
          {{v.shape(), v.dtype()}}, {leaves_the_caller(v)})[0];
    });
    return f(x);
  }
  Client client;
  ClientScope scope;
};

TEST_F(Concurrent, AShortProgramEndsWhileALongOneRuns) {
  Gate gate;
  Array slow = after(gate, ones({3}));
  Array quick = jit([](const Array& v) { return leaves_the_caller(v) * 2.0; })(ones({3}));
  EXPECT_EQ(quick.to_vector<float>()[2], 2);
  // In the calling thread too, and as a chain of both kinds.
  Array x = ones({64, 64});
  for (int i = 0; i < 10; ++i) x = jit([](const Array& v) { return leaves_the_caller(v) + 1.0; })(x) * 1.0;
  EXPECT_EQ(x.to_vector<float>()[0], 11);
  Array depends = slow + 1.0;
  gate.open();
  EXPECT_EQ(depends.to_vector<float>()[0], 2);
}

TEST_F(Concurrent, TwoProgramsMeet) {
  Gate first;
  Gate second;
  auto meets = [](Gate& opens, const Gate& passes) {
    return jit([&](const Array& v) {
      return pure_callback(
          [&](const std::vector<HostArray>& in) {
            opens.open();
            passes.pass();
            return in;
          },
          {{v.shape(), v.dtype()}}, {leaves_the_caller(v)})[0];
    });
  };
  Array a = meets(first, second)(ones({2}));
  Array b = meets(second, first)(zeros({2}));
  EXPECT_EQ((a + b).to_vector<float>()[1], 1);
}

TEST_F(Concurrent, EffectsKeepTheOrderOfTheCalls) {
  Gate gate;
  std::vector<float> seen;  // without a lock: programs with effects run one at a time
  auto tell = jit([&](const Array& v) {
    debug_callback([&](const std::vector<HostArray>& in) { seen.push_back(in[0].span<float>()[0]); },
                   {leaves_the_caller(v)});
    return v;
  });
  Array late = after(gate, full({1}, -1.0F));
  std::vector<Array> results{tell(late)};
  for (int i = 0; i < 20; ++i) results.push_back(tell(full({1}, static_cast<float>(i))));
  EXPECT_EQ(jit([](const Array& v) { return leaves_the_caller(v); })(ones({1})).item<float>(), 1);  // has none
  gate.open();
  for (const Array& r : results) r.block_until_ready();
  ASSERT_EQ(seen.size(), 21U);
  for (int i = 0; i < 21; ++i) EXPECT_EQ(seen[static_cast<std::size_t>(i)], static_cast<float>(i - 1));
}

TEST_F(Concurrent, MovingAPendingArrayWaitsForNothing) {
  Gate gate;
  NamedSharding rows(make_mesh({4}, {"x"}), P("x"));
  NamedSharding some(make_mesh({2}, {"x"}, client.devices().first(2)), P(none, "x"));
  Array pending = after(gate, device_put(reshape(arange(16), {4, 4}) * 1.0, rows));
  Array moved = device_put(pending, some);
  Array back = device_put(moved, rows);
  Array same = device_put(pending, rows);
  EXPECT_EQ(device_put(ones({4}), client.devices()[1]).to_vector<float>()[3], 1);  // an unrelated one
  pending.delete_();
  gate.open();
  for (const Array& a : {moved, back, same}) {
    std::vector<float> values = a.to_vector<float>();
    for (int i = 0; i < 16; ++i) EXPECT_EQ(values[static_cast<std::size_t>(i)], static_cast<float>(i));
  }
  EXPECT_EQ(moved.addressable_shards()[1].value().to_vector<float>(), (std::vector<float>{2, 3, 6, 7, 10, 11, 14, 15}));
  auto fails = jit([](const Array& v) {
    return pure_callback([](const std::vector<HostArray>&) -> std::vector<HostArray> { throw ValueError("as asked"); },
                         {{v.shape(), v.dtype()}}, {leaves_the_caller(v)})[0];
  });
  Array broken = device_put(fails(device_put(ones({4, 4}), rows)), some);
  EXPECT_THROW(broken.block_until_ready(), ValueError);
  EXPECT_THROW((broken * 2.0).host(), ValueError);
}

TEST_F(Concurrent, AClientWithALimitRunsOneProgramAtATime) {
  constexpr std::int64_t kBytes = 4 * 512 * 512;
  Client bounded = Client::cpu({.devices = 1, .memory_limit = 24 * kBytes});
  ClientScope inner(bounded);
  auto f = jit([](const Array& v) { return sum(matmul(matmul(v, v), matmul(v + 1.0, v)) + v); });
  Array x = zeros({512, 512});
  float expected = f(x).item<float>();
  std::vector<Array> all;
  for (int i = 0; i < 40; ++i) all.push_back(f(x));
  for (const Array& a : all) EXPECT_EQ(a.item<float>(), expected);
}

// One thread's random calls, which read and give away each other's results; every value is also known on the host.
class RandomCalls {
 public:
  RandomCalls(const Client& client, unsigned seed) : client_(client), random_(seed) {
    for (int i = 0; i < 4; ++i) add(full({kRows, kColumns}, static_cast<float>(i)), static_cast<float>(i));
  }

  void run(int calls) {
    for (int i = 0; i < calls; ++i) step();
    for (const Known& k : known_) check(k);
  }
  int wrong() const { return wrong_; }

 private:
  static constexpr std::int64_t kRows = 16;
  static constexpr std::int64_t kColumns = 24;
  struct Known {
    Array array;
    float value;
  };
  // All elements are small whole numbers, equal in one array, so that floats are exact.
  static float wrapped(float v) { return std::fmod(v, 1024.0F); }
  static Array wrapped(const Array& v) { return remainder(v, 1024.0); }

  std::size_t pick() { return random_() % known_.size(); }
  void add(Array a, float v) { known_.push_back({std::move(a), v}); }
  void check(const Known& k) {
    for (float v : k.array.to_vector<float>()) wrong_ += v != k.value;
  }

  void step() {
    std::size_t i = pick();
    std::size_t j = pick();
    float a = known_[i].value;
    float b = known_[j].value;
    switch (random_() % 7) {
      case 0:
        return add(long_sum_(known_[i].array, known_[j].array), wrapped(2 * a + b));
      case 1:
        return add(small_sum_(known_[i].array, known_[j].array), wrapped(a + b));
      case 2: {  // the argument's memory becomes the result's, if nobody else reads it
        Known gone = known_[i];
        known_.erase(known_.begin() + static_cast<std::ptrdiff_t>(i));
        add(eats_(gone.array), wrapped(a + 3));
        if (!gone.array.is_deleted()) ++wrong_;
        break;
      }
      case 3: {
        if (i == j || known_[i].array.impl() == known_[j].array.impl()) return;
        Known gone = known_[i];
        Array other = known_[j].array;
        known_.erase(known_.begin() + static_cast<std::ptrdiff_t>(i));
        add(eats_first_(gone.array, other), wrapped(a + 2 * b));
        break;
      }
      case 4: {
        auto axis = random_() % 2 == 0 ? P("x") : P(none, "x");
        return add(device_put(known_[i].array, NamedSharding(mesh_, axis)), a);
      }
      case 5:
        check(known_[i]);
        break;
      default:
        return add(known_[i].array + 1.0, a + 1);
    }
    if (known_.size() < 3) add(zeros({kRows, kColumns}), 0);
    if (known_.size() > 12) known_.erase(known_.begin() + static_cast<std::ptrdiff_t>(pick()));
  }

  Client client_;
  ClientScope scope_{client_};
  Mesh mesh_ = make_mesh({4}, {"x"});
  std::mt19937 random_;
  std::vector<Known> known_;
  int wrong_ = 0;

  using Binary = std::function<Array(Array, Array)>;
  Binary long_sum_ = jit([](Array v, Array w) { return wrapped(leaves_the_caller(v) * 2.0 + w); });
  Binary small_sum_ = jit([](Array v, Array w) { return wrapped(v + w); });
  std::function<Array(Array)> eats_ =
      jit([](Array v) { return wrapped(leaves_the_caller(v) + 3.0); }, {.donate_argnums = {0}});
  Binary eats_first_ =
      jit([](Array v, Array w) { return wrapped(v + leaves_the_caller(w) * 2.0); }, {.donate_argnums = {0}});
};

TEST_F(Concurrent, RandomCallsFromManyThreads) {
  constexpr int kThreads = 4;
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      RandomCalls calls(client, static_cast<unsigned>(t));
      calls.run(400);
      wrong += calls.wrong();
    });
  }
  for (auto& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace tessera
