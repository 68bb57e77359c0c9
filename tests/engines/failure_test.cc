// SPDX-License-Identifier: Apache-2.0
// What fails leaves everything else usable: memory that is not to be had, processes that throw.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <future>
#include <thread>

#include "engines/engine_support.h"
#include "support/meshes.h"
#include "tessera/tessera.h"

namespace tessera::test {
namespace {

using Floats = std::vector<float>;

std::int64_t in_use(const Client& client) { return runtime::runtime_of(client).memory->stats().bytes_in_use; }

void expect_usable(const Array& x) {
  EXPECT_EQ((x * 2.0 + 1).to_vector<float>(), (Floats{3, 5, 7, 9, 11, 13, 15, 17}));
  EXPECT_EQ(jit([](Array v) { return sum(v); })(x).item<float>(), 36);
}

TEST(Memory, WhatCannotBeHadIsAnError) {
  Client client = client_of(8);
  ClientScope scope(client);
  auto mesh = make_mesh({8}, {"x"});
  HostArray host = HostArray::from<float>({1, 2, 3, 4, 5, 6, 7, 8});
  for (const Array& x : {Array(host), device_put(host, NamedSharding(mesh, P("x")))}) {
    std::int64_t before = in_use(client);
    // More than any machine has; more than 64 bits count (in bytes, then in elements).
    for (const Shape& shape : {Shape{std::int64_t{1} << 44, 8}, Shape{std::int64_t{1} << 58, 8},
                               Shape{std::int64_t{1} << 40, std::int64_t{1} << 24, 8}}) {
      EXPECT_THROW(broadcast_to(x, shape).block_until_ready(), Error) << to_string(shape);
      EXPECT_THROW(zeros(shape).block_until_ready(), Error) << to_string(shape);
      auto program = jit([&](Array v) { return sum(tanh(broadcast_to(v * 2.0, shape) + 1), 0); });
      EXPECT_THROW(program(x).block_until_ready(), Error) << to_string(shape);
      expect_usable(x);
    }
    EXPECT_EQ(in_use(client), before);
  }
}

TEST(Memory, TheSameFunctionWorksForSmallerArrays) {
  ClientScope scope(client_of(2));
  auto program = jit([](Array v) { return sum(broadcast_to(v, {std::int64_t{1} << 10, v.shape()[0]})); });
  auto huge = jit([](Array v) { return broadcast_to(v, {std::int64_t{1} << 46, v.shape()[0]}); });
  Array x(HostArray::from<float>({1, 2, 3, 4}));
  EXPECT_THROW(huge(x).block_until_ready(), ResourceExhaustedError);
  EXPECT_EQ(program(x).item<float>(), 10240);
}

// A process whose step throws makes the waits of the others throw, and the next step runs.
TEST(Cluster, OneProcessThatFailsFailsTheStepForAll) {
  auto clients = cluster_clients(2, 2);
  std::vector<std::string> errors(2);
  std::vector<float> sums(2);
  auto body = [&](int p) {
    ClientScope scope(clients[at(p)]);
    auto mesh = make_mesh({4}, {"x"}, clients[at(p)].devices());
    Array x = device_put(HostArray::from<float>({1, 2, 3, 4, 5, 6, 7, 8}), NamedSharding(mesh, P("x")));
    auto failing = jit([&](Array v) {
      Array y = pure_callback(
          [p](const std::vector<HostArray>& in) -> std::vector<HostArray> {
            if (p == 0) throw ValueError("not today");
            return in;
          },
          {ShapeDtype{v.shape(), v.dtype()}}, {v})[0];
      // The other process waits here for what the first one never sends.
      return sum(with_sharding_constraint(y, NamedSharding(mesh, P("x"))));
    });
    try {
      failing(x).block_until_ready();
    } catch (const std::exception& e) {
      errors[at(p)] = e.what();
    }
    sums[at(p)] = jit([](Array v) { return sum(v); })(x).item<float>();
  };
  auto both = std::async(std::launch::async, [&] {
    std::thread other([&] { body(1); });
    body(0);
    other.join();
  });
  ASSERT_EQ(both.wait_for(std::chrono::seconds(60)), std::future_status::ready);
  EXPECT_NE(errors[0].find("not today"), std::string::npos) << errors[0];
  EXPECT_NE(errors[1].find("not today"), std::string::npos) << errors[1];
  EXPECT_EQ(sums, (Floats{36, 36}));
}

// A process that never comes to the step: the wait for it ends.
TEST(Cluster, WaitsHaveAnEnd) {
  ASSERT_EQ(setenv("TESSERA_EXCHANGE_SECONDS", "1", 1), 0);
  auto clients = cluster_clients(2, 2);
  ClientScope scope(clients[0]);
  auto mesh = make_mesh({4}, {"x"}, clients[0].devices());
  Array x = device_put(HostArray::from<float>({1, 2, 3, 4}), NamedSharding(mesh, P("x")));
  try {
    jit([](Array v) { return sum(v); })(x).block_until_ready();
    ADD_FAILURE() << "there was nobody to add with";
  } catch (const StateError& e) {
    EXPECT_NE(std::string(e.what()).find("process 1"), std::string::npos) << e.what();
  }
  unsetenv("TESSERA_EXCHANGE_SECONDS");
  EXPECT_EQ(sum(Array(HostArray::from<float>({1, 2}))).item<float>(), 3);
}

}  // namespace
}  // namespace tessera::test
