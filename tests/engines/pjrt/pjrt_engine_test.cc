// SPDX-License-Identifier: Apache-2.0
// Programs on the devices of a PJRT plugin beside the same programs on the native engine. The plugin is the one of this
// build, for JAX, or what TESSERA_TEST_PLUGIN names, for example XLA:CPU (`make test-xla`).
#include <gtest/gtest.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include "bench/workloads/gpt.h"
#include "engines/pjrt/plugin_programs.h"
#include "tessera/tessera.h"

namespace tessera::test {

namespace {

struct Result {
  std::string spec;
  std::vector<std::vector<float>> values;  // whole, then of each device
};

Result result_of(const Array& a) {
  Result out{a.sharding()->is_fully_replicated() ? "whole" : a.sharding()->text(), {a.to_vector<float>()}};
  out.spec = out.spec.substr(0, out.spec.find("devices"));
  for (const auto& s : a.addressable_shards()) out.values.push_back(s.data().value().to_vector<float>());
  return out;
}

void expect_alike(const std::vector<Result>& got, const std::vector<Result>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) {
    EXPECT_EQ(got[i].spec, want[i].spec);
    ASSERT_EQ(got[i].values.size(), want[i].values.size());
    for (std::size_t d = 0; d < want[i].values.size(); ++d) {
      ASSERT_EQ(got[i].values[d].size(), want[i].values[d].size());
      for (std::size_t e = 0; e < want[i].values[d].size(); ++e) {
        EXPECT_NEAR(got[i].values[d][e], want[i].values[d][e], 1e-5) << "result " << i << ", " << d << ", " << e;
      }
    }
  }
}

// A product over a split dimension, a map, a gradient and reshards on a 4x2 mesh.
std::vector<Result> mixed_programs(const Client& client) {
  ClientScope scope(client);
  auto mesh = make_mesh({4, 2}, {"x", "y"});
  NamedSharding rows(mesh, P("x", "y"));
  NamedSharding columns(mesh, P("y", none));
  Array a = device_put(reshape(arange(8.0F * 4), {8, 4}), rows);
  Array b = device_put(reshape(arange(4.0F * 6), {4, 6}), columns);
  auto sums = shard_map([](Array v) { return psum(v, "x"); }, mesh, P("x", none), P(none, none));
  auto f = jit([sums](Array x, Array y) { return std::pair(tanh(matmul(x, y) / 100.0), sums(x)); });
  auto [p, q] = f(a, b);
  auto g = jit(grad([](Array x, Array y) { return sum(sin(matmul(x, y) / 50.0)); }))(a, b);
  std::vector<Result> out;
  for (const Array& r : {p, q, g, device_put(p, NamedSharding(mesh, P("y", none))), a + a, sum(a, {0})}) {
    out.push_back(result_of(r));
  }
  return out;
}

TEST(PjrtEngine, AgreesWithTheNativeEngine) {
  expect_alike(mixed_programs(plugin_client()), mixed_programs(Client::cpu({.devices = 8})));
}

TEST(PjrtEngine, KeepsArraysOnItsDevices) {
  ClientScope scope(plugin_client());
  auto mesh = make_mesh({8}, "x");
  Array a = device_put(arange(16.0F), NamedSharding(mesh, P("x")));
  auto f = jit([](Array x) { return x * 2.0 + 1.0; });
  Array b = f(a);
  const std::int64_t moved = transfer_stats().bytes;
  for (int i = 0; i < 4; ++i) b = f(b);
  Array c = device_put(b, NamedSharding(mesh, P(none)));
  c.block_until_ready();
  EXPECT_EQ(transfer_stats().bytes, moved);
  EXPECT_EQ(c.to_vector<float>()[1], 1.0F * 32 + 31);
  EXPECT_EQ(b.addressable_shards()[3].data().value().to_vector<float>(),
            (std::vector<float>{6 * 32 + 31, 7 * 32 + 31}));
}

// Other devices of the client, under other shardings: XLA reshards on the old ones, and whole shards are copied.
TEST(PjrtEngine, MovesArraysBetweenItsDevices) {
  ClientScope scope(plugin_client());
  const auto all = plugin_client().devices();
  const std::vector<Device> first{all[0], all[1], all[2], all[3]}, last{all[4], all[5], all[6], all[7]};
  const std::vector<Device> turned{all[3], all[2], all[1], all[0]}, middle{all[2], all[3], all[4], all[5]};
  Array a = device_put(reshape(arange(32.0F), {8, 4}), NamedSharding(make_mesh({4}, "x", first), P("x")));
  for (const NamedSharding& to :
       {NamedSharding(make_mesh({4}, "x", last), P("x")),
        NamedSharding(make_mesh({2, 2}, {"a", "b"}, last), P("b", "a")),
        NamedSharding(make_mesh({4}, "x", turned), P("x")), NamedSharding(make_mesh({4}, "x", middle), P(none, "x"))}) {
    const std::int64_t moved = transfer_stats().bytes;
    Array b = device_put(a, to);
    EXPECT_EQ(b.sharding()->text(), to.share()->text());
    EXPECT_EQ(transfer_stats().bytes, moved);
    EXPECT_EQ((b + 1.0).to_vector<float>(), (a + 1.0).to_vector<float>());
    const auto want = device_put(a.host(), to.share()).addressable_shards(), got = b.addressable_shards();
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t i = 0; i < want.size(); ++i) {
      EXPECT_EQ(got[i].data().value().to_vector<float>(), want[i].data().value().to_vector<float>());
    }
  }
  Array one = device_put(sum(a), all[6]);
  EXPECT_EQ((one * 2.0).item<float>(), 2 * 496.0F);
  EXPECT_EQ(device_put(one, all[1]).item<float>(), 496.0F);
}

