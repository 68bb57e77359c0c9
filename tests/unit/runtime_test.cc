// SPDX-License-Identifier: Apache-2.0
// Memory, events, shards and the transport of simulated clusters.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <future>
#include <thread>

#include "base/strings.h"
#include "runtime/buffer.h"
#include "runtime/event.h"
#include "runtime/local_cluster.h"
#include "runtime/shard_set.h"
#include "runtime/task_scheduler.h"
#include "tessera/error.h"

namespace tessera::runtime {
namespace {

TEST(MemoryPool, BlocksAreAlignedAndReused) {
  auto pool = MemoryPool::create();
  void* first = nullptr;
  {
    auto b = pool->allocate(1000);
    first = b->data();
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(first) % 64, 0U);
    EXPECT_EQ(b->nbytes(), 1000);
    EXPECT_TRUE(b->exclusive());
    EXPECT_EQ(pool->stats().bytes_in_use, 1000);
    EXPECT_EQ(pool->stats().live_buffers, 1);
  }
  EXPECT_EQ(pool->stats().bytes_in_use, 0);
  EXPECT_GE(pool->stats().cached_bytes, 1000);
  EXPECT_EQ(pool->stats().peak_bytes, 1000);
  EXPECT_EQ(pool->allocate(990)->data(), first);
  for (std::int64_t n : {0, 1, 63, 64, 65, 255, 256, 257, 4095, 4096, 4097, 100000, 5 << 20}) {
    auto b = pool->allocate(n);
    std::memset(b->data(), 7, static_cast<std::size_t>(n));
    EXPECT_EQ(b->nbytes(), n);
  }
}

// Allocators promise it, and the process ends where it is written.
TEST(MemoryPool, RefusesMoreThanTheMachineHas) {
  auto pool = MemoryPool::create();
  EXPECT_THROW(pool->allocate(std::int64_t{1} << 44), ResourceExhaustedError);
  EXPECT_EQ(pool->stats().live_buffers, 0);
}

TEST(MemoryPool, LimitIsAnErrorThatHarmsNothing) {
  auto pool = MemoryPool::create(1 << 20);
  auto kept = pool->allocate(600 << 10);
  try {
    pool->allocate(600 << 10);
    FAIL() << "the limit did not hold";
  } catch (const ResourceExhaustedError& e) {
    std::string text = e.what();
    EXPECT_NE(text.find("614400 bytes asked for"), std::string::npos) << text;
    EXPECT_NE(text.find("the limit is 1048576"), std::string::npos) << text;
  }
  EXPECT_EQ(pool->stats().bytes_in_use, 600 << 10);
  EXPECT_NO_THROW(pool->allocate(400 << 10));
  kept.reset();
  EXPECT_NO_THROW(pool->allocate(1 << 20));
  EXPECT_THROW(MemoryPool::create()->allocate(std::int64_t{1} << 60), ResourceExhaustedError);
}

TEST(MemoryPool, CacheIsBounded) {
  auto pool = MemoryPool::create(0, 1 << 20);
  std::vector<BufferPtr> buffers;
  for (int i = 0; i < 16; ++i) buffers.push_back(pool->allocate(256 << 10));
  buffers.clear();
  EXPECT_LE(pool->stats().cached_bytes, 1 << 20);
  EXPECT_GT(pool->stats().cached_bytes, 0);
}

TEST(MemoryPool, ManyThreads) {
  auto pool = MemoryPool::create();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 500; ++i) {
        auto b = pool->allocate(64 + 64 * ((i + t) % 7));
        *static_cast<int*>(b->data()) = t;
        EXPECT_EQ(*static_cast<int*>(b->data()), t);
      }
    });
  }
  for (auto& t : threads) t.join();
  EXPECT_EQ(pool->stats().bytes_in_use, 0);
  EXPECT_EQ(pool->stats().live_buffers, 0);
}

TEST(Events, CallBackOnceReady) {
  auto scheduler = TaskScheduler::create();
  std::promise<void> go;
  std::shared_future<void> begin = go.get_future().share();
  std::atomic<int> called = 0;
  auto event = scheduler->submit({[begin] { begin.wait(); }});
  event->on_ready([&] { ++called; });
  EXPECT_EQ(called, 0);
  go.set_value();
  scheduler->drain();
  EXPECT_EQ(called, 1);
  event->on_ready([&] { ++called; });
  EXPECT_EQ(called, 2);
}

