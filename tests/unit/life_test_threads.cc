// SPDX-License-Identifier: Apache-2.0
// One library, many threads: every scenario ends, with right values.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/machine.h"
#include "base/thread_pool.h"
#include "tessera/tessera.h"

namespace tessera {
namespace {

class ThreadsTest : public ::testing::Test {
 protected:
  static constexpr int kThreads = 6;
  ThreadsTest() : client(Client::cpu({.devices = 8})), scope(client), mesh(make_mesh({4, 2}, {"x", "y"})) {
    x = device_put(arange(64) / 4.0, NamedSharding(mesh, P("x")));
  }
  // Calls f(thread) on several threads, which begin together, under this client.
  void together(const std::function<void(int)>& f, int threads = kThreads) const {
    std::barrier start(threads);
    std::vector<std::thread> all;
    for (int t = 0; t < threads; ++t) {
      all.emplace_back([&, t] {
        ClientScope inner(client);
        start.arrive_and_wait();
        f(t);
      });
    }
    for (auto& t : all) t.join();
  }
  Client client;
  ClientScope scope;
  Mesh mesh;
  Array x;
};

TEST_F(ThreadsTest, FirstCallsOfOneFunctionTraceOnce) {
  for (int round = 0; round < 20; ++round) {
    auto f = jit([](Array a) { return sum(a * 2.0); });
    together([&](int) { EXPECT_EQ(f(x).item<float>(), 1008); });
    EXPECT_EQ(f.stats().traces, 1);
    EXPECT_EQ(f.stats().compiles, 1);
  }
}

TEST_F(ThreadsTest, FirstCallsThatFailLetOthersTry) {
  std::atomic<int> calls{0};
  auto f = jit([&](Array a) {
    if (calls++ < 3) throw std::runtime_error("not yet");
    return a + 1.0;
  });
  std::atomic<int> failed{0};
  std::atomic<int> good{0};
  together([&](int) {
    try {
      good += f(x).to_vector<float>()[0] == 1;
    } catch (const std::runtime_error&) {
      ++failed;
    }
  });
  EXPECT_EQ(failed, 3);
  EXPECT_EQ(good, kThreads - 3);
}

TEST_F(ThreadsTest, OneFunctionWithManyTypes) {
  auto f = jit([](Array a) { return sum(a); });
  together([&](int t) {
    for (std::int64_t n = 1; n < 10; ++n) EXPECT_EQ(f(ones({n, t + 1})).item<float>(), static_cast<float>(n * (t + 1)));
  });
  EXPECT_EQ(f.stats().traces, 54);
}

TEST_F(ThreadsTest, EagerOpsOfOneKind) {
  together([&](int t) {
    for (int n = 1; n < 30; ++n) EXPECT_EQ((ones({n}) * static_cast<double>(t)).to_vector<float>()[0], t);
  });
}

TEST_F(ThreadsTest, OneArrayReadByAll) {
  for (int round = 0; round < 50; ++round) {
    Array a = x * 2.0;
    together([&](int t) {
      bool good = t % 3 == 0   ? a.to_vector<float>()[63] == 31.5F
                  : t % 3 == 1 ? a.addressable_shards().size() == 8
                               : sum(a).item<float>() == 1008;
      EXPECT_TRUE(good);
    });
  }
}

TEST_F(ThreadsTest, DonationBesideOtherReaders) {
  auto eat = jit([](Array a) { return a + 1.0; }, {.donate_argnums = {0}});
  auto use = jit([](Array a) { return sum(a); });
  for (int round = 0; round < 50; ++round) {
    Array a = x * 1.0;
    std::atomic<int> eaten{0};
    together([&](int t) {
      try {
        if (t == 0) {
          eaten += eat(a).to_vector<float>()[0] == 1;
        } else {
          EXPECT_EQ(use(a).item<float>(), 504);
        }
      } catch (const DeletedArrayError&) {
        EXPECT_NE(t, 0);
      }
    });
    EXPECT_EQ(eaten, 1);
  }
}

TEST_F(ThreadsTest, CallbacksThatCallJit) {
  auto inner = jit([](Array a) { return a * 3.0; });
  auto outer = jit([&](Array a) {
    return pure_callback(
               [&](const std::vector<HostArray>& in) {
                 ClientScope own(client);
                 return std::vector<HostArray>{inner(device_put(in[0])).host()};
               },
               {{a.shape(), a.dtype()}}, {a})[0] +
           1.0;
  });
  together([&](int) { EXPECT_EQ(outer(x).to_vector<float>()[4], 4); });
  // On the queue's own thread too, and nested.
  auto deep = jit([&](Array a) {
    Array big = matmul(ones({200, 200}), ones({200, 200}));
    return pure_callback(
        [&](const std::vector<HostArray>& in) {
          ClientScope own(client);
          return std::vector<HostArray>{outer(device_put(in[0])).host()};
        },
        {{a.shape(), a.dtype()}}, {a + 0.0 * sum(big)})[0];
  });
  together([&](int) { EXPECT_EQ(deep(x).to_vector<float>()[4], 4); });
}

TEST_F(ThreadsTest, CallbacksBetweenClients) {
  Client other = Client::cpu({.devices = 4});
  // Too long to run on the calling thread: each client's work is on its own thread, and one waits for the other.
  auto heavy = [](Array a) { return a + 0.0 * sum(matmul(ones({300, 300}), ones({300, 300}))); };
  auto last = jit([&](Array a) { return heavy(a) * 2.0; });
  auto on = [&](const Client& where, const std::function<HostArray(const HostArray&)>& f) {
    return [where, f](Array a) {
      return pure_callback(
          [where, f](const std::vector<HostArray>& in) {
            ClientScope own(where);
            return std::vector<HostArray>{f(in[0])};
          },
          {{a.shape(), a.dtype()}}, {a})[0];
    };
  };
  auto back = jit(
      [&](Array a) { return on(client, [&](const HostArray& h) { return last(device_put(h)).host(); })(heavy(a)); });
  auto there =
      jit([&](Array a) { return on(other, [&](const HostArray& h) { return back(device_put(h)).host(); })(heavy(a)); });
  for (int i = 0; i < 10; ++i) EXPECT_EQ(there(x).to_vector<float>()[4], 2);
}

TEST_F(ThreadsTest, CallbacksThatThrow) {
  auto f = jit([](Array a, Array bad) {
    return pure_callback(
        [](const std::vector<HostArray>& in) {
          if (in[1].span<float>()[0] != 0) throw std::out_of_range("as asked");
          return std::vector<HostArray>{in[0]};
        },
        {{a.shape(), a.dtype()}}, {a, bad})[0];
  });
  together([&](int t) {
    for (int i = 0; i < 20; ++i) {
      Array r = f(x, Array(static_cast<float>((t + i) % 2)));
      if ((t + i) % 2 == 0) {
        EXPECT_EQ(r.to_vector<float>()[4], 1);
      } else {
        EXPECT_THROW(r.block_until_ready(), std::out_of_range);
        EXPECT_THROW((r + 1.0).block_until_ready(), std::out_of_range);
      }
    }
  });
}

TEST_F(ThreadsTest, NestedParallelLoops) {
  together([&](int) {
    std::atomic<std::int64_t> sum_of{0};
    base::parallel_for(100, 1, [&](std::int64_t b, std::int64_t e) {
      base::parallel_for(100, 1, [&](std::int64_t c, std::int64_t d) { sum_of += (e - b) * (d - c); });
    });
    EXPECT_EQ(sum_of, 10000);
  });
}

// A loop of few ranges leaves threads for the loops inside its bodies, of which those inside have none.
TEST_F(ThreadsTest, TeamsOfNestedLoops) {
  const int all = base::num_threads();
  EXPECT_EQ(base::team_size(), all);
  for (int ranges : {2, 3, 8, 64}) {
    std::atomic<int> wrong{0};
    std::atomic<std::int64_t> items{0};
    base::parallel_for(ranges, 1, [&](std::int64_t, std::int64_t) {
      if (base::team_size() != (all == 1 ? 1 : std::max(1, all / std::min(all, ranges)))) ++wrong;
      base::parallel_for(1000, 1, [&](std::int64_t b, std::int64_t e) {
        if (base::in_parallel_region() && base::team_size() > 1 && e - b < 1000) ++wrong;
        items += e - b;
      });
    });
    EXPECT_EQ(wrong, 0) << ranges;
    EXPECT_GE(items, 1000) << ranges;
  }
  EXPECT_EQ(base::team_size(), all);
}

TEST_F(ThreadsTest, LoopsThatThrow) {
  together([&](int) {
    for (int i = 0; i < 50; ++i) {
      EXPECT_THROW(base::parallel_for(64, 1,
                                      [](std::int64_t b, std::int64_t) {
                                        if (b > 20) throw b;
                                      }),
                   std::int64_t);
    }
  });
}

TEST_F(ThreadsTest, ManyClients) {
  together([&](int t) {
    for (int i = 0; i < 10; ++i) {
      ClientScope own(Client::cpu({.devices = t + 1}));
      Array a = device_put(arange(60) + 0.0, NamedSharding(make_mesh({t + 1}, {"i"}), P("i")));
      EXPECT_EQ(jit([](Array v) { return sum(v); })(a).item<float>(), 1770);
    }
  });
}

TEST_F(ThreadsTest, ArraysOfThreadsThatEnded) {
  std::vector<Array> made(kThreads);
  together([&](int t) { made[static_cast<std::size_t>(t)] = jit([](Array a) { return a * 2.0; })(x); });
  for (const auto& a : made) EXPECT_EQ(a.to_vector<float>()[4], 2);
}

TEST_F(ThreadsTest, LiveArraysWhileArraysComeAndGo) {
  std::atomic<bool> stop{false};
  std::thread watcher([&] {
    while (!stop) {
      for (const auto& a : live_arrays()) EXPECT_GE(a.size(), 0);
    }
  });
  together([&](int) {
    for (int i = 0; i < 100; ++i) (x + static_cast<double>(i)).addressable_shards();
  });
  stop = true;
  watcher.join();
}

TEST_F(ThreadsTest, MeshesAndShardings) {
  together([&](int) {
    for (int i = 0; i < 50; ++i) {
      auto m = make_mesh({2, 4}, {"a", "b"});
      NamedSharding s(m, P("a", "b"));
      EXPECT_EQ(s.devices_indices_map({8, 8}).size(), 8U);
      EXPECT_EQ(m, make_mesh({2, 4}, {"a", "b"}));
    }
  });
}

TEST_F(ThreadsTest, TracesOnEveryThread) {
  together([&](int t) {
    auto f = [t](Array a) { return sum(a * a) * static_cast<double>(t); };
    for (int i = 0; i < 5; ++i) {
      EXPECT_EQ(grad(f)(x).to_vector<float>()[4], static_cast<float>(2 * t));
      EXPECT_EQ(vmap(f)(ones({3, 4})).to_vector<float>()[1], static_cast<float>(4 * t));
    }
  });
}

TEST_F(ThreadsTest, MapsOnEveryThread) {
  auto f = shard_map([](Array a) { return psum(sum(a), "x"); }, mesh, P("x"), P());
  together([&](int) {
    for (int i = 0; i < 10; ++i) EXPECT_EQ(f(x).item<float>(), 504);
  });
}

TEST_F(ThreadsTest, CoresAreSharedOutAmongProcesses) {
  const bool told = std::getenv("TESSERA_THREADS") != nullptr;  // which goes before
  const int all = num_threads();
  const Array expected = x * 2.0;
  const std::int64_t cache = cache_bytes();
  EXPECT_GE(cache, 1 << 20);
  for (int processes : {1, 2, 1000}) {
    base::share_cores(processes);
    EXPECT_EQ(num_threads(), told ? all : std::max(1, all / processes));
    EXPECT_EQ(cache_bytes(), cache / processes);
    if (!told) {
      EXPECT_EQ(processes_per_core(), std::max(1.0, static_cast<double>(processes) / all));
    }
    EXPECT_EQ((x * 2.0).to_vector<float>(), expected.to_vector<float>());
  }
  base::share_cores(1);
  EXPECT_EQ(num_threads(), all);
}

TEST(Machine, WhatItsCoresHaveOfTheLastCache) {
  struct Cache {
    int level;
    const char* size;
    const char* cores;
  };
  auto of = [](const std::vector<Cache>& caches, int cores) {
    std::string folder = (std::filesystem::temp_directory_path() / "caches_XXXXXX").string();
    if (::mkdtemp(folder.data()) == nullptr) throw std::runtime_error("mkdtemp");
    for (std::size_t i = 0; i < caches.size(); ++i) {
      const std::string at = folder + "/index" + std::to_string(i);
      std::filesystem::create_directory(at);
      std::ofstream(at + "/level") << caches[i].level << '\n';
      std::ofstream(at + "/size") << caches[i].size << '\n';
      std::ofstream(at + "/shared_cpu_list") << caches[i].cores << '\n';
    }
    const std::int64_t bytes = base::cache_of_cores(folder, cores);
    std::filesystem::remove_all(folder);
    return bytes;
  };
  constexpr std::int64_t kMegabyte = 1 << 20;
  const Cache first{1, "32K", "0,8"};
  const Cache second{2, "512K", "0,8"};
  EXPECT_EQ(of({}, 4), 32 * kMegabyte) << "no description";
  EXPECT_EQ(of({first, first}, 2), 32 * kMegabyte) << "of the first level alone";
  EXPECT_EQ(of({first, first, second}, 2), kMegabyte / 2);
  EXPECT_EQ(of({first, second, {3, "32768K", "0-7,8-15"}}, 16), 32 * kMegabyte);
  EXPECT_EQ(of({first, second, {3, "32768K", "0-7,8-15"}}, 4), 8 * kMegabyte) << "four of its sixteen cores";
  EXPECT_EQ(of({first, second, {3, "32768K", "0-3"}}, 64), 32 * kMegabyte) << "one of sixteen caches";
  EXPECT_EQ(of({first, second, {3, "266240K", "0-1"}}, 2), 32 * kMegabyte)
      << "a host's cache, told to two of its cores";
  EXPECT_EQ(of({first, second, {3, "", "0-1"}}, 2), kMegabyte / 2) << "without a size";
  EXPECT_EQ(of({{3, "32768K", ""}}, 2), 32 * kMegabyte) << "without its cores";
}

TEST_F(ThreadsTest, LoadersThatAreLeft) {
  for (int i = 0; i < 20; ++i) {
    ShardedDataLoader loader([n = 0]() mutable -> std::optional<HostBatch> {
      if (++n == 5) throw std::runtime_error("the source fails");
      return HostBatch{{"a", HostArray::from(std::vector<float>{1, 2})}};
    });
    if (i % 2 == 0) {
      EXPECT_TRUE(loader.next());
    }
  }
}

}  // namespace
}  // namespace tessera