TEST(PjrtEngine, GivesDonatedMemoryAway) {
  ClientScope scope(plugin_client());
  Array x = device_put(arange(8.0F));
  Array same = x + 0.0;
  auto step = jit([](Array v) { return v + 1.0; }, {.donate_argnums = {0}});
  for (int i = 0; i < 3; ++i) {
    Array next = step(x);
    EXPECT_TRUE(x.is_deleted());
    x = next;
  }
  EXPECT_EQ(x.to_vector<float>()[7], 10.0F);
  EXPECT_EQ(same.to_vector<float>()[7], 7.0F);
}

TEST(PjrtEngine, RunsBesideTheNativeEngine) {
  Client native = Client::cpu({.devices = 8});
  auto f = jit([](Array x) { return cumsum(x) * 0.5; });
  std::vector<std::vector<float>> values;
  for (const Client& client : {native, plugin_client(), native, plugin_client()}) {
    ClientScope scope(client);
    auto mesh = make_mesh({2, 4}, {"a", "b"});
    values.push_back(f(device_put(arange(24.0F), NamedSharding(mesh, P("b")))).to_vector<float>());
  }
  for (const auto& v : values) EXPECT_EQ(v, values[0]);
  // Arrays move between them.
  NamedSharding there(make_mesh({8}, "x", plugin_client().devices()), P("x"));
  NamedSharding here(make_mesh({4, 2}, {"x", "y"}, native.devices()), P("y", "x"));
  Array a = device_put(reshape(arange(32.0F), {8, 4}), here);
  Array b = device_put(a, there);
  EXPECT_EQ(b.sharding()->text(), there.share()->text());
  EXPECT_EQ((b * 2.0).to_vector<float>()[31], 62.0F);
  EXPECT_EQ(device_put(b + 1.0, here).to_vector<float>()[31], 32.0F);
}

TEST(PjrtEngine, TakesArraysThatAreStillComputed) {
  Client native = Client::cpu({.devices = 8});
  Array late;
  {
    ClientScope scope(native);
    late = jit([](Array x) { return matmul(x, x); })(ones({512, 512}));
  }
  NamedSharding there(make_mesh({8}, "x", plugin_client().devices()), P("x"));
  Array b = device_put(late, there);
  EXPECT_EQ(sum(b).item<float>(), 512.0F * 512 * 512);
}

TEST(PjrtEngine, HasEveryDtype) {
  ClientScope scope(plugin_client());
  for (DType t : {bool_, int8, int16, int32, int64, uint8, uint16, uint32, uint64, float16, bfloat16, float32, float64,
                  complex64, complex128}) {
    Array x = astype(arange(4.0F), t);
    EXPECT_EQ(x.dtype(), t);
    EXPECT_EQ(astype(flip(x), float32).to_vector<float>().back(), 0.0F) << dtype_name(t);
  }
}

TEST(PjrtEngine, SplitsUnevenly) {
  ClientScope scope(plugin_client());
  auto mesh = make_mesh({4, 2}, {"x", "y"});
  NamedSharding uneven(mesh, P("x", "y"), {.uneven = true});
  Array a = device_put(reshape(arange(10.0F * 3), {10, 3}), uneven);
  Array b =
      jit([](Array v) { return std::pair(v + 1.0, sum(v, {0})); }, {.out_shardings = {uneven.share(), nullptr}})(a)
          .first;
  EXPECT_EQ(b.to_vector<float>(), (arange(10.0F * 3) + 1.0).to_vector<float>());
  std::vector<std::size_t> sizes;
  for (const auto& s : b.addressable_shards()) sizes.push_back(s.data().value().to_vector<float>().size());
  EXPECT_EQ(sizes, (std::vector<std::size_t>{6, 3, 6, 3, 6, 3, 2, 1}));
  // A shard by itself is as long as it is.
  Array last = b.addressable_shards()[6].data().value();
  EXPECT_EQ((last * 2.0).to_vector<float>(), (std::vector<float>{56, 58}));
  // Shards of one size lie as they are.
  EXPECT_EQ(sum(device_put(b, NamedSharding(mesh, P("y")))).item<float>(), 435.0F + 30);
}

