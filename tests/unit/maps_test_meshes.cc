// SPDX-License-Identifier: Apache-2.0
// Meshes of maps: abstract, concrete and special ones; maps over several processes; loops whose predicate varies.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <thread>
#include <typeinfo>

#include "tessera/tessera.h"
#include "tests/support/meshes.h"
#include "tests/support/spec_report.h"

namespace tessera::test {
namespace {

using Ints = std::vector<std::int32_t>;

HostArray iota_host(const Shape& shape) {
  std::int64_t n = 1;
  for (auto d : shape) n *= d;
  Ints v(static_cast<std::size_t>(n));
  std::iota(v.begin(), v.end(), 0);
  return HostArray::from(v, shape);
}
Ints values(const Array& a) { return a.to_vector<std::int32_t>(); }
std::vector<std::int64_t> ids(const Array& a) {
  std::vector<std::int64_t> out;
  for (const auto& d : a.devices()) out.push_back(d.id());
  return out;
}

template <class E, class F>
void expect_error(const F& f, const std::vector<std::string>& words) {
  try {
    f();
  } catch (const E& e) {
    for (const auto& w : words) EXPECT_NE(std::string(e.what()).find(w), std::string::npos) << w << " in " << e.what();
    return;
  }
  ADD_FAILURE() << "nothing was thrown";
}

class MapMeshes : public ::testing::Test {
 protected:
  Client client_ = Client::cpu({.devices = 4});
  ClientScope scope_{client_};
  Mesh line(std::initializer_list<std::int64_t> list, const char* name = "x") const {
    return mesh_of(client_, list, {static_cast<std::int64_t>(list.size())}, {name});
  }
  static Array put(const Mesh& m, const P& spec = P("x")) { return device_put(iota_host({8}), NamedSharding(m, spec)); }
  const Ints doubled_{0, 2, 4, 6, 8, 10, 12, 14};
};

TEST_F(MapMeshes, Abstract) {
  TESSERA_SPEC("M64");
  AbstractMesh abs2{{"x", 2}};
  int runs = 0;
  auto f = jit([&](const Array& v) {
    ++runs;
    return shard_map([](const Array& b) { return b; }, abs2, P("x"), P("x"))(v) * 2;
  });
  EXPECT_EQ(values(f(put(line({0, 1})))), doubled_);
  EXPECT_EQ(f.stats(), (CompileStats{1, 1, 1}));
  Array on2 = f(put(line({2, 3})));
  EXPECT_EQ(values(on2), doubled_);
  EXPECT_EQ(ids(on2), (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(runs, 1);
  EXPECT_EQ(f.stats(), (CompileStats{1, 1, 2}));

  auto twice = shard_map([](const Array& b) { return b * 2; }, abs2, P("x"), P("x"));
  EXPECT_EQ(ids(twice(put(line({2, 3})))), (std::vector<std::int64_t>{2, 3}));
  expect_error<ValueError>([&] { twice(Array(iota_host({8}))); }, {"abstract"});
  EXPECT_THROW(twice(device_put(iota_host({8}), client_.device(1))), TypeError);
  expect_error<ValueError>([&] { twice(put(line({0, 1, 2, 3}))); }, {"'x'"});
  EXPECT_THROW(twice(put(line({0, 1}, "q"), P("q"))), ValueError);

  Array seven = device_put(iota_host({7}), NamedSharding(line({0, 1}), P()));
  expect_error<IndivisibleError>([&] { twice(seven); }, {"argument", "axis 0", "7", "x", "2"});
  auto unknown = shard_map([](const Array& b) { return b; }, abs2, P("z"), P());
  expect_error<ValueError>([&] { unknown(put(line({0, 1}))); }, {"in_specs", "z"});
  auto wide = jit(shard_map([](const Array& b) { return b; }, AbstractMesh{{"x", 4}}, P("x"), P("x")));
  expect_error<ValueError>([&] { wide(put(line({0, 1}))); }, {"x", "4", "2"});
}

TEST_F(MapMeshes, Concrete) {
  TESSERA_SPEC("M65");
  auto twice = shard_map([](const Array& b) { return b * 2; }, line({0, 1}), P("x"), P("x"));
  Array r = twice(Array(iota_host({8})));
  EXPECT_EQ(values(r), doubled_);
  EXPECT_EQ(ids(r), (std::vector<std::int64_t>{0, 1}));
  expect_error<DeviceMismatchError>([&] { twice(put(line({2, 3}))); }, {"[2, 3]", "[0, 1]", "shard_map"});
  expect_error<DeviceMismatchError>([&] { jit(twice)(put(line({2, 3}))); }, {"[2, 3]", "[0, 1]", "shard_map"});
}

class CoreMesh final : public MeshLike {
 public:
  bool is_device_mesh() const override { return false; }
  std::vector<std::string> axis_names() const override { return {"core"}; }
  Shape shape() const override { return {2}; }
};
class OtherMesh final : public MeshLike {
 public:
  bool is_device_mesh() const override { return false; }
  std::vector<std::string> axis_names() const override { return {"core"}; }
  Shape shape() const override { return {2}; }
};

TEST_F(MapMeshes, Special) {
  TESSERA_SPEC("M80");
  int runs = 0;
  register_shard_map_rule(typeid(CoreMesh), [&](const SpecialMapCall& call) {
    ++runs;
    EXPECT_EQ(call.mesh.shape(), Shape{2});
    EXPECT_FALSE(call.mesh.is_device_mesh());
    return call.body(call.args);
  });
  auto before = compile_stats();
  Array captured(3);
  auto f = shard_map([&](const Array& v) { return v + captured; }, std::make_shared<CoreMesh>(), P("core"), P("core"));
  EXPECT_EQ(values(f(Array(iota_host({2})))), (Ints{3, 4}));
  EXPECT_EQ(runs, 1);
  EXPECT_EQ(compile_stats().traces, before.traces);
  auto g = shard_map([](const Array& v) { return v; }, std::make_shared<OtherMesh>(), P("core"), P("core"));
  expect_error<StateError>([&] { g(Array(1)); }, {"OtherMesh"});
}

TEST_F(MapMeshes, PredicateThatVaries) {
  Mesh m = line({0, 1, 2, 3});
  auto body = [](const Array& b) {
    return cond(
        sum(b) > 6, [](const Array& v) { return v + psum(v, "x"); }, [](const Array& v) { return v; }, b);
  };
  auto checked = shard_map(body, m, P("x"), P("x"));
  expect_error<ValueError>([&] { checked(put(m)); }, {"predicate"});
  auto unchecked = shard_map(body, m, P("x"), P("x"), {.check_vma = false});
  expect_error<ValueError>([&] { unchecked(put(m)).block_until_ready(); }, {"predicate"});
  // Without communication every instance goes its own way.
  auto alone = [](const Array& b) {
    return cond(
        sum(b) > 6, [](const Array& v) { return v * 10; }, [](const Array& v) { return v; }, b);
  };
  EXPECT_EQ(values(shard_map(alone, m, P("x"), P("x"))(put(m))), (Ints{0, 1, 2, 3, 40, 50, 60, 70}));
  // A predicate that is equal may guard a collective.
  auto equal = [](const Array& b) {
    return cond(
        psum(sum(b), "x") > 6, [](const Array& v) { return v + psum(v, "x"); }, [](const Array& v) { return v; }, b);
  };
  EXPECT_EQ(values(shard_map(equal, m, P("x"), P("x"))(put(m))), (Ints{12, 17, 14, 19, 16, 21, 18, 23}));
}

TEST_F(MapMeshes, RaggedOutOfRange) {
  Mesh m = line({0, 1, 2, 3});
  auto body = [](const Array& rows, const Array& offsets) {
    Array one = ones({4}, int32);
    return ragged_all_to_all(rows, rows, offsets, one, arange(4), one, "x");
  };
  auto f = shard_map(body, m, SpecTree{P("x"), P()}, P("x"));
  Array rows(iota_host({16}));
  f(rows, Array(HostArray::from(Ints{0, 1, 2, 3}))).block_until_ready();
  for (int bad : {4, -1}) {
    expect_error<ValueError>(
        [&] {
          f(rows, Array(HostArray::from(Ints{0, 1, bad, 3}))).block_until_ready();
        },
        {"ragged_all_to_all", "out of range"});
  }
}

// Every collective of a map that spans processes gives what it gives in one.
std::vector<Array> everything(const Array& x) {
  AxisIndexGroups pairs{{0, 2}, {3, 1}};
  Array ones_ = ones({4}, int32);
  Array own = broadcast_to(reshape(axis_index("y"), {1}), {4});
  return {psum(x, "y"),
          psum(x, {"y", "x"}),
          pmax(x, "x"),
          psum(x, "y", {.axis_index_groups = pairs}),
          all_gather(x, "y", {.tiled = true}),
          all_gather(x, "y", {.axis_index_groups = pairs, .tiled = true}),
          psum_scatter(x, "y", {.tiled = true}),
          all_to_all(x, "y", 0, 0, {.tiled = true}),
          ppermute(x, "y", {{0, 1}, {1, 2}, {2, 3}}),
          ppermute(x, {"x", "y"}, {{0, 7}, {7, 0}, {3, 4}}),
          pbroadcast(x, "x", 1),
          ragged_all_to_all(x, x, arange(4), ones_, own, ones_, "y"),
          reshape(axis_index({"y", "x"}), {1})};
}

std::vector<Ints> on_cluster(const Client& client) {
  Mesh m = make_mesh({2, 4}, {"x", "y"}, client.devices());
  auto f = shard_map([](const Array& x) { return everything(x); }, m, P(axes("x", "y")), P(axes("x", "y")),
                     {.check_vma = false});
  auto whole = jit([&](const Array& x) {
    std::vector<Array> out;
    for (const auto& a : f(x)) out.push_back(with_sharding_constraint(a, NamedSharding(m, P())));
    return out;
  });
  std::vector<Ints> out;
  Array x = make_array_from_callback({32}, NamedSharding(m, P(axes("x", "y"))).share(),
                                     [](const Index& i) { return iota_host({32}).slice(i); });
  for (const auto& a : whole(x)) out.push_back(values(a.addressable_shards()[0].value()));
  return out;
}

TEST(MapCluster, SameValuesAsInOneProcess) {
  Client one = Client::cpu({.devices = 8});
  std::vector<Ints> want;
  {
    ClientScope scope(one);
    want = on_cluster(one);
  }
  for (int processes : {2, 4}) {
    auto clients = cluster_clients(processes, 8 / processes);
    std::vector<std::thread> threads;
    for (int p = 0; p < processes; ++p) {
      threads.emplace_back([&, p] {
        const Client& own = clients[static_cast<std::size_t>(p)];
        ClientScope scope(own);
        try {
          std::vector<Ints> got = on_cluster(own);
          for (std::size_t i = 0; i < want.size(); ++i) EXPECT_EQ(got[i], want[i]) << "result " << i;
        } catch (const std::exception& e) {
          ADD_FAILURE() << "process " << p << ": " << e.what();
        }
      });
    }
    for (auto& t : threads) t.join();
  }
}

// In deterministic mode the order of a sum is a tree over ranks, whoever holds them.
std::vector<float> summed(const Client& client) {
  Mesh m = make_mesh({8}, {"x"}, client.devices());
  auto f = jit([&](const Array& x) {
    Array r = shard_map([](const Array& b) { return psum(b, "x"); }, m, P("x"), P())(x);
    return with_sharding_constraint(r, NamedSharding(m, P()));
  });
  HostArray host(float32, {8, 1000});
  auto v = host.span<float>();
  for (std::size_t i = 0; i < v.size(); ++i) v[i] = std::ldexp(static_cast<float>((i * 7919) % 1009) - 500, i % 13);
  Array x = make_array_from_callback({8, 1000}, NamedSharding(m, P("x")).share(),
                                     [&](const Index& i) { return host.slice(i); });
  return f(x).addressable_shards()[0].value().to_vector<float>();
}

TEST(MapCluster, DeterministicSums) {
  ConfigScope deterministic(&Config::deterministic, true);
  Client one = Client::cpu({.devices = 8});
  std::vector<float> want;
  {
    ClientScope scope(one);
    want = summed(one);
  }
  for (int processes : {2, 4, 8}) {
    auto clients = cluster_clients(processes, 8 / processes);
    std::vector<std::thread> threads;
    for (int p = 0; p < processes; ++p) {
      threads.emplace_back([&, p] {
        const Client& own = clients[static_cast<std::size_t>(p)];
        ClientScope scope(own);
        try {
          EXPECT_EQ(summed(own), want);
        } catch (const std::exception& e) {
          ADD_FAILURE() << "process " << p << ": " << e.what();
        }
      });
    }
    for (auto& t : threads) t.join();
  }
}

}  // namespace
}  // namespace tessera::test
