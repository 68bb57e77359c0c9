// SPDX-License-Identifier: Apache-2.0
// Micro-benchmarks of the CPU kernels at the sizes of the side-by-side workloads.
#include <benchmark/benchmark.h>
#include <dnnl.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "engines/cpu/kernels/copy_kernels.h"
#include "engines/cpu/kernels/elementwise/fused.h"
#include "engines/cpu/kernels/gather_rows.h"
#include "engines/cpu/kernels/products/conv_loops.h"
#include "engines/cpu/kernels/products/gemm.h"
#include "engines/cpu/kernels/reduce_axes.h"
#include "engines/cpu/kernels/sort_kernels.h"
#include "engines/cpu/kernels/threefry.h"

namespace {

using namespace tessera;           // NOLINT(google-build-using-namespace): a leaf program
using namespace tessera::kernels;  // NOLINT(google-build-using-namespace)
using benchmark::State;

std::vector<float> noise(std::int64_t n) {
  std::vector<std::uint32_t> bits(static_cast<std::size_t>(n));
  threefry_bits(1, 2, 0, n, 32, bits.data());
  std::vector<float> v(bits.size());
  for (std::size_t i = 0; i < v.size(); ++i) v[i] = static_cast<float>(bits[i]) / 4294967296.0f - 0.5f;
  return v;
}

void bytes(State& state, std::int64_t n) { state.SetBytesProcessed(state.iterations() * n); }

void flops(State& state, double n) {
  state.counters["GFLOP/s"] = benchmark::Counter(n * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
}

void copy(State& state) {
  std::int64_t n = state.range(0);
  std::vector<char> a(static_cast<std::size_t>(n)), b(a.size());
  for (auto _ : state) copy_bytes(b.data(), a.data(), n);
  bytes(state, 2 * n);
}
BENCHMARK(copy)->Arg(1 << 16)->Arg(1 << 20)->Arg(1 << 26)->UseRealTime();

void transpose(State& state) {
  std::int64_t n = state.range(0);
  auto a = noise(n * n), b = a;
  std::vector<std::int64_t> shape = {n, n}, to = {4 * n, 4}, from = {4, 4 * n};
  for (auto _ : state) copy_strided(b.data(), to, a.data(), from, shape, 4);
  bytes(state, 8 * n * n);
}
BENCHMARK(transpose)->Arg(1024)->Arg(4096)->UseRealTime();

FusedProgram gelu_program() {
  FusedProgram p;
  auto number = [&](float v) { return p.constant(DType::F32, &v); };
  auto two = [&](EwOp op, auto a, auto b) { return p.op(op, DType::F32, a, b); };
  auto v = p.input(DType::F32, Access::Contiguous);
  auto cube = two(EwOp::Mul, two(EwOp::Mul, v, v), v);
  auto inner = p.op(EwOp::MulAdd, DType::F32, number(0.044715f), cube, v);
  auto t = p.op(EwOp::Tanh, DType::F32, two(EwOp::Mul, number(0.79788456f), inner));
  p.output(two(EwOp::Mul, two(EwOp::Mul, number(0.5f), v), two(EwOp::Add, number(1), t)));
  return p;
}

FusedProgram softmax_program() {
  FusedProgram p;
  auto x = p.input(DType::F32, Access::Contiguous);
  auto e = p.op(EwOp::Exp, DType::F32, p.op(EwOp::Sub, DType::F32, x, p.reduce(ReduceOp::Max, x)));
  p.output(p.op(EwOp::Div, DType::F32, e, p.reduce(ReduceOp::Sum, e)));
  return p;
}

FusedProgram layernorm_program(std::int64_t inner) {
  FusedProgram p;
  float one_over = 1.0f / static_cast<float>(inner), epsilon = 1e-5f;
  auto inv = p.constant(DType::F32, &one_over), eps = p.constant(DType::F32, &epsilon);
  auto x = p.input(DType::F32, Access::Contiguous);
  auto d = p.op(EwOp::Sub, DType::F32, x, p.op(EwOp::Mul, DType::F32, p.reduce(ReduceOp::Sum, x), inv));
  auto var = p.op(EwOp::Mul, DType::F32, p.reduce(ReduceOp::Sum, p.op(EwOp::Square, DType::F32, d)), inv);
  p.output(p.op(EwOp::Mul, DType::F32, d, p.op(EwOp::Rsqrt, DType::F32, p.op(EwOp::Add, DType::F32, var, eps))));
  return p;
}

void run_fused(State& state, FusedProgram program, std::int64_t outer, std::int64_t inner) {
  FusedKernel kernel(std::move(program));
  auto a = noise(outer * inner), b = a;
  const void* in[] = {a.data()};
  void* out[] = {b.data()};
  for (auto _ : state) kernel.run(in, out, outer, inner);
  bytes(state, 8 * outer * inner);
}
void gelu(State& state) { run_fused(state, gelu_program(), 1, state.range(0)); }
BENCHMARK(gelu)->Arg(1 << 12)->Arg(1 << 18)->Arg(1 << 24)->UseRealTime();
void softmax(State& state) { run_fused(state, softmax_program(), state.range(0), state.range(1)); }
BENCHMARK(softmax)->Args({8192, 1024})->Args({65536, 128})->Args({128, 65536})->UseRealTime();
void layernorm(State& state) { run_fused(state, layernorm_program(state.range(1)), state.range(0), state.range(1)); }
BENCHMARK(layernorm)->Args({8192, 1024})->Args({2048, 256})->UseRealTime();

void sum(State& state) {
  std::int64_t n = state.range(0);
  auto a = noise(n);
  float total;
  for (auto _ : state) reduce(ReduceOp::Sum, DType::F32, a.data(), &total, 1, n, 1);
  bytes(state, 4 * n);
}
BENCHMARK(sum)->Arg(1 << 24)->UseRealTime();

void gemm_f32(State& state) {
  std::int64_t n = state.range(0);
  auto a = noise(n * n), b = noise(n * n), c = a;
  for (auto _ : state) {
    gemm(DType::F32, DType::F32, false, false, 1, n, n, n, a.data(), n, 0, b.data(), n, 0, c.data(), n, 0);
  }
  flops(state, 2.0 * std::pow(static_cast<double>(n), 3));
}
BENCHMARK(gemm_f32)->Arg(128)->Arg(512)->Arg(1024)->Arg(2048)->UseRealTime();

// The limit: one call of the library with its own threads.
void library_gemm_f32(State& state) {
  std::int64_t n = state.range(0);
  auto a = noise(n * n), b = noise(n * n), c = a;
  for (auto _ : state) dnnl_sgemm('N', 'N', n, n, n, 1, a.data(), n, b.data(), n, 0, c.data(), n);
  flops(state, 2.0 * std::pow(static_cast<double>(n), 3));
}
BENCHMARK(library_gemm_f32)->Arg(128)->Arg(512)->Arg(1024)->Arg(2048)->UseRealTime();

void gemm_bf16(State& state) {
  std::int64_t n = state.range(0);
  auto wide = noise(n * n);
  std::vector<bfloat16_t> a(wide.begin(), wide.end()), b = a, c = a;
  for (auto _ : state) {
    gemm(DType::BF16, DType::BF16, false, false, 1, n, n, n, a.data(), n, 0, b.data(), n, 0, c.data(), n, 0);
  }
  flops(state, 2.0 * std::pow(static_cast<double>(n), 3));
}
BENCHMARK(gemm_bf16)->Arg(1024)->UseRealTime();

void gemm_int8(State& state) {
  std::int64_t n = state.range(0);
  std::vector<std::int8_t> a(static_cast<std::size_t>(n * n), 3), b = a;
  std::vector<std::int32_t> c(a.size());
  for (auto _ : state) {
    gemm(DType::I8, DType::I32, false, false, 1, n, n, n, a.data(), n, 0, b.data(), n, 0, c.data(), n, 0);
  }
  flops(state, 2.0 * std::pow(static_cast<double>(n), 3));
}
BENCHMARK(gemm_int8)->Arg(1024)->UseRealTime();

void conv_3x3(State& state) {
  ConvSpec s;
  s.lhs_shape = s.out_shape = {32, 32, 32, 64};
  s.rhs_shape = {3, 3, 64, 64};
  s.lhs = s.out = {0, 3, {1, 2}};
  s.rhs = {3, 2, {0, 1}};
  s.strides = s.lhs_dilation = s.rhs_dilation = s.pad_low = s.pad_high = {1, 1};
  s.allow_winograd = state.range(0) != 0;
  auto x = noise(32 * 32 * 32 * 64), w = noise(9 * 64 * 64), y = x;
  for (auto _ : state) conv(s, x.data(), w.data(), y.data());
  flops(state, 2.0 * 32 * 32 * 32 * 64 * 64 * 9);
}
BENCHMARK(conv_3x3)->Arg(0)->Arg(1)->UseRealTime();

void sort_f32(State& state) {
  std::int64_t n = state.range(0);
  auto a = noise(n), b = a;
  for (auto _ : state) sort_rows(DType::F32, a.data(), b.data(), 1, n);
  state.SetItemsProcessed(state.iterations() * n);
}
BENCHMARK(sort_f32)->Arg(1 << 20)->UseRealTime();

void gather(State& state) {
  std::int64_t rows = 65536, size = 256, n = 32768;
  auto table = noise(rows * size), out = noise(n * size);
  std::vector<std::uint32_t> index(static_cast<std::size_t>(n));
  threefry_bits(3, 4, 0, n, 32, index.data());
  for (auto& i : index) i %= static_cast<std::uint32_t>(rows);
  RowNumbers places{{{n, 1, 0}}, {{0, rows - 1, 1}}, false, DType::U32};
  places.simplify();
  for (auto _ : state) gather_rows(table.data(), size * 4, places, index.data(), nullptr, out.data());
  bytes(state, 2 * n * size * 4);
}
BENCHMARK(gather)->UseRealTime();

void random_bits(State& state) {
  std::int64_t n = state.range(0);
  std::vector<std::uint32_t> bits(static_cast<std::size_t>(n));
  for (auto _ : state) threefry_bits(1, 2, 0, n, 32, bits.data());
  state.SetItemsProcessed(state.iterations() * n);
}
BENCHMARK(random_bits)->Arg(1 << 22)->UseRealTime();

}  // namespace

BENCHMARK_MAIN();