TEST(Events, WhenAllHasTheFirstError) {
  auto first = TaskScheduler::create();
  auto second = TaskScheduler::create();
  std::promise<void> go;
  std::shared_future<void> begin = go.get_future().share();
  auto slow = first->submit({[begin] {
    begin.wait();
    throw ValueError("slow");
  }});
  auto quick = second->submit({[] { throw TypeError("quick"); }});
  auto good = second->submit({[] {}});
  bool ran = false;
  auto all = when_all(std::vector{slow, quick, good}, [&] { ran = true; });
  second->drain();
  EXPECT_FALSE(all->ready());
  go.set_value();
  EXPECT_THROW(all->wait(), ValueError);  // of the first in order, although it came last
  EXPECT_FALSE(ran);
  auto fine = when_all(std::vector{good, good}, [&] { ran = true; });
  fine->wait();
  EXPECT_TRUE(ran);
  EXPECT_THROW(when_all({}, [] { throw TypeError("then"); })->wait(), TypeError);
  when_all({})->wait();
}

TEST(ShardBuffers, NumbersAreMixedRadix) {
  ir::MeshAxes mesh{{4, 2}, {"x", "y"}};
  ir::Layout tiles{{{0}, {1}}};
  auto m = shard_numbering(tiles, mesh);
  EXPECT_EQ(m.count, 8);
  EXPECT_EQ(m.of_position, (std::vector<std::int32_t>{0, 1, 2, 3, 4, 5, 6, 7}));
  ir::Layout swapped{{{1}, {0}}};
  m = shard_numbering(swapped, mesh);  // tile row y, tile column x: number y * 4 + x
  EXPECT_EQ(m.of_position, (std::vector<std::int32_t>{0, 4, 1, 5, 2, 6, 3, 7}));
  EXPECT_EQ(m.first_position, (std::vector<std::int32_t>{0, 2, 4, 6, 1, 3, 5, 7}));
  ir::Layout one{{{1}}};
  one.partial = 1;
  m = shard_numbering(one, mesh);  // partial axis first, then the tile
  EXPECT_EQ(m.of_position, (std::vector<std::int32_t>{0, 1, 2, 3, 4, 5, 6, 7}));
  ir::Layout both{{{}}, 2, ir::Reduction::Sum, 1};
  m = shard_numbering(both, mesh);
  EXPECT_EQ(m.of_position, (std::vector<std::int32_t>{0, 1, 2, 3, 4, 5, 6, 7}));
  m = shard_numbering(ir::Layout{{{}, {1}}}, mesh);
  EXPECT_EQ(m.of_position, (std::vector<std::int32_t>{0, 1, 0, 1, 0, 1, 0, 1}));
  EXPECT_EQ(m.first_position, (std::vector<std::int32_t>{0, 1}));
}

TEST(ShardBuffers, TilesHaveTrueExtents) {
  ir::MeshAxes mesh{{4, 2}, {"x", "y"}};
  ir::Layout layout{{{0, 1}, {}}};
  // 10 rows in 8 parts of 2: the last three are empty.
  auto tile = tile_at({10, 3}, layout, mesh, 4);
  EXPECT_EQ(tile.offset, (Dims{8, 0}));
  EXPECT_EQ(tile.shape, (Shape{2, 3}));
  tile = tile_at({10, 3}, layout, mesh, 7);
  EXPECT_EQ(tile.offset, (Dims{10, 0}));
  EXPECT_EQ(tile.shape, (Shape{0, 3}));
}

TEST(LocalCluster, MessagesKeepTheirOrderPerTag) {
  auto cluster = LocalCluster::create(2);
  auto work = [&](int self) {
    auto c = cluster->join(self);
    int peer = 1 - self;
    std::int32_t a = 10 + self;
    std::int32_t b = 20 + self;
    std::int32_t got[2] = {};
    std::vector<Collectives::Message> sends{{peer, &a, 4}, {peer, &b, 4}};
    std::vector<Collectives::Receipt> receipts{{peer, &got[0], 4}, {peer, &got[1], 4}};
    c->exchange({7}, sends, receipts);
    EXPECT_EQ(got[0], 10 + peer);
    EXPECT_EQ(got[1], 20 + peer);
    c->exchange({8}, {}, {});
  };
  std::thread other(work, 1);
  work(0);
  other.join();
}

