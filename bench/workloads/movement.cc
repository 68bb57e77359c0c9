// SPDX-License-Identifier: Apache-2.0
#include "inputs.h"
#include "workload.h"

namespace tessera::bench {

namespace {

Result to_host(const Settings& s) {
  auto f = jit([](const Array& v) { return v + 1; });
  Array x = put({s.devices, (1 << 25) / s.devices}, mesh1(s.devices), P("x"));
  return each(8,
              [&](std::int64_t) {
                Array y = f(x);
                y.block_until_ready();
                return microseconds([&] { y.host(); });
              },
              {.reads = 128 * kMB, .writes = 128 * kMB});
}

}  // namespace

void add_movement(std::vector<Workload>& list) {
  list.push_back({"device_put_128MB_alldev", [](const Settings& s) {
                    HostArray h = fill({s.devices, (1 << 25) / s.devices});
                    NamedSharding sharding(mesh1(s.devices), P("x"));
                    return timed(s, call([=](const HostArray& v) { return device_put(v, sharding); }, h),
                                 {.reads = 128 * kMB, .writes = 128 * kMB});
                  }});
  list.push_back({"to_host_128MB_alldev", to_host});
  list.push_back(
      {"reshard_rows_to_cols_64MB_alldev", [](const Settings& s) {
         Mesh m = mesh1(s.devices);
         JitOptions options{.out_shardings = {NamedSharding(m, P(none, "x"))}};
         auto f = jit([](const Array& v) { return v; }, options);
         return timed(s, call(f, put({4096, 4096}, m, P("x", none))), {.reads = 64 * kMB, .writes = 64 * kMB});
       }});
}

}  // namespace tessera::bench
