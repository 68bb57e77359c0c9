// SPDX-License-Identifier: Apache-2.0
// An engine that takes programs before they are partitioned: it partitions them itself and runs them on the native one.
#include <gtest/gtest.h>

#include "engines/engine_support.h"
#include "spmd/spmd.h"
#include "tessera/tessera.h"

namespace tessera::test {

namespace {

class PartitioningEngine final : public runtime::Engine {
 public:
  explicit PartitioningEngine(std::shared_ptr<runtime::Engine> native) : native_(std::move(native)) {}

  bool partitions() const override { return true; }
  std::shared_ptr<runtime::Executable> compile(const ir::Module& module,
                                               std::shared_ptr<const sharding::DeviceList> devices) override {
    EXPECT_EQ(module.graph->mesh, nullptr) << "it was partitioned before";
    EXPECT_EQ(module.mesh->num_positions(), static_cast<std::int64_t>(devices->size()));
    ++compiles;
    ir::Module m = spmd::prepared(module);
    return native_->compile(module.with_graph(spmd::partition(m, spmd::propagate(m))), std::move(devices));
  }
  std::shared_ptr<runtime::MemoryPool> memory() override { return native_->memory(); }

  int compiles = 0;

 private:
  std::shared_ptr<runtime::Engine> native_;
};

struct Result {
  std::string sharding;
  std::vector<std::vector<float>> values;  // whole, then of each device
};

// A product over a split dimension and a map, on a 4x2 mesh.
std::vector<Result> run_on(const Client& client) {
  ClientScope scope(client);
  auto mesh = make_mesh({4, 2}, {"x", "y"});
  NamedSharding rows(mesh, P("x", "y"));
  NamedSharding columns(mesh, P("y", none));
  Array a = device_put(reshape(arange(8.0F * 4), {8, 4}), rows);
  Array b = device_put(reshape(arange(4.0F * 6), {4, 6}), columns);
  auto sums = shard_map([](Array v) { return psum(v, "x"); }, mesh, P("x", none), P(none, none));
  auto f = jit([sums](Array x, Array y) { return std::pair(tanh(matmul(x, y) / 100.0), sums(x)); });
  auto [p, q] = f(a, b);
  std::vector<Result> out;
  for (const Array& r : {p, q, device_put(p, columns)}) {
    Result& to = out.emplace_back(Result{r.sharding()->text(), {r.to_vector<float>()}});
    for (const auto& s : r.addressable_shards()) to.values.push_back(s.data().value().to_vector<float>());
  }
  return out;
}

TEST(PartitioningEngine, GetsTheModuleAsItWasTraced) {
  auto want = run_on(Client::cpu({.devices = 8}));
  Client client = Client::cpu({.devices = 8});
  auto& runtime = runtime::runtime_of(client);
  auto engine = std::make_shared<PartitioningEngine>(runtime.engine);
  runtime.engine = engine;
  auto got = run_on(client);
  EXPECT_GE(engine->compiles, 2);
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) {
    EXPECT_EQ(got[i].sharding, want[i].sharding);
    EXPECT_EQ(got[i].values, want[i].values) << "result " << i;
  }
}

}  // namespace
}  // namespace tessera::test