TEST(LocalCluster, FailureAndEndWakeTheWaiting) {
  auto cluster = LocalCluster::create(3);
  auto c0 = cluster->join(0);
  auto c1 = cluster->join(1);
  auto c2 = cluster->join(2);
  int got = 0;
  std::vector<Collectives::Receipt> from1{{1, &got, 4}};
  std::vector<Collectives::Receipt> from2{{2, &got, 4}};
  std::thread failing([&] { c1->poison(5, "the kernel broke"); });
  try {
    c0->exchange({5}, {}, from1);
    FAIL() << "a failed peer must not be waited for";
  } catch (const StateError& e) {
    EXPECT_NE(std::string(e.what()).find("process 1 failed in this step: the kernel broke"), std::string::npos);
  }
  failing.join();
  // Other steps of the same process go on.
  int sent = 3;
  std::vector<Collectives::Message> to0{{0, &sent, 4}};
  c1->exchange({6}, to0, {});
  c0->exchange({6}, {}, from1);
  EXPECT_EQ(got, 3);
  std::thread ending([&] { c2.reset(); });
  EXPECT_THROW(c0->exchange({7}, {}, from2), StateError);
  ending.join();
  // A wrong size means different programs.
  c1->exchange({9}, to0, {});
  std::int64_t wide = 0;
  std::vector<Collectives::Receipt> wrong{{1, &wide, 8}};
  EXPECT_THROW(c0->exchange({9}, {}, wrong), StateError);
}

// What a process says that waits for `peer` in the operation `tag`, for ever; empty where nothing is wrong.
std::string waits(Collectives& c, std::int64_t tag, int peer, bool aside = false) {
  int got = 0;
  std::vector<Collectives::Receipt> receipts{{peer, &got, 4}};
  try {
    c.exchange({.tag = tag, .name = tag == 5 ? "five" : "six", .aside = aside}, {}, receipts);
  } catch (const StateError& e) {
    return e.what();
  }
  return "";
}

TEST(LocalCluster, ProcessesThatWaitForEachOtherApartNameWhatDiffers) {
  auto cluster = LocalCluster::create(2);
  std::vector<std::shared_ptr<Collectives>> members{cluster->join(0), cluster->join(1)};
  members[0]->journal().made({0, 1}, "f32[4]", "first at a.cc:1");
  members[1]->journal().made({0, 1}, "f32[4]", "first at b.cc:1");
  members[0]->journal().made({0}, "f32[5]", "alone");
  members[0]->journal().made({0, 1}, "f32[8]", "second at a.cc:2");
  members[1]->journal().made({0, 1}, "f32[16]", "second at b.cc:2");
  std::string other;
  std::thread thread([&] { other = waits(*members[1], 6, 0); });
  const std::string mine = waits(*members[0], 5, 1);
  thread.join();
  for (const std::string& text : {mine, other}) {
    EXPECT_NE(text.find("the processes run different programs"), std::string::npos) << text;
    EXPECT_NE(text.find("number 1 (from 0)"), std::string::npos) << text;
    EXPECT_NE(text.find("in process 0 f32[8] (second at a.cc:2)"), std::string::npos) << text;
    EXPECT_NE(text.find("in process 1 f32[16] (second at b.cc:2)"), std::string::npos) << text;
    EXPECT_NE(text.find("five"), std::string::npos) << text;
    EXPECT_NE(text.find("six"), std::string::npos) << text;
  }
}

// Of three processes one has run another program than the others, has found so with one of these, and waits in the next
// program. The third one, which still waits in the first, throws; the one that is ahead does not.
TEST(LocalCluster, WhoIsAheadAfterOtherProgramsWaitsForThoseBehind) {
  using Call = Collectives::Call;
  constexpr std::int64_t kProgram = std::int64_t{9} << Collectives::kRunBits;
  auto cluster = LocalCluster::create(2);
  std::vector<std::shared_ptr<Collectives>> members{cluster->join(0), cluster->join(1)};
  const Call first{.tag = kProgram | 1, .name = "first", .run = 1, .processes = 77};
  const Call next{.tag = kProgram | 2, .name = "next", .run = 1, .processes = 77};
  int sent = 3;
  int got = 0;
  std::vector<Collectives::Message> to1{{1, &sent, 4}};
  std::vector<Collectives::Receipt> from0{{0, &got, 4}};
  std::thread ahead([&] { EXPECT_NO_THROW(members[1]->exchange(next, {}, from0)); });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  int never = 0;
  std::vector<Collectives::Receipt> from1{{1, &never, 4}};
  try {
    members[0]->exchange(first, {}, from1);
    ADD_FAILURE() << "expected an error";
  } catch (const StateError& e) {
    EXPECT_NE(std::string(e.what()).find("the processes run different programs"), std::string::npos) << e.what();
  }
  members[0]->exchange(next, to1, {});
  ahead.join();
  EXPECT_EQ(got, 3);
}

