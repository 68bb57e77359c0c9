// SPDX-License-Identifier: Apache-2.0
// What the machine can do, measured beside each workload.
#include <cblas.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <dnnl.hpp>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "tessera/threads.h"
#include "workload.h"

namespace tessera::bench {

namespace {

// The best of a few: a limit is what the machine can reach.
double best(const std::function<void()>& f, int runs = 10) {
  double least = microseconds(f);
  for (int i = 1; i < runs; ++i) least = std::min(least, microseconds(f));
  return least;
}

// Threads that wait for work in a loop, so that neither starting nor waking them is measured.
double on_all_cores(const std::function<void(std::size_t, std::size_t)>& body) {
  std::size_t threads = std::max(1U, std::thread::hardware_concurrency());
  std::atomic<int> turn{0};
  std::atomic<std::size_t> done{0};
  std::atomic<bool> stop{false};
  std::vector<std::thread> others;
  for (std::size_t i = 1; i < threads; ++i) {
    others.emplace_back([&, i] {
      for (int seen = 0;;) {
        while (turn == seen && !stop) std::this_thread::yield();
        if (stop) return;
        seen = turn;
        body(i, threads);
        ++done;
      }
    });
  }
  double least = best([&] {
    done = 0;
    ++turn;
    body(0, threads);
    while (done != threads - 1) std::this_thread::yield();
  });
  stop = true;
  for (auto& t : others) t.join();
  return least;
}

// The sum of [begin, end), read in four places at a time: so memory gives more than in one.
std::uint64_t sum_of(const std::vector<std::uint64_t>& in, std::size_t begin, std::size_t end) {
  const std::size_t quarter = (end - begin) / 4;
  std::array<std::uint64_t, 4> sums{};
  for (std::size_t j = begin; j < begin + quarter; ++j) {
    for (std::size_t k = 0; k < 4; ++k) sums[k] += in[j + k * quarter];
  }
  for (std::size_t j = begin + 4 * quarter; j < end; ++j) sums[0] += in[j];
  return sums[0] + sums[1] + sums[2] + sums[3];
}

// Reads and writes as much as the workload does: what is read beyond what is written is summed, what is written beyond
// what is read is set.
double memory_time(double reads, double writes) {
  auto from = static_cast<std::size_t>(reads) / 8;
  auto to = static_cast<std::size_t>(writes) / 8;
  std::vector<std::uint64_t> in(from, 1);
  std::vector<std::uint64_t> out(to, 2);
  std::size_t both = std::min(from, to);
  std::vector<std::uint64_t> sums(64);
  return on_all_cores([&](std::size_t i, std::size_t n) {
    auto part = [&](std::size_t begin, std::size_t end, std::size_t k) { return begin + (end - begin) * k / n; };
    std::size_t b = part(0, both, i);
    std::size_t e = part(0, both, i + 1);
    std::memcpy(out.data() + b, in.data() + b, (e - b) * 8);
    sums[i % sums.size()] += sum_of(in, part(both, from, i), part(both, from, i + 1));
    b = part(both, to, i);
    std::memset(out.data() + b, 1, (part(both, to, i + 1) - b) * 8);
  });
}

// Microseconds of `flops` operations of products on all cores: 1024 x 1024 matrices, f32 or bf16, by the faster of the
// libraries with its own threads. As many products in a row as the workload is worth: a single one finds moments of a
// machine whose neighbours rest that no long computation has.
double product_time(double flops, bool bf16) {
  namespace d = dnnl;
  constexpr std::int64_t n = 1024;
  constexpr double operations = 2.0 * n * n * n;
  const int times = std::max(1, static_cast<int>(flops / operations));
  const double share = flops / (times * operations);
  std::vector<float> a(n * n, 0.5F);
  std::vector<float> b(a);
  std::vector<float> c(a);
  auto several = [&](const std::function<void()>& product) {
    auto all = [&] {
      for (int i = 0; i < times; ++i) product();
    };
    return share * best(all, std::max(3, 10 / times));
  };
  const double onednn =
      several([&] { dnnl_sgemm('N', 'N', n, n, n, 1.0F, a.data(), n, b.data(), n, 0.0F, c.data(), n); });
  openblas_set_num_threads(static_cast<int>(std::max(1U, std::thread::hardware_concurrency())));
  const double openblas = several([&] {
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, n, n, n, 1, a.data(), n, b.data(), n, 0, c.data(), n);
  });
  openblas_set_num_threads(1);  // as Tessera wants it
  const double sgemm = std::min(onednn, openblas);
  if (!bf16) return sgemm;
  d::engine engine(d::engine::kind::cpu, 0);
  d::stream stream(engine);
  using Type = d::memory::data_type;
  auto desc = [&](Type t) { return d::memory::desc({n, n}, t, d::memory::format_tag::ab); };
  try {
    d::matmul::primitive_desc p({desc(Type::bf16), desc(Type::bf16), desc(Type::bf16)}, engine);
    d::matmul product(p);
    d::memory x(desc(Type::bf16), engine);
    d::memory y(desc(Type::bf16), engine);
    d::memory z(desc(Type::bf16), engine);
    for (auto* m : {&x, &y}) std::memset(m->get_data_handle(), 0, m->get_desc().get_size());
    const double narrow = several([&] {
      product.execute(stream, {{DNNL_ARG_SRC, x}, {DNNL_ARG_WEIGHTS, y}, {DNNL_ARG_DST, z}});
      stream.wait();
    });
    return std::min(narrow, sgemm);
  } catch (const d::error&) {  // a CPU without such products
    return sgemm;
  }
}

double empty_call() {
  std::function<void(int*)> f = [](int* count) { ++*count; };
  constexpr int kCalls = 1000;
  int count = 0;
  return best([&] {
           for (int i = 0; i < kCalls; ++i) f(&count);
         }) /
         kCalls;
}

// Bytes per nanosecond of copies within the first-level caches, read and written.
double cached_copy_rate() {
  constexpr std::size_t kBytes = 8192;
  constexpr int kTimes = 2000;
  std::size_t threads = std::max(1U, std::thread::hardware_concurrency());
  std::vector<char> memory(2 * kBytes * threads, 1);
  double time = on_all_cores([&](std::size_t i, std::size_t) {
    char* from = memory.data() + 2 * kBytes * i;
    for (int k = 0; k < kTimes; ++k) {
      std::memcpy(from + kBytes, from, kBytes);
      std::atomic_signal_fence(std::memory_order_seq_cst);  // each is done
    }
  });
  return 2.0 * kBytes * kTimes * static_cast<double>(threads) / (1000 * time);
}

std::vector<std::string> instruction_sets() {
  std::vector<std::string> out;
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx2") != 0) out.emplace_back("avx2");
  if (__builtin_cpu_supports("fma") != 0) out.emplace_back("fma");
  if (__builtin_cpu_supports("avx512f") != 0) out.emplace_back("avx512f");
  if (__builtin_cpu_supports("avx512bf16") != 0) out.emplace_back("avx512bf16");
#endif
  return out;
}

}  // namespace

