// SPDX-License-Identifier: Apache-2.0
// Large values on their way between the host and the devices: the memory that they take, and their bits.
#include <gtest/gtest.h>

#include "runtime/engine.h"
#include "support/spec_report.h"
#include "tessera/tessera.h"

namespace tessera {
namespace {

HostArray counted(const Shape& shape) {
  HostArray out(int32, shape);
  std::int32_t next = 0;
  for (std::int32_t& v : out.span<std::int32_t>()) v = next++ * 2654435761U >> 3;
  return out;
}

const void* address_of_host(const HostArray& value, const Mesh& mesh) {
  return device_put(value, NamedSharding(mesh, P("x"))).host().data();
}

TEST(HostMemory, IsUsedAgainOnceNobodyHoldsTheValue) {
  TESSERA_SPEC("A31");
  const Client client = Client::cpu({.devices = 4});
  const ClientScope scope(client);
  const Mesh mesh = make_mesh({4}, "x");
  const HostArray value = counted({1024, 1024});
  const auto& pool = *runtime::runtime_of(client).host_memory;
  const void* first = address_of_host(value, mesh);
  EXPECT_EQ(pool.stats().live_buffers, 0);
  EXPECT_GE(pool.stats().cached_bytes, value.nbytes());
  EXPECT_EQ(address_of_host(value, mesh), first);
  const HostArray held = device_put(value, NamedSharding(mesh, P("x"))).host();
  EXPECT_EQ(held.data(), first);
  EXPECT_NE(address_of_host(counted({1024, 1024}), mesh), first);
  EXPECT_TRUE(identical(held, value));
}

TEST(HostMemory, CountsForNoLimitAndGoesBackUnderOne) {
  const HostArray value = counted({1024, 1024});
  const Client client = Client::cpu({.devices = 4, .memory_limit = value.nbytes() * 3 / 2});
  const ClientScope scope(client);
  const auto& runtime = runtime::runtime_of(client);
  const NamedSharding sharding(make_mesh({4}, "x"), P("x"));
  {
    const Array array = device_put(value, sharding);
    const auto before = runtime.memory->stats().bytes_in_use;
    EXPECT_TRUE(identical(array.host(), value));
    EXPECT_EQ(runtime.memory->stats().bytes_in_use, before);
    EXPECT_EQ(runtime.host_memory->stats().live_buffers, 1);
  }
  EXPECT_EQ(runtime.host_memory->stats().cached_bytes, 0);
}

TEST(HostMemory, ResultsLargerThanTheCachesKeepTheirBits) {
  const Client client = Client::cpu({.devices = 8});
  const ClientScope scope(client);
  const Mesh mesh = make_mesh({4, 2}, {"x", "y"});
  // Rows of 1,048 bytes and of 2 KB in the shards, which begin anywhere in a line or at its beginning.
  for (const Shape& shape : {Shape{18000, 524}, Shape{9000, 1024}}) {
    const HostArray value = counted(shape);
    for (const P& spec : {P("x", "y"), P(none, "y"), P("x"), P("y", none)}) {
      EXPECT_TRUE(identical(device_put(value, NamedSharding(mesh, spec)).host(), value)) << spec.text();
    }
  }
}

}  // namespace
}  // namespace tessera
