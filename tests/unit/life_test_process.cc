// SPDX-License-Identifier: Apache-2.0
// A process that forks, and one that ends in every way, while programs are queued or running.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <thread>

#include "base/sanitizers.h"
#include "tessera/tessera.h"

namespace tessera {
namespace {

// Large enough to leave the calling thread, and to use every worker.
Array long_work(const Array& a) {
  Array r = a;
  for (int i = 0; i < 4; ++i) r = matmul(r, r) / 300.0;
  return r;
}
Array square() { return ones({300, 300}); }

HostArray slow_twice(const HostArray& v) {
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  HostArray out(v.dtype(), v.shape());
  for (std::size_t i = 0; i < static_cast<std::size_t>(v.size()); ++i) out.span<float>()[i] = 2 * v.span<float>()[i];
  return out;
}
Array slow(const Array& a) {
  return pure_callback([](const std::vector<HostArray>& in) { return std::vector<HostArray>{slow_twice(in[0])}; },
                       {{a.shape(), a.dtype()}}, {a})[0];
}

#ifndef TESSERA_THREAD_SANITIZER
// The thread sanitizer's own runtime does not follow threads that the child of a process with threads starts: it ends
// the child where a new thread has the id of one that the parent had.

// What a child tells by its exit status; a child that hangs is killed by its own alarm.
int in_child(const std::function<bool()>& body) {
  pid_t pid = fork();
  if (pid == 0) {
    alarm(60);
    bool good = false;
    try {
      good = body();
    } catch (const std::exception& e) {
      std::cerr << "child: " << e.what() << '\n';
    }
    _exit(good ? 0 : 1);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  return status;
}

TEST(Fork, ChildrenComputeAndParentsGoOn) {
  ClientScope scope(Client::cpu({.devices = 8}));
  auto mesh = make_mesh({4, 2}, {"x", "y"});
  auto f = jit([](Array a) { return long_work(a) + 1.0; });
  Array x = device_put(square(), NamedSharding(mesh, P("x", "y")));
  float expected = f(x).to_vector<float>()[0];
  for (int i = 0; i < 20; ++i) {
    Array pending = f(x);  // still running, perhaps
    EXPECT_EQ(in_child([&] {
                auto fresh = jit([](Array a) { return sum(long_work(a)); });
                return f(x).to_vector<float>()[0] == expected && pending.to_vector<float>()[0] == expected &&
                       fresh(x).item<float>() > 0 && f(f(x)).host().size() == 90000;
              }),
              0);
    EXPECT_EQ(f(x).to_vector<float>()[0], expected);
  }
}

TEST(Fork, ChildrenOfChildrenAndOfCallbacks) {
  ClientScope scope(Client::cpu({.devices = 2}));
  auto f = jit([](Array a) { return long_work(a); });
  Array x = square();
  f(x).block_until_ready();
  EXPECT_EQ(in_child([&] { return in_child([&] { return f(x).host().defined(); }) == 0 && f(x).host().defined(); }), 0);
  std::atomic<int> status{-1};
  auto forks = jit([&](Array a) {
    return pure_callback(
        [&](const std::vector<HostArray>& in) {
          status = in_child([&] { return f(x).host().defined(); });
          return in;
        },
        {{a.shape(), a.dtype()}}, {a})[0];
  });
  EXPECT_TRUE(forks(x).host().defined());
  EXPECT_EQ(status, 0);
}

// What runs beside a task that forks ends first, so that the child has it; what has not begun runs in both.
TEST(Fork, OfATaskBesideOthers) {
  ClientScope scope(Client::cpu({.devices = 2}));
  auto beside = jit([](Array a) { return slow(long_work(a * 0.0 + 1.0)); });
  for (int i = 0; i < 5; ++i) {
    std::atomic<int> status{-1};
    Array other = beside(square());
    auto forks = jit([&](Array a) {
      return pure_callback(
          [&](const std::vector<HostArray>& in) {
            Array later = beside(square());
            status = in_child([&] { return other.host().defined() && later.host().defined(); });
            return in;
          },
          {{a.shape(), a.dtype()}}, {long_work(a)})[0];
    });
    EXPECT_TRUE(forks(square()).host().defined());
    EXPECT_EQ(status, 0);
  }
}

TEST(Fork, WhileOtherClientsWork) {
  Client one = Client::cpu({.devices = 4});
  Client two = Client::cpu({.devices = 4});
  std::vector<Array> pending;
  for (int i = 0; i < 5; ++i) {
    for (const Client& c : {one, two}) {
      ClientScope scope(c);
      pending.push_back(jit([](Array a) { return slow(a); })(square()));
    }
    EXPECT_EQ(in_child([&] {
                bool good = true;
                for (const auto& a : pending) good = good && a.to_vector<float>()[0] == 2;
                return good;
              }),
              0);
  }
}
#endif

// --- ends -----------------------------------------------------------------------------------------

class End : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

struct LateUser {  // a static object of the user's that computes while it is destroyed
  Array kept;
  ~LateUser() {
    if (kept.defined()) kept = long_work(tanh(kept)).block_until_ready();
  }
};

void leave(int how) {
  alarm(60);
  static LateUser late;
  ClientScope scope(Client::cpu({.devices = 8}));
  auto mesh = make_mesh({4, 2}, {"x", "y"});
  Array x = device_put(square(), NamedSharding(mesh, P("x", "y")));
  static Array* result = new Array;
  auto f = jit([](Array a) { return long_work(slow(a)); });
  auto g = jit([](Array a) {
    return pure_callback(
        [](const std::vector<HostArray>&) -> std::vector<HostArray> {
          std::this_thread::sleep_for(std::chrono::milliseconds(5));
          throw std::runtime_error("a callback that fails at the end");
        },
        {{a.shape(), a.dtype()}}, {a})[0];
  });
  auto leaves = jit([](Array a) {
    return pure_callback([](const std::vector<HostArray>&) -> std::vector<HostArray> { std::exit(0); },
                         {{a.shape(), a.dtype()}}, {a})[0];
  });
  if (how == 1) late.kept = x;
  if (how == 2) *result = g(x);
  if (how == 3) *result = leaves(x);
  if (how == 4) {
    for (int t = 0; t < 3; ++t) {
      std::thread([x] {
        for (;;) long_work(x).block_until_ready();
      }).detach();
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  if (how == 5) std::thread([] { std::exit(0); }).detach();
  if (how == 7) late.kept = f(x);
  for (int i = 0; i < 3; ++i) *result = f(x);
  if (how == 3 || how == 5) pause();
  if (how == 6) std::quick_exit(0);
  std::exit(0);
}

TEST_P(End, IsClean) { EXPECT_EXIT(leave(GetParam()), ::testing::ExitedWithCode(0), ""); }
std::string way(const ::testing::TestParamInfo<int>& info) {
  static const char* const names[] = {"PendingWork",     "StaticUser",          "FailingCallback", "ExitInACallback",
                                      "DetachedThreads", "ExitOnAnotherThread", "QuickExit",       "StaticResult"};
  return names[info.param];
}
INSTANTIATE_TEST_SUITE_P(All, End, ::testing::Range(0, 8), way);

// Queued callbacks have run when the process is gone: their effects are not lost.
TEST(Exit, FinishesWhatWasSubmitted) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  auto run = [] {
    alarm(60);
    auto f = jit([](Array a) {
      debug_callback([](const std::vector<HostArray>&) { std::cerr << "told\n"; }, {slow(a)});
      return a;
    });
    f(square());
    std::exit(0);
  };
  EXPECT_EXIT(run(), ::testing::ExitedWithCode(0), "told");
}

}  // namespace
}  // namespace tessera
