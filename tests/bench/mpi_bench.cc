// SPDX-License-Identifier: Apache-2.0
// The library's side of `make bench-mpi`, run by every rank. Prints "op bytes microseconds" of rank 0 for the
// transport, "program.op …" for compiled programs, and the training step with what it sends.
//
//   mpi_bench [transport|programs|step]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "engines/cpu/steps/combine.h"
#include "runtime/engine.h"
#include "tessera/tessera.h"
#include "workloads/gpt.h"

namespace ts = tessera;
using ts::Array;
using ts::P;

namespace {

constexpr int kBatches = 5;

std::int64_t iterations(std::int64_t bytes) {
  return bytes <= 16384 ? 200 : bytes <= 1 << 20 ? 20 : bytes <= 1 << 24 ? 4 : 2;
}
const std::vector<std::int64_t>& sizes() {
  static const std::vector<std::int64_t> all{16, 1024, 16384, 262144, 4194304, 67108864};
  return all;
}

// Of the best batch; all processes begin one together.
double microseconds(std::int64_t count, const std::function<void()>& body) {
  using Clock = std::chrono::steady_clock;
  body();
  double best = 1e30;
  for (int batch = 0; batch < kBatches; ++batch) {
    ts::sync_global_devices("batch");
    const auto begin = Clock::now();
    for (std::int64_t i = 0; i < count; ++i) body();
    const std::chrono::duration<double, std::micro> took = Clock::now() - begin;
    best = std::min(best, took.count() / static_cast<double>(count));
  }
  return best;
}

void tell(const std::string& op, std::int64_t bytes, double us) {
  if (ts::process_index() != 0) return;
  std::printf("%s %lld %.2f\n", op.c_str(), static_cast<long long>(bytes), us);
  std::fflush(stdout);
}

void transport() {
  using Collectives = ts::runtime::Collectives;
  Collectives& all = *ts::runtime::runtime_of(ts::Client::current()).collectives;
  const int n = all.process_count();
  std::vector<std::int32_t> group(static_cast<std::size_t>(n));
  std::iota(group.begin(), group.end(), 0);
  std::vector<float> in(sizes().back() / 4, 1);
  std::vector<float> out(in.size());
  const ts::cpu::Combiner combiner(ts::ir::Reduction::Sum, ts::DType::F32);
  Collectives::Reducer sum{
      ts::DType::F32, ts::ir::Reduction::Sum,
      [&](std::span<const void* const> blocks, void* to, std::int64_t count) { combiner.combine(blocks, to, count); }};
  std::int64_t tag = std::int64_t{1} << 50;
  auto call = [&] { return Collectives::Call{++tag, "bench"}; };
  for (auto bytes : sizes()) {
    const std::int64_t count = bytes / 4;
    const std::vector<std::int64_t> parts(group.size(), count / n);
    const std::vector<std::int64_t> part_bytes(group.size(), count / n * 4);
    auto timed = [&](const char* op, const std::function<ts::runtime::CommunicationPtr()>& start) {
      tell(op, bytes, microseconds(iterations(bytes), [&] { start()->wait(); }));
    };
    timed("all_reduce", [&] { return all.start_all_reduce(call(), group, in.data(), out.data(), count, sum); });
    timed("all_gather", [&] { return all.start_all_gather(call(), group, in.data(), out.data(), part_bytes); });
    timed("reduce_scatter", [&] { return all.start_reduce_scatter(call(), group, in.data(), out.data(), parts, sum); });
    timed("all_to_all",
          [&] { return all.start_all_to_all(call(), group, in.data(), part_bytes, out.data(), part_bytes); });
  }
}

// Compiled programs on one device of each process; sizes are of a device's larger side.
void programs() {
  const std::int64_t n = std::ssize(ts::devices());
  const ts::Mesh mesh = ts::make_mesh({n}, {"x"});
  auto timed = [&](const char* op, std::int64_t bytes, std::int64_t rows, const P& out,
                   const std::function<Array(const Array&)>& body) {
    Array x = ts::device_put(ts::HostArray::from(std::vector<float>(static_cast<std::size_t>(n * rows), 1)),
                             ts::NamedSharding(mesh, P("x")));
    auto f = ts::jit(ts::shard_map(body, mesh, P("x"), out, {.check_vma = false}));
    tell(std::string("program.") + op, bytes, microseconds(iterations(bytes), [&] { f(x).block_until_ready(); }));
  };
  for (auto bytes : sizes()) {
    const std::int64_t count = bytes / 4;
    timed("all_reduce", bytes, count, P(), [](const Array& v) { return ts::psum(v, "x"); });
    timed("all_gather", bytes, count / n, P(), [](const Array& v) { return ts::all_gather(v, "x", {.tiled = true}); });
    timed("reduce_scatter", bytes, count, P("x"),
          [](const Array& v) { return ts::psum_scatter(v, "x", {.tiled = true}); });
    timed("all_to_all", bytes, count, P("x"),
          [](const Array& v) { return ts::all_to_all(v, "x", 0, 0, {.tiled = true}); });
  }
}

void step() {
  const ts::Mesh mesh = ts::make_mesh({ts::process_count(), 2}, {"x", "y"});
  auto [state, tokens] = gpt::state(mesh);
  auto f = ts::jit([](const gpt::State& s, const Array& t) { return gpt::step(s, t); });
  f(state, tokens).second.block_until_ready();
  auto& all = *ts::runtime::runtime_of(ts::Client::current()).collectives;
  ts::sync_global_devices("before");
  const std::int64_t before = all.bytes_sent();
  f(state, tokens).second.block_until_ready();
  const std::int64_t sent = all.bytes_sent() - before;
  tell("gpt_step", sent, microseconds(3, [&, &s = state, &t = tokens] { f(s, t).second.block_until_ready(); }));
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "transport";
  ts::distributed::initialize({.devices = what == "step" ? 2 : 1});
  if (what == "transport") transport();
  if (what == "programs") programs();
  if (what == "step") step();
}