TEST(PjrtEngine, RefusesWhatXlaCannotTake) {
  ClientScope scope(plugin_client());
  auto mesh = make_mesh({8}, "x");
  Array a = device_put(arange(8.0F), NamedSharding(mesh, P("x")));
  NamedSharding addends(mesh, PartitionSpec().with_unreduced({AxisRef("x")}));
  try {
    static_cast<void>(jit([](Array v) { return sum(v); }, {.out_shardings = {addends.share()}})(a));
    ADD_FAILURE() << "a sum that is not complete";
  } catch (const UnimplementedError& e) {
    EXPECT_NE(std::string(e.what()).find("is unreduced"), std::string::npos) << e.what();
  }
}

// A product over a split dimension, on each of two devices: what the plugin's compiler tells, in the native engine's
// words and of its size.
TEST(PjrtEngine, TellsWhatAProgramCosts) {
  std::vector<CostAnalysis> costs;
  std::vector<CompiledMemoryStats> memory;
  for (const Client& client : {Client::cpu({.devices = 2}), plugin_client()}) {
    ClientScope scope(client);
    auto mesh = make_mesh({2}, "x", std::vector<Device>{client.devices()[0], client.devices()[1]});
    Array a = device_put(ones({64, 32}), NamedSharding(mesh, P("x")));
    Array b = device_put(ones({32, 16}), NamedSharding(mesh, P()));
    auto f = jit([](Array x, Array y) { return std::pair(tanh(matmul(x, y)), x + 1.0); }, {.donate_argnums = {0}});
    const auto compiled = f.lower(a, b).compile();
    costs.push_back(compiled.cost_analysis());
    memory.push_back(compiled.memory_analysis());
  }
  const double flops = 2.0 * 32 * 32 * 16;
  for (std::size_t i = 0; i < costs.size(); ++i) {
    EXPECT_GE(costs[i].at("flops"), flops) << i;
    EXPECT_LE(costs[i].at("flops"), 1.2 * flops) << i;
    EXPECT_EQ(costs[i].at("transcendentals"), 32 * 16) << i;
    EXPECT_GE(costs[i].at("bytes accessed"), 4 * (32 * 32 + 32 * 16 + 32 * 16 + 32 * 32)) << i;
    EXPECT_EQ(memory[i].argument_size_in_bytes, 4 * (32 * 32 + 32 * 16)) << i;
    EXPECT_EQ(memory[i].alias_size_in_bytes, 4 * 32 * 32) << i;
    EXPECT_GE(memory[i].output_size_in_bytes, 4 * (32 * 16 + 32 * 32)) << i;
    EXPECT_LE(memory[i].output_size_in_bytes, 4 * (32 * 16 + 32 * 32) + 64) << i;  // XLA counts its tuple, too
    EXPECT_GE(memory[i].temp_size_in_bytes, 0) << i;
  }
}

TEST(PjrtEngine, RunsOnManyThreads) {
  const Client client = plugin_client();
  ClientScope outer(client);
  auto f = jit([](Array x) { return sin(x) * 2.0; });
  const auto want = f(arange(64.0F)).to_vector<float>();
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      ClientScope scope(client);
      for (int i = 0; i < 50; ++i) wrong += f(arange(64.0F)).to_vector<float>() == want ? 0 : 1;
    });
  }
  for (auto& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
}

// Those of XLA:CPU that differ are named in tools/xla/accepted.txt; this build's own plugin has no such excuse.
TEST(PjrtEngine, AgreesOnRandomPrograms) {
  const char* count = std::getenv("TESSERA_TEST_PROGRAMS");
  const std::uint64_t programs = count == nullptr ? 60 : std::strtoull(count, nullptr, 10);
  std::uint64_t agree = 0;
  std::uint64_t refused = 0;
  std::uint64_t partitioner = 0;
  for (std::uint64_t seed = 0; seed < programs; ++seed) {
    const PluginOutcome outcome = run_random_program(seed, plugin_client());
    agree += outcome.difference.empty() ? 1 : 0;
    refused += outcome.refused ? 1 : 0;
    partitioner += outcome.partitioner ? 1 : 0;
    if (outcome.difference.empty()) continue;
    ADD_FAILURE() << "random program " << seed << ": " << (outcome.partitioner ? "only where it is split: " : "")
                  << outcome.difference;
  }
  std::printf("random programs: %ju agree, %ju fail only where they are split, %ju are refused\n",
              std::uintmax_t{agree}, std::uintmax_t{partitioner}, std::uintmax_t{refused});
}

TEST(PjrtEngine, TrainsAsTheNativeEngine) {
  std::vector<std::vector<float>> losses;
  for (const Client& client : {Client::cpu({.devices = 8}), plugin_client()}) {
    ClientScope scope(client);
    auto mesh = make_mesh({4, 2}, {"x", "y"});
    auto [state, tokens] = gpt::state(mesh);
    auto step = jit([](const gpt::State& s, const Array& t) { return gpt::step(s, t); });
    auto& of_client = losses.emplace_back();
    for (int i = 0; i < 2; ++i) {
      auto [next, loss] = step(state, tokens);
      state = next;
      of_client.push_back(loss.item<float>());
    }
  }
  for (std::size_t i = 0; i < losses[0].size(); ++i) EXPECT_NEAR(losses[1][i], losses[0][i], 1e-4 * losses[0][i]);
}

}  // namespace
}  // namespace tessera::test
