// SPDX-License-Identifier: Apache-2.0
// What arrays, shardings and meshes give stays valid: after the array is deleted or donated, and when it was a
// temporary.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "support/spec_report.h"
#include "tessera/tessera.h"

namespace tessera {
namespace {

class LifeTest : public ::testing::Test {
 protected:
  LifeTest() : client(Client::cpu({.devices = 8})), scope(client), mesh(make_mesh({4, 2}, {"x", "y"})) {
    x = device_put(host({8, 2}), NamedSharding(mesh, P("x", "y")));
  }
  static HostArray host(const Shape& shape) {
    std::vector<float> values(static_cast<std::size_t>(size_of(shape)));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
    return HostArray::from(values, shape);
  }
  Client client;
  ClientScope scope;
  Mesh mesh;
  Array x;
};

TEST_F(LifeTest, ShardsOfATemporaryLiveAsLongAsTheLoop) {
  TESSERA_SPEC("A27", "G47");
  auto twice = jit([](Array a) { return a * 2.0; });
  float total = 0;
  std::size_t count = 0;
  for (const auto& s : twice(x).addressable_shards()) {
    for (float v : s.value().host().span<float>()) total += v;
    ++count;
  }
  EXPECT_EQ(count, 8U);
  EXPECT_EQ(total, 240);
  total = 0;
  for (auto& s : GlobalArray(twice(x)).local_shards()) total += s.value().to_vector<float>()[0];
  EXPECT_EQ(total, 2 * (0 + 1 + 4 + 5 + 8 + 9 + 12 + 13));
}

TEST_F(LifeTest, PartsOfATemporaryAreTheCallersOwn) {
  auto twice = jit([](Array a) { return a * 2.0; });
  const Shard& shard = twice(x).addressable_shards()[3];
  const Index& index = twice(x).addressable_shards()[3].index();
  const Array& shard_buffer = twice(x).addressable_shards()[3].value();
  const Array& data = twice(x).addressable_data(3);
  const Array& waited = twice(x).block_until_ready();
  const HostArray& values = twice(x).host();
  const Shape& shape = twice(x).shape();
  const ShardingPtr& sharding = twice(x).sharding();
  const auto& devices = twice(x).devices();
  EXPECT_EQ(to_string(shard.index()), to_string(index));
  EXPECT_EQ(shard_buffer.to_vector<float>(), data.to_vector<float>());
  EXPECT_EQ(values.span<float>()[15], 30);
  EXPECT_FALSE(waited.is_deleted());
  EXPECT_EQ(shape, (Shape{8, 2}));
  EXPECT_EQ(sharding->num_devices(), 8);
  EXPECT_EQ(devices.size(), 8U);
}

TEST_F(LifeTest, PartsOfTemporaryMeshesAndShardings) {
  auto fresh = [this](std::int64_t rows) {
    std::vector<Device> devices(client.devices().begin(), client.devices().end());
    std::rotate(devices.begin(), devices.begin() + 1 + rows % 3, devices.end());
    return Mesh(DeviceArray(devices, {rows, 8 / rows}), {"rows", "columns"});
  };
  std::string names;
  for (const auto& n : fresh(2).axis_names()) names += n + ' ';
  EXPECT_EQ(names, "rows columns ");
  std::int64_t product = 1;
  for (const auto& [name, size] : fresh(4).shape()) product *= size;
  for (auto n : fresh(2).mesh_shape()) product *= n;
  EXPECT_EQ(product, 64);
  std::size_t devices = 0;
  for (const Device& d : fresh(8).devices_flat()) devices += d.client() == client ? 1 : 0;
  for (const Device& d : fresh(1).devices().flat()) devices += d.client() == client ? 1 : 0;
  EXPECT_EQ(devices, 16U);
  const AnyMesh& of_sharding = NamedSharding(fresh(4), P("rows")).mesh();
  EXPECT_EQ(of_sharding.size(), 8);
  for (const auto& e : NamedSharding(fresh(4), P("rows")).spec().entries()) EXPECT_EQ(e.axes().size(), 1U);
  auto f = jit([](Array a) { return sum(a); });
  for (const auto& s : f.comm_plan(x).steps()) EXPECT_EQ(s.op, "all_reduce");
}

TEST_F(LifeTest, WhatWasReadOutlivesDeletion) {
  ShardList shards = x.addressable_shards();
  HostArray values = x.host();
  Array shard_buffer = x.addressable_data(7);
  auto elements = device_put(host({3})).host().span<float>();
  x.delete_();
  EXPECT_EQ(values.span<float>()[15], 15);
  EXPECT_EQ(shard_buffer.to_vector<float>(), (std::vector<float>{13, 15}));
  EXPECT_EQ(shards[7].value().to_vector<float>(), (std::vector<float>{13, 15}));
  EXPECT_EQ(elements[2], 2);
  EXPECT_THROW(x.addressable_shards(), DeletedArrayError);
  EXPECT_EQ(to_string(x), "DeletedArray(shape=(8, 2), dtype=float32)");
}

// A reader gets the whole value or `DeletedArrayError`, whatever another thread does with the array.
template <class Remove>
void read_against(const Array& x, const Remove& remove) {
  std::atomic<bool> go{false};
  std::atomic<int> wrong{0};
  std::vector<std::thread> readers;
  for (int kind = 0; kind < 5; ++kind) {
    readers.emplace_back([&, kind] {
      while (!go) std::this_thread::yield();
      for (int i = 0; i < 20; ++i) {
        try {
          bool good = true;
          if (kind == 0) good = x.to_vector<float>().back() == 15;
          if (kind == 1) good = x.host().span<float>()[15] == 15;
          if (kind == 2) {
            for (const auto& s : x.addressable_shards()) good = good && s.value().host().size() == 2;
          }
          if (kind == 3) good = to_string(x).find("rray(") != std::string::npos;
          if (kind == 4) good = (x + 1.0).to_vector<float>()[15] == 16;
          if (!good) ++wrong;
        } catch (const DeletedArrayError&) {
          return;
        }
      }
    });
  }
  go = true;
  remove();
  for (auto& t : readers) t.join();
  EXPECT_EQ(wrong, 0);
}

TEST_F(LifeTest, ReadingAgainstDeletion) {
  for (int i = 0; i < 50; ++i) {
    Array a = device_put(host({8, 2}), NamedSharding(mesh, P("x", "y")));
    read_against(a, [&] { Array(a).delete_(); });
    EXPECT_TRUE(a.is_deleted());
  }
}

TEST_F(LifeTest, ReadingAgainstDonation) {
  auto step = jit([](Array a) { return a * 3.0 + 1.0; }, {.donate_argnums = {0}});
  step(x);
  for (int i = 0; i < 50; ++i) {
    Array a = device_put(host({8, 2}), NamedSharding(mesh, P("x", "y")));
    Array result;
    read_against(a, [&] { result = step(a); });
    EXPECT_TRUE(a.is_deleted());
    EXPECT_EQ(result.to_vector<float>()[15], 46);
  }
}

TEST_F(LifeTest, OneOfManyDonationsWins) {
  auto step = jit([](Array a) { return a + 1.0; }, {.donate_argnums = {0}});
  step(x);
  for (int i = 0; i < 50; ++i) {
    Array a = device_put(host({8, 2}), NamedSharding(mesh, P("x", "y")));
    std::atomic<int> won{0};
    std::atomic<int> lost{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&] {
        ClientScope inner(client);
        try {
          EXPECT_EQ(step(a).to_vector<float>()[15], 16);
          ++won;
        } catch (const DeletedArrayError&) {
          ++lost;
        }
      });
    }
    for (auto& t : threads) t.join();
    EXPECT_EQ(won, 1);
    EXPECT_EQ(lost, 3);
  }
}

}  // namespace
}  // namespace tessera
