// SPDX-License-Identifier: Apache-2.0
// What meshes and shardings cost by the number of devices.
#include <algorithm>
#include <cstdio>

#include "inputs.h"
#include "workload.h"

namespace tessera::bench {

namespace {

// The median of a few turns of `f`, which does its work `times` times.
double each_us(const std::function<void()>& f, int times = 1) {
  std::vector<double> runs;
  for (int i = 0; i < 5; ++i) {
    runs.push_back(microseconds([&] {
                     for (int k = 0; k < times; ++k) f();
                   }) /
                   times);
  }
  std::sort(runs.begin(), runs.end());
  return runs[2];
}

}  // namespace

void print_scale() {
  std::printf("%10s %12s %12s %12s %12s %12s %14s\n", "devices", "mesh us", "sharding us", "equal us", "hash us",
              "map us", "entry us");
  for (std::int64_t side : {8, 64, 256, 1024}) {
    ClientScope scope(Client::cpu({.devices = side * side}));
    Mesh mesh = make_mesh({side, side}, {"x", "y"});
    double make = each_us([&] { make_mesh({side, side}, {"x", "y"}); });
    NamedSharding a(mesh, P("x", "y"));
    NamedSharding b(make_mesh({side, side}, {"x", "y"}), P("x", "y"));
    double sharding = each_us([&] { NamedSharding(mesh, P("x", "y")); }, 100);
    std::size_t sink = 0;
    double equal = each_us([&] { sink += a == b ? 1 : 0; }, 100);
    double hash = each_us([&] { sink += a.hash(); }, 100);
    // Another shape each time: nothing is remembered.
    std::int64_t rows = side;
    double map = each_us([&] { sink += a.devices_indices_map({rows += side, side}).size(); });
    double whole = each_us([&] {
      for (const auto& [device, index] : a.devices_indices_map({rows += side, side})) sink += index.size();
    });
    if (sink == 0) throw StateError("scale: nothing was measured");
    const long long devices = side * side;
    auto n = static_cast<double>(devices);
    std::printf("%10lld %12.2f %12.3f %12.4f %12.4f %12.2f %14.4f\n", devices, make, sharding, equal, hash, map,
                whole / n);
    std::fflush(stdout);
  }
}

}  // namespace tessera::bench
