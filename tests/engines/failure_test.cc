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

// An argument that fails in one process alone fails the step for all, and what the others sent in it is in no later
// one.
TEST(Cluster, AnArgumentThatFailsInOneProcessFailsThatStepAlone) {
  auto clients = cluster_clients(2, 2);
  std::vector<std::string> errors(2);
  std::vector<Floats> sums(2);
  auto body = [&](int p) {
    ClientScope scope(clients[at(p)]);
    auto mesh = make_mesh({4}, {"x"}, clients[at(p)].devices());
    auto total = jit([](Array v) { return sum(v); });
    // Of shards that this process computes; the first of process 0 fails once the call below has been made.
    auto made = [&](float value, bool fails) {
      std::vector<Array> shards;
      for (const Device& d : clients[at(p)].local_devices()) {
        shards.push_back(pure_callback(
            [fails](const std::vector<HostArray>& in) -> std::vector<HostArray> {
              std::this_thread::sleep_for(std::chrono::milliseconds(20));
              if (fails) throw ValueError("not today");
              return in;
            },
            {ShapeDtype{{1}, DType::F32}}, {device_put(HostArray::from<float>({value}), d)})[0]);
      }
      return make_array_from_single_device_arrays({4}, NamedSharding(mesh, P("x")), shards);
    };
    Array lost = total(made(100, p == 0));
    for (int step = 1; step <= 3; ++step)
      sums[at(p)].push_back(total(made(static_cast<float>(step), false)).item<float>());
    errors[at(p)] = error_of<Error>([&] { lost.block_until_ready(); });
  };
  std::thread other([&] { body(1); });
  body(0);
  other.join();
  for (const auto& e : errors) EXPECT_NE(e.find("not today"), std::string::npos) << e;
  for (const auto& s : sums) EXPECT_EQ(s, (Floats{4, 8, 12}));
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

// What each of two processes throws that make an array by `make` and read it in one program.
std::vector<std::string> errors_of(const std::function<Array(int, const Mesh&)>& make) {
  auto clients = cluster_clients(2, 2);
  std::vector<std::string> errors(2);
  auto body = [&](int p) {
    ClientScope scope(clients[at(p)]);
    auto mesh = make_mesh({4}, {"x"}, clients[at(p)].devices());
    auto total = jit([](Array v) { return sum(v); });
    Array common = device_put(HostArray::from<float>({1, 2, 3, 4}), NamedSharding(mesh, P("x")));
    EXPECT_EQ(total(common).item<float>(), 10);
    errors[at(p)] = error_of<StateError>([&] { total(make(p, mesh)).block_until_ready(); });
    EXPECT_EQ(total(common).item<float>(), 10) << "process " << p;
  };
  std::thread other([&] { body(1); });
  body(0);
  other.join();
  return errors;
}
void expect_difference(const std::vector<std::string>& errors, const std::string& first, const std::string& second) {
  for (const std::string& e : errors) {
    EXPECT_NE(e.find("the processes run different programs"), std::string::npos) << e;
    EXPECT_NE(e.find("number 1 (from 0)"), std::string::npos) << e;
    EXPECT_NE(e.find("in process 0 " + first), std::string::npos) << e;
    EXPECT_NE(e.find("in process 1 " + second), std::string::npos) << e;
    EXPECT_NE(e.find("failure_test.cc:"), std::string::npos) << e;
  }
}

// Builders do not communicate; the program that reads what differs tells in which array, on both sides and without a
// wait.
TEST(Cluster, ArraysThatDifferBetweenProcessesAreNamed) {
  auto zeros_of = [](DType dtype) { return [dtype](const Index&) { return HostArray(dtype, {1}); }; };
  expect_difference(errors_of([&](int p, const Mesh& mesh) {
                      const std::int64_t n = p == 0 ? 2 : 4;
                      return make_array_from_callback({4 * n}, NamedSharding(mesh, P("x")).share(),
                                                      [n](const Index&) { return HostArray(DType::F32, {n}); });
                    }),
                    "float32(8,) under", "float32(16,) under");
  expect_difference(errors_of([&](int p, const Mesh& mesh) {
                      return make_array_from_callback({4}, NamedSharding(mesh, P("x")).share(),
                                                      zeros_of(p == 0 ? DType::F32 : DType::I32));
                    }),
                    "float32(4,) under", "int32(4,) under");
  expect_difference(errors_of([&](int p, const Mesh& mesh) {
                      HostArray rows = HostArray::from(std::vector<float>(p == 0 ? 2 : 4, 1));
                      return make_array_from_process_local_data(NamedSharding(mesh, P("x")).share(), rows);
                    }),
                    "float32(4,) under", "float32(8,) under");
  expect_difference(errors_of([&](int p, const Mesh& mesh) {
                      const HostArray rows = HostArray::from(std::vector<float>(p == 0 ? 2 : 4, 1));
                      return host_local_array_to_global_array(rows, mesh, P("x"));
                    }),
                    "float32(4,) under", "float32(8,) under");
  expect_difference(errors_of([&](int p, const Mesh& mesh) {
                      std::vector<Array> shards;
                      for (const auto& d : mesh.local_devices()) {
                        shards.push_back(device_put(HostArray(DType::F32, {p == 0 ? 1 : 2}), d));
                      }
                      return make_array_from_single_device_arrays({p == 0 ? 4 : 8}, NamedSharding(mesh, P("x")).share(),
                                                                  shards);
                    }),
                    "float32(4,) under", "float32(8,) under");
  expect_difference(errors_of([&](int p, const Mesh& mesh) {
                      const HostArray value = HostArray::from<float>({1, 2, 3, 4});
                      return p == 0
                                 ? device_put(value, NamedSharding(mesh, P("x")))
                                 : device_put(value, NamedSharding(make_mesh({2, 2}, {"x", "y"}, mesh.devices_flat()),
                                                                   P(axes("x", "y"))));
                    }),
                    "float32(4,) under NamedSharding", "float32(4,) under NamedSharding");
}

}  // namespace
}  // namespace tessera::test
