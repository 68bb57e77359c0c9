// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <thread>

#include "mesh/client_state.h"
#include "support/meshes.h"
#include "tessera/device.h"
#include "tessera/error.h"

namespace tessera {
namespace {

TEST(Client, OwnsDevices) {
  Client c = Client::cpu({.devices = 6});
  EXPECT_EQ(c.devices().size(), 6u);
  EXPECT_EQ(c.local_devices().size(), 6u);
  EXPECT_EQ(c.device(3).id(), 3);
  EXPECT_EQ(c.device(3).client(), c);
  EXPECT_EQ(c.device(3).platform(), "cpu");
  EXPECT_EQ(to_string(c.device(3)), "CpuDevice(id=3)");
  EXPECT_EQ(to_string(Device()), "Device(null)");
  EXPECT_ERROR(ValueError, c.device(6), "6", "0..5");
  EXPECT_NE(c.device(3), Client::cpu({.devices = 6}).device(3));
  EXPECT_ERROR(ValueError, Device().id(), "null");
  EXPECT_ERROR(ValueError, Client().devices(), "null");
}

TEST(Client, OptionsAreChecked) {
  EXPECT_ERROR(ValueError, Client::cpu({.devices = 0}), "devices = 0");
  EXPECT_ERROR(ValueError, Client::cpu({.process_index = 2, .process_count = 2}), "process_index = 2", "0..1");
  EXPECT_ERROR(ValueError, Client::cpu({.process_index = -1}), "process_index = -1");
  EXPECT_ERROR(ValueError, Client::cpu({.memory_limit = -5}), "memory_limit = -5");
}

TEST(Client, ScopesAreStackedPerThread) {
  Client a = Client::cpu({.devices = 2});
  Client b = Client::cpu({.devices = 3});
  ClientScope outer(a);
  EXPECT_EQ(devices().size(), 2u);
  {
    ClientScope inner(b);
    EXPECT_EQ(Client::current(), b);
    std::thread([&] {
      EXPECT_NE(Client::current(), b);
      ClientScope other(a);
      EXPECT_EQ(local_devices().size(), 2u);
    }).join();
  }
  EXPECT_EQ(Client::current(), a);
  EXPECT_EQ(process_index(), 0);
  EXPECT_EQ(process_count(), 1);
}

TEST(Client, ProcessesOfAClusterJoinIt) {
  auto c = test::cluster_clients(2, 4);
  EXPECT_EQ(c[0].cluster(), c[1].cluster());
  EXPECT_EQ(c[0].devices().size(), 8u);
  EXPECT_EQ(c[1].local_devices()[0].id(), 4);
  EXPECT_EQ(c[0].device(5).process_index(), 1);
  EXPECT_FALSE(c[0].device(5).is_local());
  EXPECT_TRUE(c[1].device(5).is_local());
  EXPECT_NE(c[0].device(5), c[1].device(5));
  auto again = test::cluster_clients(2, 4);
  EXPECT_NE(again[0].cluster(), c[0].cluster());
  EXPECT_EQ(again[0].cluster(), again[1].cluster());
  Client named =
      Client::cpu({.devices = 1, .process_index = 0, .process_count = 2, .cluster = std::make_shared<Cluster>(2, 1)});
  EXPECT_EQ(Client::cpu({.devices = 1, .process_index = 1, .process_count = 2, .cluster = named.cluster()}).cluster(),
            named.cluster());
  EXPECT_ERROR(ValueError, Client::cpu({.devices = 1, .process_count = 2, .cluster = named.cluster()}),
               "already joined");
  EXPECT_ERROR(ValueError, Client::cpu({.devices = 2, .process_count = 2, .cluster = named.cluster()}), "1 devices");
}

TEST(Client, ExtensionsAreMadeOnce) {
  static const int key = 0;
  Client c = Client::cpu({.devices = 1});
  int made = 0;
  auto make = [&]() -> std::shared_ptr<void> {
    ++made;
    return std::make_shared<int>(7);
  };
  auto first = c.extensions().get(&key, make);
  EXPECT_EQ(c.extensions().get(&key, make), first);
  EXPECT_EQ(made, 1);
}

TEST(Client, EnginesDescribeTheirDevices) {
  Client c = mesh::make_client("tpu", "TpuDevice", 0, 1,
                               {{.id = 2048, .coords = {0, 0, 0}, .slice_index = 3}, {.id = 7, .core_on_chip = 1}});
  EXPECT_EQ(c.device(2048).coords().size(), 3u);
  EXPECT_EQ(c.device(2048).slice_index(), 3);
  EXPECT_EQ(c.device(7).core_on_chip(), 1);
  EXPECT_EQ(c.device(7).slice_index(), std::nullopt);
  EXPECT_EQ(to_string(c.device(7)), "TpuDevice(id=7)");
  EXPECT_ERROR(ValueError, c.device(0), "[2048, 7]");
  EXPECT_ERROR(ValueError, mesh::make_client("tpu", "TpuDevice", 0, 1, {{.id = 1}, {.id = 1}}), "1");
}

}  // namespace
}  // namespace tessera
