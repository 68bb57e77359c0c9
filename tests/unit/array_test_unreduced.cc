// SPDX-License-Identifier: Apache-2.0
// Arrays whose devices hold addends.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "tessera/tessera.h"
#include "tests/support/addends.h"
#include "tests/support/checkpoint_files.h"
#include "tests/support/meshes.h"

namespace tessera {
namespace {

using Floats = std::vector<float>;

class Unreduced : public ::testing::Test {
 protected:
  test::EightDevices devices_;
  Mesh mesh_ = devices_.A();
  MeshScope in_mesh_{mesh_};
  HostArray value_ = HostArray::from(Floats{3, -1, 4, 1, -5, 9, 2, 6}, {8});

  ShardingPtr of(const PartitionSpec& spec) const { return NamedSharding(mesh_, spec).share(); }
  Array sum(const PartitionSpec& spec = P().unreduced("x")) const {
    return test::from_device_buffers(value_, of(spec), 5);
  }
  static Floats shard(const Array& a, std::size_t i) {
    return a.addressable_shards()[i].value().host().to_vector<float>();
  }
  void expect_value(const Array& a) const {
    EXPECT_EQ(test::value_of_shards(a).to_vector<float>(), value_.to_vector<float>()) << a.sharding()->text();
  }
};

TEST_F(Unreduced, HasShardsAndNoValue) {
  Array a = sum();
  expect_value(a);
  EXPECT_FALSE(a.is_fully_replicated());
  EXPECT_NE(shard(a, 0), shard(a, 2));
  std::vector<std::pair<std::string, std::function<void()>>> reads{
      {"host", [&] { a.host(); }},
      {"vector", [&] { a.to_vector<float>(); }},
      {"index", [&] { a(0); }},
      {"bool",
       [&] {
         static_cast<void>(static_cast<bool>(test::from_device_buffers(HostArray::scalar(1.0F), a.sharding(), 1)));
       }},
  };
  for (const auto& [name, read] : reads) {
    try {
      read();
      ADD_FAILURE() << name;
    } catch (const StateError& e) {
      std::string what = e.what();
      EXPECT_NE(what.find("unreduced"), std::string::npos) << what;
      EXPECT_NE(what.find("reshard"), std::string::npos) << what;
    }
  }
  EXPECT_NE(to_string(a).find("unreduced={'x'}"), std::string::npos) << to_string(a);
}

TEST_F(Unreduced, PutAndReshard) {
  std::vector<PartitionSpec> specs{P(),
                                   P("x"),
                                   P("y"),
                                   P({"x", "y"}),
                                   P().unreduced("x"),
                                   P().unreduced("y"),
                                   P("y").unreduced("x"),
                                   P().unreduced("x", "y"),
                                   P().reduced("x"),
                                   P("y").reduced("x")};
  for (const auto& from : specs) {
    Array placed = device_put(value_, of(from));
    Array own = sum(from);
    expect_value(placed);
    expect_value(own);
    for (const auto& to : specs) {
      SCOPED_TRACE(from.text() + " to " + to.text());
      for (const Array& a : {placed, own}) {
        Array b = reshard(a, to);
        expect_value(b);
        EXPECT_EQ(*b.sharding(), *of(to));
        Array c = jit([&](const Array& x) { return with_sharding_constraint(x, to); })(a);
        expect_value(c);
      }
    }
  }
  // The first device along the axis keeps the value.
  Array made = reshard(device_put(value_, of(P())), P().unreduced("x"));
  for (std::size_t d = 0; d < 8; ++d) EXPECT_EQ(shard(made, d), d < 2 ? value_.to_vector<float>() : Floats(8, 0.0F));
  // Each keeps its own block.
  made = reshard(device_put(value_, of(P("x"))), P().unreduced("x"));
  for (std::size_t d = 0; d < 8; ++d) {
    Floats want(8, 0.0F);
    for (std::size_t i = d / 2 * 2; i < d / 2 * 2 + 2; ++i) want[i] = value_.span<float>()[i];
    EXPECT_EQ(shard(made, d), want);
  }
}

TEST_F(Unreduced, OtherDevicesGetTheSum) {
  Array a = sum();
  Array one = device_put(a, devices_.d(3));
  EXPECT_EQ(one.host().to_vector<float>(), value_.to_vector<float>());
  Mesh turned = devices_.D();
  Array b = device_put(a, NamedSharding(turned, P().unreduced("y")).share());
  expect_value(b);
}

TEST_F(Unreduced, FromCallbacks) {
  int calls = 0;
  Array a = make_array_from_callback({8}, of(P("y").unreduced("x")), [&](const Index&) {
    ++calls;
    return HostArray::from(Floats(4, 1.0F), {4});
  });
  EXPECT_EQ(calls, 8);
  EXPECT_EQ(test::value_of_shards(a).to_vector<float>(), Floats(8, 4.0F));
}

TEST_F(Unreduced, JitTakesAndGivesThem) {
  Array m = device_put(reshape(astype(arange(64), float32), {8, 8}), of(P(none, "x")));
  Array v = device_put(value_, of(P("x")));
  auto product = jit([](const Array& a, const Array& b) { return matmul(a, b); },
                     JitOptions{.out_shardings = {of(P().unreduced("x"))}});
  Array u = product(m, v);
  EXPECT_EQ(*u.sharding(), *of(P().unreduced("x")));
  EXPECT_TRUE(product.lower(m, v).comm_plan().empty()) << to_string(product.lower(m, v).comm_plan());
  Floats want = matmul(m, v).host().to_vector<float>();
  EXPECT_EQ(test::value_of_shards(u).to_vector<float>(), want);
  // Another program completes it, or passes it on.
  auto twice = jit([](const Array& a) { return a + a; });
  EXPECT_EQ((twice(u) * 0.5F).host().to_vector<float>(), want);
  auto scatter = jit([](const Array& a) { return a; }, JitOptions{.out_shardings = {of(P("x"))}});
  EXPECT_EQ(scatter.lower(u).comm_plan().count("reduce_scatter"), 1);
  EXPECT_EQ(scatter(u).host().to_vector<float>(), want);
  auto kept = jit([](const Array& a) { return a * 3.0F + a; },
                  JitOptions{.in_shardings = {of(P().unreduced("x"))}, .out_shardings = {of(P().unreduced("x"))}});
  EXPECT_TRUE(kept.lower(u).comm_plan().empty());
  for (auto& x : want) x *= 4;
  EXPECT_EQ(test::value_of_shards(kept(u)).to_vector<float>(), want);
}

TEST_F(Unreduced, ConstraintsStayInResults) {
  Array m = device_put(reshape(astype(arange(64), float32), {8, 8}), of(P(none, "x")));
  Array v = device_put(value_, of(P("x")));
  auto f =
      jit([](const Array& a, const Array& b) { return with_sharding_constraint(matmul(a, b), P().unreduced("x")); });
  Array u = f(m, v);
  EXPECT_TRUE(u.sharding()->is_equivalent_to(*of(P().unreduced("x")), 1)) << u.sharding()->text();
  EXPECT_TRUE(f.lower(m, v).comm_plan().empty());
  EXPECT_EQ(test::value_of_shards(u).to_vector<float>(), matmul(m, v).host().to_vector<float>());
  std::string text = f.lower(m, v).as_text();
  EXPECT_NE(text.find("sdy.sharding_constraint"), std::string::npos) << text;
  EXPECT_NE(text.find("unreduced={\"x\"}"), std::string::npos) << text;
}

TEST_F(Unreduced, GradientsGoThrough) {
  Array v = device_put(value_, of(P("x")));
  auto loss = [](const Array& a) {
    Array u = with_sharding_constraint(a * a, P().unreduced("y"));
    return tessera::sum(with_sharding_constraint(u, P("x")));
  };
  Floats want = value_.to_vector<float>();
  for (auto& x : want) x *= 2;
  EXPECT_EQ(jit(grad(loss))(v).host().to_vector<float>(), want);
}

TEST_F(Unreduced, DonatedAndDeleted) {
  Array a = sum();
  auto f = jit([](const Array& x) { return x + x; },
               JitOptions{.out_shardings = {of(P().unreduced("x"))}, .donate_argnums = {0}});
  Array b = f(a);
  EXPECT_TRUE(a.is_deleted());
  Floats twice = value_.to_vector<float>();
  for (auto& x : twice) x *= 2;
  EXPECT_EQ(test::value_of_shards(b).to_vector<float>(), twice);
}

TEST_F(Unreduced, CheckpointsHoldValues) {
  EXPECT_THROW(checkpoints::save("nowhere", 0, sum()), StateError);
  test::TempFolder folder;
  Array whole = device_put(value_, of(P("x")));
  checkpoints::save(folder.path(), 1, whole).wait();
  expect_value(checkpoints::restore(folder.path(), 1, whole, {.shardings = {of(P("y").unreduced("x"))}}));
}

// Addends in several processes: they are made where their devices are, and summed by all.
TEST(UnreducedCluster, AcrossProcesses) {
  auto clients = test::cluster_clients(2, 4);
  std::vector<std::thread> threads;
  for (const Client& client : clients) {
    threads.emplace_back([&client] {
      ClientScope scope(client);
      try {
        Mesh mesh = make_mesh({4, 2}, {"x", "y"}, client.devices());
        auto of = [&](const PartitionSpec& spec) { return NamedSharding(mesh, spec).share(); };
        Floats want{3, -1, 4, 1, -5, 9, 2, 6};
        HostArray value = HostArray::from(want, {8});
        for (const auto& from : {P(), P("x"), P({"x", "y"})}) {
          for (const auto& to : {P().unreduced("x"), P("y").unreduced("x"), P().unreduced("x", "y")}) {
            Array u = reshard(device_put(value, of(from)), of(to));
            EXPECT_EQ(reshard(u, of(P())).host().to_vector<float>(), want) << from.text() << " to " << to.text();
            EXPECT_EQ(reshard(device_put(value, of(to)), of(P())).host().to_vector<float>(), want) << to.text();
            Array twice = jit([](const Array& a) { return a + a; }, JitOptions{.out_shardings = {of(to)}})(u);
            Array half = jit([](const Array& a) { return a * 0.5F; }, JitOptions{.out_shardings = {of(P())}})(twice);
            EXPECT_EQ(half.host().to_vector<float>(), want) << from.text() << " to " << to.text();
          }
        }
      } catch (const std::exception& e) {
        ADD_FAILURE() << e.what();
      }
    });
  }
  for (auto& t : threads) t.join();
}

}  // namespace
}  // namespace tessera
