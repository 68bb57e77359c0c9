// SPDX-License-Identifier: Apache-2.0
// Arrays: attributes, shards, building, placement (array_and_sharding.md A1-A46, A75-A78).
#include <gtest/gtest.h>

#include <numeric>

#include "support/spec_report.h"
#include "tessera/tessera.h"

namespace tessera {
namespace {

using Ints = std::vector<std::int32_t>;

class ArrayTest : public ::testing::Test {
 protected:
  ArrayTest() : client(Client::cpu({.devices = 8})), scope(client) {
    Ints v(16);
    std::iota(v.begin(), v.end(), 0);
    X = HostArray::from(v, {8, 2});
    v8 = HostArray::from(Ints{0, 1, 2, 3, 4, 5, 6, 7});
    A = make_mesh({4, 2}, {"x", "y"});
    B = make_mesh({2, 2, 2}, {"x", "y", "z"});
    a = device_put(X, NamedSharding(A, P("x", "y")));
    b = device_put(X, NamedSharding(A, P("x")));
  }
  Device d(std::int64_t i) const { return client.device(i); }
  NamedSharding on(const Mesh& m, const P& p) const { return {m, p}; }

  Client client;
  ClientScope scope;
  HostArray X, v8;
  Mesh A, B;
  Array a, b;
};

template <class E>
std::string message(const std::function<void()>& f) {
  try {
    f();
  } catch (const E& e) {
    return e.what();
  } catch (const std::exception& e) {
    return std::string("another exception: ") + e.what();
  }
  return "no exception";
}
#define EXPECT_MENTIONS(text, word) EXPECT_NE((text).find(word), std::string::npos) << (text)

TEST_F(ArrayTest, OneTypeForEverything) {
  TESSERA_SPEC("A1");
  EXPECT_TRUE((std::is_same_v<decltype(device_put(X)), Array>));
  EXPECT_TRUE((std::is_same_v<decltype(jit([](Array v) { return v; })(a)), Array>));
  EXPECT_TRUE((std::is_same_v<std::decay_t<decltype(a.addressable_data(0))>, Array>));
  EXPECT_MENTIONS(message<StateError>([] { add(Array(), 1); }), "uninitialised Array");
}

TEST_F(ArrayTest, Kinds) {
  TESSERA_SPEC("A2", "A3");
  EXPECT_EQ(kind(device_put(X, d(3))), ArrayKind::SingleDevice);
  EXPECT_EQ(kind(a), ArrayKind::MultiDevice);
  Mesh one(DeviceArray{d(2)}, {"q"});
  Array s = device_put(v8, on(one, P("q")));
  EXPECT_EQ(kind(s), ArrayKind::SingleDevice);
  EXPECT_EQ(s.addressable_shards().size(), 1U);
  EXPECT_TRUE(s.is_fully_replicated());
}

TEST_F(ArrayTest, NestedPrograms) {
  TESSERA_SPEC("A6");
  auto inner = jit([](Array z) { return z + 1; });
  auto middle = jit([&](Array z) { return inner(z) * 2; });
  auto outer = jit([&](Array z) { return middle(z); });
  Array y = outer(a);
  Ints all = y.to_vector<std::int32_t>();
  EXPECT_EQ(all[14], 30);
  EXPECT_EQ(all[15], 32);
  EXPECT_TRUE(*y.sharding() == on(A, P("x", "y")));
}

TEST_F(ArrayTest, Attributes) {
  TESSERA_SPEC("A25", "A26");
  EXPECT_EQ(a.shape(), (Shape{8, 2}));
  EXPECT_EQ(a.dtype(), int32);
  EXPECT_EQ(a.ndim(), 2);
  EXPECT_EQ(a.size(), 16);
  EXPECT_EQ(a.nbytes(), 64);
  EXPECT_EQ(a.device_bytes(), 64);
  EXPECT_EQ(b.nbytes(), 64);
  EXPECT_EQ(b.device_bytes(), 128);
  EXPECT_EQ(device_put(X, on(A, P())).device_bytes(), 512);
  EXPECT_TRUE(*a.sharding() == on(A, P("x", "y")));
  EXPECT_EQ(a.devices().size(), 8U);
  Array gone = device_put(X, on(A, P("x", "y")));
  gone.delete_();
  EXPECT_TRUE(*gone.sharding() == on(A, P("x", "y")));
  EXPECT_MENTIONS(message<DeletedArrayError>([&] { gone.devices(); }), "int32[8,2]");
}

TEST_F(ArrayTest, ShardsAreKept) {
  TESSERA_SPEC("A27", "A28", "G49");
  auto shards = b.addressable_shards();
  ASSERT_EQ(shards.size(), 8U);
  for (std::size_t i = 0; i < 8; ++i) {
    EXPECT_EQ(shards[i].device(), d(static_cast<std::int64_t>(i)));
    EXPECT_EQ(shards[i].replica_id(), static_cast<int>(i % 2));
    auto row = static_cast<std::int32_t>(i / 2 * 4);
    EXPECT_EQ(shards[i].value().to_vector<std::int32_t>(), (Ints{row, row + 1, row + 2, row + 3}));
  }
  EXPECT_EQ(b.addressable_shards().data(), shards.data());
  EXPECT_EQ(b.global_shards().data(), shards.data());
}

TEST_F(ArrayTest, AddressableData) {
  TESSERA_SPEC("A29");
  Array v = device_put(v8, on(A, P("x")));
  EXPECT_EQ(v.addressable_data(0).to_vector<std::int32_t>(), (Ints{0, 1}));
  EXPECT_EQ(v.addressable_data(3).to_vector<std::int32_t>(), (Ints{2, 3}));
  EXPECT_MENTIONS(message<IndexError>([&] { v.addressable_data(8); }), "index = 8; expected 0..7");
  Array r = device_put(v8, on(A, P()));
  EXPECT_EQ(r.addressable_data(5).devices()[0], d(0));
  EXPECT_EQ(r.addressable_shards()[5].device(), d(5));
  EXPECT_THROW(r.addressable_data(8), IndexError);
}

TEST_F(ArrayTest, ReadingAndText) {
  TESSERA_SPEC("A31");
  EXPECT_TRUE(identical(a.host(), X));
  EXPECT_EQ(to_string(device_put(v8, on(A, P("x")))), "Array([0, 1, 2, 3, 4, 5, 6, 7], dtype=int32)");
  EXPECT_EQ(to_string(device_put(HostArray::scalar(3.5F))), "Array(3.5, dtype=float32)");
  EXPECT_EQ(to_string(device_put(HostArray(float32, {0, 2}))), "Array([], shape=(0, 2), dtype=float32)");
}

TEST_F(ArrayTest, CompareAndTruth) {
  TESSERA_SPEC("A32");
  for (const Array& other : {a, b}) {
    Array same = a == other;
    EXPECT_EQ(same.dtype(), bool_);
    EXPECT_TRUE(static_cast<bool>(all(same)));
    EXPECT_TRUE(*same.sharding() == on(A, P("x", "y"))) << same.sharding()->text();
  }
  EXPECT_MENTIONS(message<ValueError>([&] { static_cast<void>(static_cast<bool>(a == a)); }), "any");
  EXPECT_FALSE((std::is_default_constructible_v<std::hash<Array>>));
}

TEST_F(ArrayTest, FromCallback) {
  TESSERA_SPEC("A33", "A35");
  auto calls = [&](const ShardingPtr& s, const HostArray& from) {
    int n = 0;
    Array made = make_array_from_callback(from.shape(), s, [&](const Index& i) {
      ++n;
      return from.slice(i);
    });
    EXPECT_TRUE(identical(made.host(), from));
    EXPECT_TRUE(made.committed());
    return n;
  };
  EXPECT_EQ(calls(on(A, P("x", "y")), X), 8);
  EXPECT_EQ(calls(on(A, P("x")), X), 8);
  EXPECT_EQ(calls(on(A, P(none, "y")), X), 8);
  EXPECT_EQ(calls(on(A, P()), X), 1);
  EXPECT_EQ(calls(SingleDeviceSharding(d(0)), X), 1);
  EXPECT_EQ(calls(on(A, P("x", "y")), HostArray(int32, {0, 2})), 8);
  EXPECT_EQ(calls(on(A, P()), HostArray::scalar(7)), 1);
  Mesh A24 = make_mesh({2, 4}, {"x", "y"});
  Ints v(64);
  std::iota(v.begin(), v.end(), 0);
  HostArray big = HostArray::from(v, {8, 8});
  Array m = make_array_from_callback({8, 8}, on(A24, P("x", "y")), [&](const Index& i) { return big.slice(i); });
  EXPECT_EQ(m.addressable_data(0).shape(), (Shape{4, 2}));
  EXPECT_EQ(m.addressable_data(5).to_vector<std::int32_t>(), (Ints{34, 35, 42, 43, 50, 51, 58, 59}));

  auto whole = [&](const Index&) { return X; };
  EXPECT_MENTIONS(message<ValueError>([&] { make_array_from_callback({8, 2}, on(A, P("x", "y")), whole); }), "(2, 1)");
  int n = 0;
  auto mixed = [&](const Index& i) { return n++ == 0 ? X.slice(i) : X.slice(i).astype(float32); };
  EXPECT_MENTIONS(message<ValueError>([&] { make_array_from_callback({8, 2}, on(A, P("x", "y")), mixed); }), "float32");
  EXPECT_THROW(make_array_from_callback(
                   {8, 2}, on(A, P("x")), [&](const Index& i) { return X.slice(i); }, float32),
               ValueError);
  EXPECT_THROW(make_array_from_callback({7, 2}, on(A, P("x")), whole), IndivisibleError);
  EXPECT_THROW(make_array_from_callback({8, 2}, on(A, P("x")),
                                        [](const Index&) -> HostArray { throw std::out_of_range("mine"); }),
               std::out_of_range);
}

TEST_F(ArrayTest, FromSingleDeviceArrays) {
  TESSERA_SPEC("A36");
  NamedSharding s = on(A, P("x", "y"));
  auto map = s.devices_indices_map({8, 2});
  std::vector<Array> shard_buffers;
  for (std::int64_t i : {7, 3, 1, 0, 2, 6, 5, 4}) shard_buffers.push_back(device_put(X.slice(map.at(d(i))), d(i)));
  Array made = make_array_from_single_device_arrays({8, 2}, s, shard_buffers);
  EXPECT_TRUE(identical(made.host(), X));
  for (std::int64_t i = 0; i < 8; ++i) EXPECT_EQ(made.addressable_shards()[static_cast<std::size_t>(i)].device(), d(i));
  EXPECT_EQ(made.addressable_data(7).host().data(), shard_buffers[0].host().data());

  std::vector<Array> seven(shard_buffers.begin(), shard_buffers.end() - 1);
  auto seven_text = message<ValueError>([&] { make_array_from_single_device_arrays({8, 2}, s, seven); });
  EXPECT_MENTIONS(seven_text, "7");
  EXPECT_MENTIONS(seven_text, "8");
  auto twice = shard_buffers;
  twice[1] = shard_buffers[0];
  EXPECT_THROW(make_array_from_single_device_arrays({8, 2}, s, twice), ValueError);
  Mesh first(DeviceArray({d(4), d(1), d(2), d(3)}, {4}), {"x"});
  Mesh wanted(DeviceArray({d(0), d(1), d(2), d(3)}, {4}), {"x"});
  std::vector<Array> wrong;
  for (std::int64_t i : {4, 1, 2, 3}) wrong.push_back(device_put(HostArray::from(Ints{0, 1}), d(i)));
  auto text =
      message<DeviceMismatchError>([&] { make_array_from_single_device_arrays({8}, on(wanted, P("x")), wrong); });
  EXPECT_MENTIONS(text, "missing {0}");
  EXPECT_MENTIONS(text, "extra {4}");
  auto text2 = message<ValueError>([&] { make_array_from_single_device_arrays({16, 2}, s, shard_buffers); });
  EXPECT_MENTIONS(text2, "(4, 1)");
  EXPECT_MENTIONS(text2, "(2, 1)");
  EXPECT_MENTIONS(message<ValueError>([&] { make_array_from_single_device_arrays({8, 2}, s, {a}); }), "one shard each");
  EXPECT_MENTIONS(message<ValueError>([&] {
                    make_array_from_single_device_arrays({8, 2}, s, std::vector<Array>{});
                  }),
                  "0");
}

TEST_F(ArrayTest, ReplicasAreTrusted) {
  TESSERA_SPEC("A38", "G65");
  NamedSharding s = on(A, P("x"));
  auto map = s.devices_indices_map({8, 2});
  std::vector<Array> shard_buffers;
  for (std::int64_t i = 0; i < 8; ++i) {
    shard_buffers.push_back(
        device_put(i == 1 ? HostArray::from(Ints{-1, -1, -1, -1}, {2, 2}) : X.slice(map.at(d(i))), d(i)));
  }
  Array made = make_array_from_single_device_arrays({8, 2}, s, shard_buffers);
  EXPECT_TRUE(identical(made.host(), X));
  EXPECT_EQ(made.addressable_shards()[1].value().to_vector<std::int32_t>(), (Ints{-1, -1, -1, -1}));
  // A program keeps replicas apart that it was given apart.
  Array twice = jit([](Array v) { return v * 2; })(made);
  EXPECT_EQ(twice.addressable_shards()[1].value().to_vector<std::int32_t>(), (Ints{-2, -2, -2, -2}));
  EXPECT_EQ(twice.addressable_shards()[0].value().to_vector<std::int32_t>(), (Ints{0, 2, 4, 6}));
}

TEST_F(ArrayTest, DevicePut) {
  TESSERA_SPEC("A40", "A41", "A42", "A44", "A45");
  Array v = device_put(v8, on(A, P("x")));
  for (std::size_t i = 0; i < 8; ++i) {
    const Shard& s = v.addressable_shards()[i];
    EXPECT_EQ(s.replica_id(), static_cast<int>(i % 2));
    auto k = static_cast<std::int32_t>(i / 2 * 2);
    EXPECT_EQ(s.value().to_vector<std::int32_t>(), (Ints{k, k + 1}));
  }
  HostArray seven = HostArray::from(Ints{0, 1, 2, 3, 4, 5, 6});
  auto text = message<IndivisibleError>([&] { device_put(seven, on(A, P("x"))); });
  EXPECT_MENTIONS(text, "7");
  EXPECT_MENTIONS(text, "4");
  EXPECT_THROW(device_put(v8, on(A, P("x", "y"))), ValueError);
  EXPECT_MENTIONS(message<StateError>([&] { device_put(v8, P("x")); }), "mesh");

  EXPECT_TRUE(device_put(X, d(3)).committed());
  EXPECT_FALSE(device_put(X).committed());
  EXPECT_EQ(device_put(X).devices()[0], d(0));
  EXPECT_EQ(device_put(a).impl(), a.impl());

  auto before = transfer_stats();
  Array again = device_put(a, on(A, P("x", "y")));
  EXPECT_EQ(transfer_stats().bytes, before.bytes);
  for (std::int64_t i = 0; i < 8; ++i)
    EXPECT_EQ(again.addressable_data(i).host().data(), a.addressable_data(i).host().data());

  Ints data(65536);
  std::iota(data.begin(), data.end(), 0);
  HostArray mine = HostArray::from(data);
  Array isolated = device_put(mine, on(A, P("x")));
  for (auto& x : mine.span<std::int32_t>()) x = -1;
  EXPECT_EQ(isolated.to_vector<std::int32_t>(), data);
}

TEST_F(ArrayTest, Resharding) {
  TESSERA_SPEC("A43");
  auto shard1 = [&](const P& p) {
    Array r = device_put(a, on(A, p));
    EXPECT_TRUE(identical(r.host(), X));
    return r.addressable_shards()[1].value().to_vector<std::int32_t>();
  };
  EXPECT_EQ(shard1(P("x")), (Ints{0, 1, 2, 3}));
  EXPECT_EQ(shard1(P(none, "y")), (Ints{1, 3, 5, 7, 9, 11, 13, 15}));
  EXPECT_EQ(shard1(P({"x", "y"})), (Ints{2, 3}));
  EXPECT_EQ(shard1(P("y")), (Ints{8, 9, 10, 11, 12, 13, 14, 15}));
  EXPECT_EQ(shard1(P()), X.to_vector<std::int32_t>());
  EXPECT_TRUE(identical(device_put(a, d(5)).host(), X));
  Mesh two(DeviceArray{d(0), d(1)}, {"q"});
  Array half = device_put(a, on(two, P("q")));
  EXPECT_EQ(half.addressable_data(1).to_vector<std::int32_t>(), (Ints{8, 9, 10, 11, 12, 13, 14, 15}));
  Array gone = device_put(X, on(A, P()));
  gone.delete_();
  EXPECT_THROW(device_put(gone, d(1)), DeletedArrayError);
}

TEST_F(ArrayTest, LifeAndDeletion) {
  TESSERA_SPEC("A50", "A75", "A76", "A78");
  auto start = live_arrays().size();
  {
    Array x = device_put(X, on(A, P("x", "y")));
    EXPECT_EQ(live_arrays().size(), start + 1);
    Array y = x + 1;
    EXPECT_EQ(live_arrays().size(), start + 2);
    Array c = copy(x);
    EXPECT_NE(c.addressable_data(0).host().data(), x.addressable_data(0).host().data());
    x.delete_();
    EXPECT_TRUE(x.is_deleted());
    EXPECT_EQ(x.shape(), (Shape{8, 2}));
    EXPECT_EQ(x.dtype(), int32);
    EXPECT_TRUE(identical(c.host(), X));
    for (auto use :
         std::vector<std::function<void()>>{[&] { x.host(); }, [&] { x.addressable_shards(); }, [&] { x.devices(); },
                                            [&] { static_cast<void>(x + 1); }, [&] { x.block_until_ready(); }}) {
      EXPECT_MENTIONS(message<DeletedArrayError>(use), "int32[8,2]");
    }
    EXPECT_EQ(&y.block_until_ready(), &y);
  }
  EXPECT_EQ(live_arrays().size(), start);
  EXPECT_MENTIONS(message<StateError>([] { live_arrays("quantum"); }), "cpu");
}

}  // namespace
}  // namespace tessera
