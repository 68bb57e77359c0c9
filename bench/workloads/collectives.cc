// SPDX-License-Identifier: Apache-2.0
// Bytes a device in the names.
#include "inputs.h"
#include "workload.h"

namespace tessera::bench {

namespace {

struct Collective {
  std::string name;
  std::function<Array(const Array&)> body;
  P out;
  double reads, writes;  // blocks of all devices: what has to be read, and written once for all that hold it
};

Result run(const Settings& s, const Collective& c, std::int64_t bytes) {
  Mesh mesh = mesh1(s.devices);
  Array x = put({s.devices, bytes / 4}, mesh, P("x"));
  auto f = jit(shard_map(c.body, mesh, P("x"), c.out, {.check_vma = false}));
  auto all = static_cast<double>(s.devices * bytes);
  bool small = bytes <= 1024;
  return timed(s, call(f, x), small ? Limit{} : Limit{.reads = c.reads * all, .writes = c.writes * all}, 2);
}

Array shift(const Array& a, std::int64_t n) {
  PermutationPairs ring;
  for (std::int64_t i = 0; i < n; ++i) ring.emplace_back(i, (i + 1) % n);
  return ppermute(a, "x", ring);
}

}  // namespace

void add_collectives(std::vector<Workload>& list) {
  using Make = std::function<Collective(double)>;  // of the number of devices
  const std::vector<std::pair<std::string, Make>> all = {
      {"psum",
       [](double n) {
         return Collective{"psum", [](const Array& a) { return psum(a, "x"); }, P("x"), 1, 1 / n};
       }},
      {"all_gather",
       [](double) {
         return Collective{"all_gather", [](const Array& a) { return all_gather(a, "x", {.tiled = true}); }, P(), 1, 1};
       }},
      {"psum_scatter",
       [](double n) {
         auto body = [](const Array& a) { return psum_scatter(a, "x", {.scatter_dimension = 1, .tiled = true}); };
         return Collective{"psum_scatter", body, P("x"), 1, 1 / n};
       }},
      {"all_to_all",
       [](double) {
         auto body = [](const Array& a) { return all_to_all(a, "x", 1, 1, {.tiled = true}); };
         return Collective{"all_to_all", body, P("x"), 1, 1};
       }},
      {"ppermute",
       [](double n) {
         auto body = [n](const Array& a) { return shift(a, static_cast<std::int64_t>(n)); };
         return Collective{"ppermute", body, P("x"), 0, 0};
       }},
  };
  for (const auto& [name, make] : all) {
    for (std::int64_t bytes : {1LL << 10, 1LL << 20, 1LL << 24}) {
      list.push_back({name + "_" + std::to_string(bytes) + "B", [make, bytes](const Settings& s) {
                        return run(s, make(static_cast<double>(s.devices)), bytes);
                      }});
    }
  }
}

}  // namespace tessera::bench