std::string machine_model() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    auto colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown";
}

Machine measure_machine() {
  Machine m;
  m.model = machine_model();
  m.cores = static_cast<int>(std::thread::hardware_concurrency());
  m.isa = instruction_sets();
  auto size = [](int name) { return std::max<std::int64_t>(0, sysconf(name)); };
  m.l1 = size(_SC_LEVEL1_DCACHE_SIZE);
  m.l2 = size(_SC_LEVEL2_CACHE_SIZE);
  m.l3 = cache_bytes();
  constexpr double kBytes = 256e6;
  constexpr double kProducts = 2e9;  // one
  m.copy = 2 * kBytes / (1000 * memory_time(kBytes, kBytes));
  m.read = kBytes / (1000 * memory_time(kBytes, 0));
  m.fill = kBytes / (1000 * memory_time(0, kBytes));
  m.cached_copy = cached_copy_rate();
  m.f32_products = kProducts / (1000 * product_time(kProducts, false));
  m.bf16_products = kProducts / (1000 * product_time(kProducts, true));
  return m;
}

double measure(const Limit& limit) {
  if (limit.flops == 0 && limit.reads + limit.writes == 0) return empty_call();
  double memory = limit.reads + limit.writes > 0 ? memory_time(limit.reads, limit.writes) : 0;
  double products = limit.flops > 0 ? product_time(limit.flops, limit.bf16) : 0;
  return std::max(memory, products);
}

}  // namespace tessera::bench
