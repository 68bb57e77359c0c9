// SPDX-License-Identifier: Apache-2.0
// Which tasks run at the same time, and which wait for which.
#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <chrono>
#include <future>
#include <latch>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "runtime/task_scheduler.h"
#include "tessera/error.h"

namespace tessera::runtime {
namespace {

using std::chrono::seconds;

// Set once by the test; what waits for it longer than ten seconds fails in place of hanging.
class Gate {
 public:
  void open() { promise_.set_value(); }
  void pass() const {
    if (opened_.wait_for(seconds(10)) != std::future_status::ready) throw StateError("the gate was never opened");
  }

 private:
  std::promise<void> promise_;
  std::shared_future<void> opened_ = promise_.get_future().share();
};

TEST(TaskScheduler, SmallTasksRunOnTheCaller) {
  auto scheduler = TaskScheduler::create();
  std::thread::id small_on;
  std::thread::id large_on;
  auto a = scheduler->submit({.body = [&] { small_on = std::this_thread::get_id(); }, .small = true});
  EXPECT_TRUE(a->ready());
  auto b = scheduler->submit({.body = [&] { large_on = std::this_thread::get_id(); }});
  b->wait();
  EXPECT_EQ(small_on, std::this_thread::get_id());
  EXPECT_NE(large_on, std::this_thread::get_id());
}

TEST(TaskScheduler, AShortTaskEndsWhileALongOneRuns) {
  Gate gate;
  auto scheduler = TaskScheduler::create(2);
  auto slow = scheduler->submit({[&] { gate.pass(); }});
  auto quick = scheduler->submit({[] {}});
  auto small = scheduler->submit({.body = [] {}, .small = true});
  EXPECT_TRUE(small->ready());
  quick->wait();
  EXPECT_FALSE(slow->ready());
  gate.open();
  slow->wait();
}

TEST(TaskScheduler, DataOrdersTasks) {
  Gate gate;
  auto scheduler = TaskScheduler::create(4);
  std::atomic<int> step{0};
  auto a = scheduler->submit({[&] {
    gate.pass();
    EXPECT_EQ(step++, 0);
  }});
  auto b = scheduler->submit({[&] { EXPECT_EQ(step++, 1); }, {a}});
  // Small, and still not before what it reads; and of two inputs it waits for the later one.
  auto c = scheduler->submit({[&] { EXPECT_EQ(step++, 2); }, {a, b}, true});
  EXPECT_FALSE(c->ready());
  gate.open();
  c->wait();
  EXPECT_EQ(step, 3);
}

TEST(TaskScheduler, ErrorsStayWithTheirEvents) {
  auto scheduler = TaskScheduler::create();
  auto bad = scheduler->submit({[] { throw ValueError("no"); }});
  auto after = scheduler->submit({[&] { bad->wait(); }, {bad}});
  auto beside = scheduler->submit({[] {}, {bad}});
  EXPECT_THROW(bad->wait(), ValueError);
  EXPECT_THROW(bad->wait(), ValueError);
  EXPECT_THROW(after->wait(), ValueError);
  EXPECT_NO_THROW(beside->wait());
  EXPECT_NE(bad->error(), nullptr);
  EXPECT_THROW(scheduler->submit({.body = [] { throw TypeError("no"); }, .small = true})->wait(), TypeError);
}

TEST(TaskScheduler, EffectsKeepTheOrderOfTheCalls) {
  auto scheduler = TaskScheduler::create(4);
  std::vector<int> order;  // without a lock: one at a time is what is promised
  Gate gate;
  auto input = scheduler->submit({[&] { gate.pass(); }});
  for (int i = 0; i < 60; ++i) {
    Task task{[&order, i] { order.push_back(i); },
              {},
              i % 2 == 0,
              i % 3 == 0 ? TaskOrder::EffectsAndProcesses : TaskOrder::Effects};
    if (i == 10) task.after = {input};  // the others wait with it
    scheduler->submit(std::move(task));
  }
  auto free = scheduler->submit({[] {}});
  free->wait();
  EXPECT_FALSE(input->ready());
  gate.open();
  scheduler->drain();
  ASSERT_EQ(order.size(), 60U);
  for (int i = 0; i < 60; ++i) EXPECT_EQ(order[static_cast<std::size_t>(i)], i);
}

TEST(TaskScheduler, OrdersAreIndependent) {
  auto scheduler = TaskScheduler::create(2);
  Gate gate;
  auto effect = scheduler->submit({.body = [&] { gate.pass(); }, .order = TaskOrder::Effects});
  auto exchange = scheduler->submit({.body = [] {}, .order = TaskOrder::Processes});
  auto both = scheduler->submit({.body = [] {}, .order = TaskOrder::EffectsAndProcesses});
  exchange->wait();
  EXPECT_FALSE(both->ready());
  gate.open();
  both->wait();
}

TEST(TaskScheduler, FewRunAtATime) {
  constexpr int kAtOnce = 3;
  auto scheduler = TaskScheduler::create(kAtOnce);
  std::atomic<int> running{0};
  std::atomic<int> most{0};
  for (int i = 0; i < 300; ++i) {
    scheduler->submit({[&] {
      int now = ++running;
      for (int seen = most; now > seen && !most.compare_exchange_weak(seen, now);) {
      }
      std::this_thread::sleep_for(std::chrono::microseconds(100));
      --running;
    }});
  }
  scheduler->drain();
  EXPECT_GT(most, 1);
  EXPECT_LE(most, kAtOnce + 1);  // the oldest may always run
}

// Every thread is taken by tasks that wait for one that was submitted before them and can begin only now.
TEST(TaskScheduler, TheOldestTaskAlwaysRuns) {
  auto scheduler = TaskScheduler::create(2);
  Gate gate;
  std::latch busy(2);
  auto other = TaskScheduler::create(1);
  auto input = other->submit({[&] { gate.pass(); }});
  auto first = scheduler->submit({[] {}, {input}});
  std::vector<EventPtr> waiting;
  for (int i = 0; i < 2; ++i) {
    waiting.push_back(scheduler->submit({[&] {
      busy.count_down();
      first->wait();
    }}));
  }
  busy.wait();
  gate.open();
  for (const auto& e : waiting) e->wait();
}

TEST(TaskScheduler, TasksInsideTasksRunAtOnce) {
  auto scheduler = TaskScheduler::create(1);
  auto outer = scheduler->submit({[&] {
    std::thread::id inner;
    scheduler->submit({[&] { inner = std::this_thread::get_id(); }})->wait();
    EXPECT_EQ(inner, std::this_thread::get_id());
    // Through another scheduler and back.
    auto other = TaskScheduler::create(1);
    bool ran = false;
    other->submit({[&] { scheduler->submit({[&] { ran = true; }})->wait(); }})->wait();
    EXPECT_TRUE(ran);
  }});
  outer->wait();
}

TEST(TaskScheduler, ADependentTaskStaysOnItsThread) {
  auto scheduler = TaskScheduler::create(4);
  std::vector<std::thread::id> on(20);
  Gate gate;
  EventPtr last = scheduler->submit({[&] { gate.pass(); }});
  for (auto& id : on) last = scheduler->submit({[&id] { id = std::this_thread::get_id(); }, {last}});
  gate.open();
  last->wait();
  for (const auto& id : on) EXPECT_EQ(id, on[0]);
}

TEST(TaskScheduler, DestructionWaits) {
  std::atomic<int> done = 0;
  {
    auto scheduler = TaskScheduler::create();
    EventPtr last;
    for (int i = 0; i < 20; ++i) {
      last = scheduler->submit({[&] { ++done; }, last ? std::vector{last} : std::vector<EventPtr>{}});
    }
  }
  EXPECT_EQ(done, 20);
}

// Random tasks on two schedulers, submitted from several threads: each finds the values of all that it reads.
TEST(TaskScheduler, RandomGraphs) {
  constexpr int kThreads = 4;
  constexpr int kTasks = 400;
  std::vector schedulers{TaskScheduler::create(3), TaskScheduler::create(2)};
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  std::barrier start(kThreads);
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(static_cast<unsigned>(t));
      std::vector<EventPtr> events;
      std::vector<std::int64_t> expected;
      std::vector<std::int64_t> values(kTasks);  // each written by its own task
      start.arrive_and_wait();
      for (int i = 0; i < kTasks; ++i) {
        std::vector<int> reads;
        std::vector<EventPtr> after;
        std::int64_t sum = i;
        for (unsigned k = random() % 4; k > 0 && i > 0; --k) {
          int j = static_cast<int>(random() % static_cast<unsigned>(i));
          reads.push_back(j);
          after.push_back(events[static_cast<std::size_t>(j)]);
          sum += expected[static_cast<std::size_t>(j)] % 1000003;
        }
        expected.push_back(sum);
        auto body = [&values, reads, i] {
          std::int64_t v = i;
          for (int j : reads) v += values[static_cast<std::size_t>(j)] % 1000003;
          values[static_cast<std::size_t>(i)] = v;
        };
        auto order = random() % 5 == 0 ? TaskOrder::Effects : TaskOrder::None;
        events.push_back(schedulers[random() % 2]->submit({body, after, random() % 3 == 0, order}));
      }
      for (const auto& e : events) e->wait();
      wrong += values != expected;
    });
  }
  for (auto& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace tessera::runtime
