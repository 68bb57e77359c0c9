// SPDX-License-Identifier: Apache-2.0
// The collectives of the workloads: psum, all_gather, psum_scatter, all_to_all and ppermute of 1 KB, 1 MB and 16 MB a
// device, under jit in a map over one axis.
//   build/bench/collectives [devices [name prefix]]
// Prints one JSON line a workload, as the peer does: microseconds of a call, and sums of the result.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "gpt.h"

namespace ts = tessera;

namespace {

using Body = std::function<ts::Array(const ts::Array&)>;

void print_check(const ts::Array& result) {
  auto v = result.to_vector<float>();
  double sum = 0;
  double absolute = 0;
  for (float x : v) {
    sum += static_cast<double>(x);
    absolute += std::abs(static_cast<double>(x));
  }
  std::printf("\"check\": {\"count\": %zu, \"sum\": %.17g, \"abs\": %.17g, \"first\": [", v.size(), sum, absolute);
  for (std::size_t i = 0; i < 4 && i < v.size(); ++i) {
    std::printf("%s%.9g", i > 0 ? ", " : "", static_cast<double>(v[i]));
  }
  std::printf("]}}\n");
  std::fflush(stdout);
}

void timed(const std::string& name, const std::function<ts::Array()>& f) {
  using Clock = std::chrono::steady_clock;
  ts::Array result;
  for (int i = 0; i < 2; ++i) result = f();
  std::vector<double> runs;
  auto start = Clock::now();
  auto seconds = [](Clock::duration d) { return std::chrono::duration<double>(d).count(); };
  while (runs.size() < 2000 && (runs.size() < 5 || seconds(Clock::now() - start) < 1.0)) {
    auto t = Clock::now();
    f();
    runs.push_back(seconds(Clock::now() - t) * 1e6);
  }
  std::sort(runs.begin(), runs.end());
  std::printf("{\"workload\": \"%s\", \"unit\": \"us\", \"min\": %.3f, \"median\": %.3f, \"runs\": %zu, ", name.c_str(),
              runs[0], runs[runs.size() / 2], runs.size());
  print_check(result);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    std::int64_t n = argc > 1 ? std::atoll(argv[1]) : 8;
    std::string only = argc > 2 ? argv[2] : "";
    ts::ClientScope scope(ts::Client::cpu({.devices = n}));
    auto mesh = ts::make_mesh({n}, "x");
    ts::PermutationPairs ring;
    for (std::int64_t i = 0; i < n; ++i) ring.emplace_back(i, (i + 1) % n);
    struct Workload {
      const char* name;
      Body body;
      ts::P out;
    };
    const std::vector<Workload> workloads{
        {"psum", [](const ts::Array& a) { return ts::psum(a, "x"); }, ts::P("x")},
        {"all_gather", [](const ts::Array& a) { return ts::all_gather(a, "x", {.tiled = true}); }, ts::P()},
        {"psum_scatter",
         [](const ts::Array& a) { return ts::psum_scatter(a, "x", {.scatter_dimension = 1, .tiled = true}); },
         ts::P("x")},
        {"all_to_all", [](const ts::Array& a) { return ts::all_to_all(a, "x", 1, 1, {.tiled = true}); }, ts::P("x")},
        {"ppermute", [&](const ts::Array& a) { return ts::ppermute(a, "x", ring); }, ts::P("x")},
    };
    for (std::int64_t bytes : {1LL << 10, 1LL << 20, 1LL << 24}) {
      for (const auto& w : workloads) {
        std::string name = std::string(w.name) + "_" + std::to_string(bytes) + "B";
        bool cuts = name[0] == 'a' || name.rfind("psum_s", 0) == 0;  // needs a part for every device
        if (name.rfind(only, 0) != 0 || (cuts && bytes / 4 % n != 0)) continue;
        auto x = ts::device_put(gpt::fill({n, bytes / 4}, 0), ts::NamedSharding(mesh, ts::P("x")));
        auto f = ts::jit(ts::shard_map(w.body, mesh, ts::P("x"), w.out, {.check_vma = false}));
        timed(name, [&] {
          ts::Array r = f(x);
          r.block_until_ready();
          return r;
        });
      }
    }
    return 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
