// SPDX-License-Identifier: Apache-2.0
// Operations over groups of processes, made of messages.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <numeric>
#include <thread>

#include "engines/cpu/steps/combine.h"
#include "runtime/local_cluster.h"
#include "tessera/error.h"
#include "tessera/host_array.h"

namespace tessera::runtime {
namespace {

using Group = std::vector<std::int32_t>;
using Counts = std::vector<std::int64_t>;

// Runs `body` in the processes of a cluster, each a thread.
void in_processes(int count, const std::function<void(Collectives&)>& body) {
  auto cluster = LocalCluster::create(count);
  std::vector<std::shared_ptr<Collectives>> members;
  for (int p = 0; p < count; ++p) members.push_back(cluster->join(p));
  std::vector<std::thread> threads;
  for (int p = 0; p < count; ++p) {
    threads.emplace_back([&, p] {
      try {
        body(*members[static_cast<std::size_t>(p)]);
      } catch (const std::exception& e) {
        ADD_FAILURE() << "process " << p << ": " << e.what();
      }
    });
  }
  for (auto& t : threads) t.join();
}

Collectives::Reducer reducer(DType dtype, ir::Reduction kind = ir::Reduction::Sum) {
  auto combiner = std::make_shared<cpu::Combiner>(kind, dtype);
  return {dtype, kind, [combiner](std::span<const void* const> blocks, void* out, std::int64_t n) {
            combiner->combine(blocks, out, n);
          }};
}

// What process p contributes at place i.
float given(int p, std::size_t i) { return static_cast<float>((p + 1) * 1000) + static_cast<float>(i % 911); }

class Groups : public ::testing::TestWithParam<std::size_t> {};

TEST_P(Groups, AllReduce) {
  const std::size_t n = GetParam();
  for (int processes : {1, 2, 3, 4, 7}) {
    in_processes(processes, [&](Collectives& c) {
      Group group;
      for (int p = processes > 2 ? 1 : 0; p < processes; ++p) group.push_back(p);  // not always all
      if (c.process_index() < group[0]) return;
      std::vector<float> in(n);
      std::vector<float> out(n, -1);
      for (std::size_t i = 0; i < n; ++i) in[i] = given(c.process_index(), i);
      auto call = c.start_all_reduce({5, "all_reduce"}, group, in.data(), out.data(), static_cast<std::int64_t>(n),
                                     reducer(DType::F32));
      call->wait();
      for (std::size_t i = 0; i < n; ++i) {
        float sum = 0;
        for (int p : group) sum += given(p, i);
        ASSERT_EQ(out[i], sum) << i;
      }
      c.start_all_reduce({6, "all_reduce"}, group, in.data(), out.data(), static_cast<std::int64_t>(n),
                         reducer(DType::F32, ir::Reduction::Max))
          ->wait();
      if (n > 0) {
        EXPECT_EQ(out[n - 1], given(group.back(), n - 1));
      }
    });
  }
}

TEST_P(Groups, ReduceScatterAndBack) {
  const std::size_t n = GetParam();
  in_processes(3, [&](Collectives& c) {
    const Group group{0, 1, 2};
    const auto total = static_cast<std::int64_t>(n);
    const Counts counts{total / 2, 0, total - total / 2};
    std::vector<float> in(n);
    for (std::size_t i = 0; i < n; ++i) in[i] = given(c.process_index(), i);
    const auto mine = static_cast<std::size_t>(counts[static_cast<std::size_t>(c.process_index())]);
    std::vector<float> part(mine + 1, -1);
    c.start_reduce_scatter({5, "reduce_scatter"}, group, in.data(), part.data(), counts, reducer(DType::F32))->wait();
    EXPECT_EQ(part[mine], -1);
    Counts bytes;
    for (auto k : counts) bytes.push_back(4 * k);
    std::vector<float> whole(n + 1, -1);
    c.start_all_gather({5, "all_gather"}, group, part.data(), whole.data(), bytes)->wait();
    for (std::size_t i = 0; i < n; ++i) ASSERT_EQ(whole[i], given(0, i) + given(1, i) + given(2, i)) << i;
    EXPECT_EQ(whole[n], -1);
  });
}
INSTANTIATE_TEST_SUITE_P(Sizes, Groups, ::testing::Values(0, 1, 5, 4096, 50001));

TEST(GroupOperations, AllToAllOfUnequalBlocks) {
  in_processes(4, [&](Collectives& c) {
    const int me = c.process_index();
    const Group group{0, 1, 2, 3};
    // Process p sends (p + 1) * q numbers to process q.
    Counts sent;
    Counts received;
    std::vector<std::int32_t> in;
    for (int q = 0; q < 4; ++q) {
      sent.push_back(4 * (me + 1) * q);
      received.push_back(4 * (q + 1) * me);
      for (int i = 0; i < (me + 1) * q; ++i) in.push_back(100 * me + 10 * q + i);
    }
    std::vector<std::int32_t> out(static_cast<std::size_t>(10 * me) + 1, -1);
    c.start_all_to_all({1, "all_to_all"}, group, in.data(), sent, out.data(), received)->wait();
    std::size_t at = 0;
    for (int p = 0; p < 4; ++p) {
      for (int i = 0; i < (p + 1) * me; ++i) EXPECT_EQ(out[at++], 100 * p + 10 * me + i);
    }
    EXPECT_EQ(out[at], -1);
  });
}

TEST(GroupOperations, BroadcastPermuteBarrier) {
  in_processes(3, [&](Collectives& c) {
    const int me = c.process_index();
    std::vector<int> data(1000, me);
    c.start_broadcast({1, "broadcast"}, Group{0, 1, 2}, 1, data.data(), 4000)->wait();
    EXPECT_EQ(data[999], 1);
    int mine = me;
    int got = -1;
    c.start_permute({2, "permute"}, (me + 1) % 3, &mine, 4, (me + 2) % 3, &got, 4)->wait();
    EXPECT_EQ(got, (me + 2) % 3);
    c.start_permute({3, "permute"}, me == 0 ? 2 : -1, &mine, 4, me == 2 ? 0 : -1, &got, 4)->wait();
    EXPECT_EQ(got, me == 2 ? 0 : (me + 2) % 3);
    c.start_permute({4, "permute"}, me, &mine, 4, me, &got, 4)->wait();
    EXPECT_EQ(got, me);
    c.start_barrier({5, "barrier"}, Group{0, 1, 2})->wait();
    EXPECT_THROW(c.start_barrier({6, "barrier"}, Group{(me + 1) % 3}), StateError);
  });
}

// Several operations of one tag are under way at once, and the last one is waited for first.
TEST(GroupOperations, OrderIsThatOfTheStarts) {
  in_processes(4, [&](Collectives& c) {
    const Group group{0, 1, 2, 3};
    constexpr std::int64_t kCount = 40000;  // two stages
    std::vector<std::vector<float>> in;
    std::vector<std::vector<float>> out(6, std::vector<float>(kCount));
    std::vector<CommunicationPtr> calls;
    for (std::size_t k = 0; k < 6; ++k) {
      in.emplace_back(kCount, static_cast<float>(k + 1) * static_cast<float>(c.process_index()));
      calls.push_back(
          c.start_all_reduce({9, "all_reduce"}, group, in[k].data(), out[k].data(), kCount, reducer(DType::F32)));
    }
    int mine = c.process_index();
    std::vector<std::int32_t> all(4);
    c.start_all_gather({9, "all_gather"}, group, &mine, all.data(), Counts(4, 4))->wait();
    EXPECT_EQ(all, group);
    for (auto& call : calls) call->wait();
    for (std::size_t k = 0; k < 6; ++k) EXPECT_EQ(out[k][kCount - 1], 6 * static_cast<float>(k + 1));
  });
}

TEST(GroupOperations, FailuresNameTheCollectiveAndItsLine) {
  in_processes(2, [&](Collectives& c) {
    if (c.process_index() == 1) return c.poison(4, "out of memory");
    int data = 0;
    try {
      c.start_broadcast({4, "broadcast", Loc{"model.cc", 12}}, Group{0, 1}, 1, &data, 4)->wait();
      FAIL() << "nothing was sent";
    } catch (const StateError& e) {
      EXPECT_NE(std::string(e.what()).find("broadcast at model.cc:12: process 1 failed in this step: out of memory"),
                std::string::npos)
          << e.what();
    }
  });
}

// A communication that is given up leaves nothing behind that later messages would be written to.
TEST(GroupOperations, WhatIsGivenUpReceivesNothing) {
  auto cluster = LocalCluster::create(2);
  auto c0 = cluster->join(0);
  auto c1 = cluster->join(1);
  int first = -1;
  int second = -1;
  c0->start_permute({1, "permute"}, -1, nullptr, 0, 1, &first, 4).reset();
  int sent = 7;
  c1->start_permute({1, "permute"}, 0, &sent, 4, -1, nullptr, 0)->wait();
  c0->start_permute({1, "permute"}, -1, nullptr, 0, 1, &second, 4)->wait();
  EXPECT_EQ(first, -1);
  EXPECT_EQ(second, 7);
}

// Sums of bf16 and f16 are carried in f32 to the end, whatever part each process makes.
TEST(Combiner, TwoStagesRoundOnce) {
  for (DType dtype : {DType::BF16, DType::F16}) {
    cpu::Combiner whole(ir::Reduction::Sum, dtype);
    ASSERT_EQ(whole.wide(), DType::F32);
    cpu::Combiner across(ir::Reduction::Sum, DType::F32);
    constexpr std::int64_t kCount = 5000;
    std::vector<HostArray> blocks;
    for (int b = 0; b < 4; ++b) {
      std::vector<float> values;
      for (int i = 0; i < kCount; ++i) values.push_back(std::sin(static_cast<float>(i * 4 + b)) * 100);
      blocks.push_back(HostArray::from(values).astype(dtype));
    }
    std::vector<const void*> all;
    for (const auto& b : blocks) all.push_back(b.data());
    HostArray expected(dtype, {kCount});
    whole.combine(all, expected.data(), kCount);
    std::vector<std::vector<float>> parts(2, std::vector<float>(kCount));
    for (std::size_t p = 0; p < 2; ++p) {
      whole.combine_partly(std::span(all).subspan(2 * p, 2), parts[p].data(), kCount);
    }
    HostArray joined(dtype, {kCount});
    std::vector<const void*> wide{parts[0].data(), parts[1].data()};
    whole.combine_wide(wide, joined.data(), kCount);
    EXPECT_TRUE(identical(joined, expected));
    // And through an all-reduce of the wide parts.
    std::vector<float> sum(kCount);
    across.combine(wide, sum.data(), kCount);
    HostArray rounded(dtype, {kCount});
    const void* one = sum.data();
    whole.combine_wide({&one, 1}, rounded.data(), kCount);
    EXPECT_TRUE(identical(rounded, expected));
  }
}

}  // namespace
}  // namespace tessera::runtime
