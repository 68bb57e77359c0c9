// SPDX-License-Identifier: Apache-2.0
// Micro-benchmarks of what stands around the kernels: calls, tracing and compiling, shardings, exchanges, texts, files.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "gpt.h"
#include "tessera/stablehlo.h"
#include "tessera/tessera.h"

namespace {

using namespace tessera;  // NOLINT(google-build-using-namespace): a leaf program
using benchmark::State;

Mesh line() { return make_mesh({8}, {"x"}); }
Mesh grid() { return make_mesh({4, 2}, {"x", "y"}); }
Array split(std::int64_t n) { return device_put(bench::fill({n}, 1), NamedSharding(line(), P("x"))); }

void call(State& state) {
  std::vector<Array> xs(static_cast<std::size_t>(state.range(0)), split(8));
  auto f = jit([](const std::vector<Array>& v) { return tree_map([](const Array& x) { return x + 1; }, v); });
  for (auto _ : state) {
    for (const Array& y : f(xs)) y.block_until_ready();
  }
}
BENCHMARK(call)->Arg(1)->Arg(10)->Arg(100)->UseRealTime();

void call_at_once(State& state) {
  Array x = split(8);
  for (auto _ : state) (x + 1).block_until_ready();
}
BENCHMARK(call_at_once)->UseRealTime();

// The GPT-like training step, from the C++ function to steps of the engine.
auto step() {
  return [](const gpt::State& s, const Array& tokens) { return gpt::step(s, tokens); };
}
void trace(State& state) {
  auto [weights, tokens] = gpt::state(grid());
  for (auto _ : state) benchmark::DoNotOptimize(jit(step()).trace(weights, tokens));
}
BENCHMARK(trace)->Unit(benchmark::kMillisecond)->UseRealTime();

// The same over explicit axes, in alternation with automatic ones: `ratio` is that of the fastest of each.
void trace_explicit(State& state) {
  const Mesh typed = make_explicit_mesh({4, 2}, {"x", "y"});
  const auto automatic = gpt::state(grid());
  const auto placed = [&] {
    const SetMesh scope(typed);
    return gpt::state(typed);
  }();
  auto typed_step = [](const gpt::State& s, const Array& tokens) { return gpt::step(s, tokens, false, P("x")); };
  using Clock = std::chrono::steady_clock;
  auto least = [](Clock::duration& best, auto f) {
    const auto start = Clock::now();
    f();
    best = std::min(best, Clock::now() - start);
  };
  Clock::duration by_types = Clock::duration::max(), without = Clock::duration::max();
  for (auto _ : state) {
    state.PauseTiming();
    least(without, [&] { benchmark::DoNotOptimize(jit(step()).trace(automatic.first, automatic.second)); });
    const SetMesh scope(typed);
    state.ResumeTiming();
    least(by_types, [&] { benchmark::DoNotOptimize(jit(typed_step).trace(placed.first, placed.second)); });
  }
  state.counters["ratio"] = std::chrono::duration<double>(by_types) / std::chrono::duration<double>(without);
}
BENCHMARK(trace_explicit)->Unit(benchmark::kMillisecond)->UseRealTime();

void partition_and_compile(State& state) {
  auto [weights, tokens] = gpt::state(grid());
  for (auto _ : state) {
    state.PauseTiming();
    auto lowered = jit(step()).lower(weights, tokens);
    state.ResumeTiming();
    benchmark::DoNotOptimize(lowered.compile());
  }
}
BENCHMARK(partition_and_compile)->Unit(benchmark::kMillisecond)->UseRealTime();

void write_text(State& state) {
  auto [weights, tokens] = gpt::state(grid());
  auto lowered = jit(step()).lower(weights, tokens);
  for (auto _ : state) benchmark::DoNotOptimize(lowered.as_text());
}
BENCHMARK(write_text)->Unit(benchmark::kMillisecond)->UseRealTime();

void read_text(State& state) {
  auto [weights, tokens] = gpt::state(grid());
  std::string text = jit(step()).lower(weights, tokens).as_text();
  for (auto _ : state) benchmark::DoNotOptimize(StablehloProgram::parse(text));
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(text.size()));
}
BENCHMARK(read_text)->Unit(benchmark::kMillisecond)->UseRealTime();

void named_sharding(State& state) {
  Mesh mesh = grid();
  for (auto _ : state) benchmark::DoNotOptimize(NamedSharding(mesh, P("x", "y")));
}
BENCHMARK(named_sharding);

// A shape that was not asked for before.
void index_map(State& state) {
  NamedSharding sharding(grid(), P("x", "y"));
  std::int64_t rows = 0;
  for (auto _ : state) {
    rows += 8;
    for (const auto& [device, index] : sharding.devices_indices_map({rows, 4096})) benchmark::DoNotOptimize(index);
  }
}
BENCHMARK(index_map);

template <class F>
void exchange(State& state, F f) {
  Array x = split(state.range(0));
  auto g = jit(shard_map(f, line(), P("x"), P("x")));
  for (auto _ : state) g(x).block_until_ready();
  state.SetBytesProcessed(state.iterations() * state.range(0) * 4);
}
void sum_of_shards(State& state) {
  exchange(state, [](const Array& x) { return psum(x, "x") + x; });
}
BENCHMARK(sum_of_shards)->Arg(1 << 10)->Arg(1 << 22)->UseRealTime();
void shards_of_all(State& state) {
  exchange(state, [](const Array& x) { return all_to_all(x, "x", 0, 0, {.tiled = true}); });
}
BENCHMARK(shards_of_all)->Arg(1 << 10)->Arg(1 << 22)->UseRealTime();

void rows_to_columns(State& state) {
  Array x = device_put(bench::fill({4096, 4096}), NamedSharding(line(), P("x")));
  NamedSharding columns(line(), P(none, "x"));
  for (auto _ : state) device_put(x, columns).block_until_ready();
  state.SetBytesProcessed(state.iterations() * std::int64_t{64} * (1 << 20));
}
BENCHMARK(rows_to_columns)->Unit(benchmark::kMillisecond)->UseRealTime();

void npz(State& state) {
  std::string path = (std::filesystem::temp_directory_path() / "tessera_calls_bench.npz").string();
  HostArrays arrays{{"a", bench::fill({1024, 1024})}};
  for (auto _ : state) {
    save_npz(path, arrays);
    benchmark::DoNotOptimize(load_npz(path));
  }
  std::filesystem::remove(path);
  state.SetBytesProcessed(state.iterations() * 2 * arrays["a"].nbytes());
}
BENCHMARK(npz)->Unit(benchmark::kMillisecond)->UseRealTime();

}  // namespace

int main(int argc, char** argv) {
  tessera::ClientScope scope(tessera::Client::cpu({.devices = 8}));
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