TEST(Collectives, ProgramsOfTheSameProcessesHaveAnOrder) {
  using Call = Collectives::Call;
  auto call = [](std::int64_t program, std::int64_t place, std::size_t processes) {
    return Call{.tag = (program << Collectives::kRunBits) | place, .processes = processes};
  };
  EXPECT_LT(order_of_programs(call(3, 1, 7), call(2, 2, 7)), 0);
  EXPECT_GT(order_of_programs(call(3, 2, 7), call(4, 1, 7)), 0);
  EXPECT_EQ(order_of_programs(call(3, 2, 7), call(4, 2, 7)), 0);
  EXPECT_EQ(order_of_programs(call(3, 1, 7), call(2, 2, 8)), 0);
  EXPECT_EQ(order_of_programs(call(3, 1, 0), call(2, 2, 0)), 0);
  // The count begins anew after its last bit.
  EXPECT_LT(order_of_programs(call(3, (1 << Collectives::kRunBits) - 1, 7), call(3, 0, 7)), 0);
}

TEST(LocalCluster, WhatRunsAsideOrHasBegunIsNoDifference) {
  auto cluster = LocalCluster::create(2);
  std::vector<std::shared_ptr<Collectives>> members{cluster->join(0), cluster->join(1)};
  int sent = 3;
  std::vector<Collectives::Message> to0{{0, &sent, 4}};
  std::vector<Collectives::Message> to1{{1, &sent, 4}};
  // Process 0 waits in a save while process 1 waits in a program.
  std::thread save([&] { EXPECT_EQ(waits(*members[0], 5, 1, true), ""); });
  std::thread program([&] { EXPECT_EQ(waits(*members[1], 6, 0), ""); });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  members[0]->exchange({.tag = 6}, to1, {});
  members[1]->exchange({.tag = 5, .aside = true}, to0, {});
  save.join();
  program.join();
  // Process 1 has failed in 7 before it sent anything, and waits in the next one.
  members[1]->journal().began(7);
  std::thread next([&] { EXPECT_EQ(waits(*members[1], 8, 0), ""); });
  std::thread still([&] { EXPECT_EQ(waits(*members[0], 7, 1), ""); });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  members[0]->exchange({.tag = 8}, to1, {});
  members[1]->exchange({.tag = 7}, to0, {});
  next.join();
  still.join();
}

TEST(ProcessJournal, FindsTheFirstDifferenceOfWhatBothRemember) {
  ProcessJournal a;
  ProcessJournal b;
  EXPECT_EQ(a.first_difference(0, 1, b.arrays_with(0)), "");
  for (int i = 0; i < 500; ++i) {
    a.made({0, 1}, str("array ", i), "here");
    b.made({0, 1}, i == 450 ? "another" : str("array ", i), "there");
    if (i % 3 == 0) b.made({1, 2}, "of others", "there");
  }
  const std::string difference = a.first_difference(0, 1, b.arrays_with(0));
  EXPECT_NE(difference.find("number 450 (from 0): in process 0 array 450 (here), in process 1 another (there)"),
            std::string::npos)
      << difference;
  EXPECT_EQ(a.first_difference(0, 1, a.arrays_with(1)), "");
  EXPECT_EQ(a.first_difference(0, 1, a.arrays_with(1).substr(0, 500)), "");  // cut off
  EXPECT_EQ(a.last(), "");
  a.began(3, "all_reduce", {}, 2);
  a.began(4);
  EXPECT_EQ(a.last(), "all_reduce in run 2 of its program");
  EXPECT_TRUE(a.has_begun(3) && a.has_begun(4));
  EXPECT_FALSE(a.has_begun(5));
}

}  // namespace
}  // namespace tessera::runtime
