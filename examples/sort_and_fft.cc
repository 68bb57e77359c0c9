// SPDX-License-Identifier: Apache-2.0
// Sorts one line and transforms one square in two dimensions, both split over eight devices, beside one device that has
// all of it: turn by turn, the median times and their ratio, the bytes that the busiest device receives, and how far
// the values are from one device's (a sort's may not differ at all).
//
//   sort_and_fft [ELEMENTS [SIDE [TURNS]]]
//   sort_and_fft 67108864 8192 7
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <string>
#include <vector>

#include "tessera/tessera.h"

namespace ts = tessera;
using ts::Array;
using ts::P;

namespace {

constexpr std::int64_t kDevices = 8;

double seconds(const std::function<void()>& f) {
  const auto start = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double median(std::vector<double> runs) {
  std::sort(runs.begin(), runs.end());
  return runs[runs.size() / 2];
}

double norm(const Array& x) { return ts::sqrt(ts::sum(ts::square(ts::abs(x)))).item<float>(); }

using Function = std::function<Array(const Array&)>;

// Whether the values agree: their difference beside their norm is `tolerance` at most.
bool compare(const std::string& name, const Function& f, const Array& whole, const ts::ShardingPtr& split, int turns,
             double tolerance) {
  const ts::ShardingPtr alone = whole.sharding();
  const auto on_many = ts::jit(f, {.in_shardings = {split}, .out_shardings = {split}});
  const auto on_one = ts::jit(f, {.in_shardings = {alone}, .out_shardings = {alone}});
  const Array parts = ts::device_put(whole, split);
  // The first calls, which compile, are not counted.
  Array got = on_many(parts);
  const Array want = on_one(whole);
  const double difference = norm(ts::device_put(got, alone) - want) / norm(want);
  std::vector<double> many, one;
  for (int i = 0; i < turns; ++i) {
    many.push_back(seconds([&] { on_many(parts).block_until_ready(); }));
    one.push_back(seconds([&] { on_one(whole).block_until_ready(); }));
  }
  const auto bytes = on_many.comm_plan(parts).bytes_per_device();
  std::printf(
      "%s: eight devices %.3f s, one %.3f s, ratio %.2f; %.3g MB to a device, which has %.3g MB; difference %.2g\n",
      name.c_str(), median(many), median(one), median(many) / median(one), static_cast<double>(bytes) / 1e6,
      static_cast<double>(whole.nbytes()) / kDevices / 1e6, difference);
  std::fflush(stdout);
  return difference <= tolerance;
}

int run(std::int64_t elements, std::int64_t side, int turns) {
  const ts::Mesh mesh = ts::make_mesh({kDevices}, {"x"});
  const ts::ShardingPtr split = ts::NamedSharding(mesh, P("x"));
  const ts::ShardingPtr alone = ts::SingleDeviceSharding(ts::devices()[0]);
  const Array line = ts::device_put(ts::random::normal(ts::random::key(0), {elements}), alone);
  bool good = compare(
      "sort of " + std::to_string(elements), [](const Array& x) { return ts::sort(x); }, line, split, turns, 0);
  const Array real = ts::random::normal(ts::random::key(1), {side, side});
  const Array square = ts::device_put(ts::astype(real, ts::complex64), alone);
  good &= compare(
      "fft2 of " + std::to_string(side) + " x " + std::to_string(side), [](const Array& x) { return ts::fft::fft2(x); },
      square, split, turns, 1e-5);
  return good ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const std::int64_t elements = argc > 1 ? std::atoll(argv[1]) : std::int64_t{1} << 16;
    const std::int64_t side = argc > 2 ? std::atoll(argv[2]) : 256;
    const int turns = argc > 3 ? std::atoi(argv[3]) : 3;
    if (elements < 1 || side < 1 || turns < 1) {
      std::cerr << "usage: sort_and_fft [ELEMENTS [SIDE [TURNS]]], each at least 1\n";
      return 2;
    }
    ts::ClientScope eight(ts::Client::cpu({.devices = kDevices}));
    return run(elements, side, turns);
  } catch (const std::exception& e) {
    std::cerr << e.what() << "\n";
    return 1;
  }
}
