// SPDX-License-Identifier: Apache-2.0
// Indexing and updates leave the dimensions that they do not index split as they are.
#include <gtest/gtest.h>

#include "tessera/tessera.h"

namespace tessera {
namespace {

struct IndexSharding : ::testing::Test {
  Client client = Client::cpu({.devices = 8});
  ClientScope scope{client};
  Mesh mesh = make_mesh({8}, {"data"});
  Array x = device_put(reshape(astype(arange(16 * 12), float32), {16, 12}), NamedSharding(mesh, P("data")));
  Array columns{HostArray::from<std::int32_t>({7, 3, 3, 20})};

  // Runs without moving data, and gives what one device gives.
  template <class F>
  void stays(F f) {
    auto g = jit(f);
    CommPlan plan = g.comm_plan(x);
    EXPECT_TRUE(plan.empty()) << to_string(plan);
    Array y = g(x);
    EXPECT_FALSE(y.is_fully_replicated());
    Array one = device_put(Array(x.host()), client.devices()[0]);
    EXPECT_EQ(y.to_vector<float>(), jit(f)(one).template to_vector<float>());
  }
};

TEST_F(IndexSharding, Reading) {
  stays([&](Array v) { return index(v, {span(), columns}); });
  stays([&](Array v) { return index(v, {ellipsis, span(2, 9, 3)}); });
  stays([&](Array v) { return index(v, {span(), 4}); });
  stays([&](Array v) { return take(v, columns, 1, TakeMode::Clip); });
}

TEST_F(IndexSharding, Updates) {
  stays([&](Array v) { return at(v, {span(), columns}).add(1.0); });
  stays([&](Array v) { return at(v, {span(), columns}).max(100.0); });
  stays([&](Array v) { return at(v, {ellipsis, span(2, 9, 3)}).set(-1.0); });
  stays([&](Array v) { return at(v, {span(), 4}).multiply(2.0); });
  // Along the split dimension: every shard knows which of its elements are meant.
  stays([&](Array v) { return at(v, {span(3, 11)}).set(-1.0); });
  stays([&](Array v) { return at(v, {5, span(2, {})}).add(2.0); });
}

TEST_F(IndexSharding, Gradients) {
  stays([&](Array v) {
    return grad([&](Array u) { return sum(square(at(u, {span(), columns}).add(2.0))); })(v) + 0.0 * v;
  });
}

}  // namespace
}  // namespace tessera
