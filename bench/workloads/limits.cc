// SPDX-License-Identifier: Apache-2.0
// What the machine can do, measured between the runs of each workload.
#include <cblas.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <dnnl.hpp>
#include <fstream>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tessera/threads.h"
#include "workload.h"

namespace tessera::bench {

namespace {

using Times = std::vector<double>;  // microseconds, of one run each

constexpr int kMachineRuns = 10;  // the best of them is what a machine can do

double least(Times times) { return *std::ranges::min_element(times); }
double median(Times times) {
  auto middle = times.begin() + std::ssize(times) / 2;
  std::ranges::nth_element(times, middle);
  return *middle;
}

// Where part i of n of [begin, end) starts.
std::size_t part(std::size_t begin, std::size_t end, std::size_t i, std::size_t n) {
  return begin + (end - begin) * i / n;
}

// Threads that wait for work in a loop, so that neither starting nor waking them is measured. A first run is not
// counted: it finds the caches as somebody else left them.
Times on_all_cores(const std::function<void(std::size_t, std::size_t)>& body, int runs) {
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
  auto once = [&] {
    done = 0;
    ++turn;
    body(0, threads);
    while (done != threads - 1) std::this_thread::yield();
  };
  once();
  Times times;
  for (int i = 0; i < runs; ++i) times.push_back(microseconds(once));
  stop = true;
  for (auto& t : others) t.join();
  return times;
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
class Traffic {
 public:
  Traffic(double reads, double writes)
      : in_(static_cast<std::size_t>(reads) / 8, 1), out_(static_cast<std::size_t>(writes) / 8, 2), sums_(64) {}

  Times operator()(int runs) {
    const std::size_t from = in_.size(), to = out_.size(), both = std::min(from, to);
    return on_all_cores(
        [&](std::size_t i, std::size_t n) {
          std::size_t b = part(0, both, i, n);
          std::size_t e = part(0, both, i + 1, n);
          std::memcpy(out_.data() + b, in_.data() + b, (e - b) * 8);
          sums_[i % sums_.size()] += sum_of(in_, part(both, from, i, n), part(both, from, i + 1, n));
          b = part(both, to, i, n);
          std::memset(out_.data() + b, 1, (part(both, to, i + 1, n) - b) * 8);
        },
        runs);
  }

 private:
  std::vector<std::uint64_t> in_, out_, sums_;
};

// Products of 1024 x 1024 matrices, f32 or bf16, on all cores by each library that has them. As many in a row as the
// workload is worth: a single one finds moments of a machine whose neighbours rest that no long computation has.
class Products {
 public:
  Products(double flops, bool bf16) : a_(kSize * kSize, 0.5F), b_(a_), c_(a_) {
    constexpr double kOperations = 2.0 * kSize * kSize * kSize;
    times_ = std::max(1, static_cast<int>(flops / kOperations));
    share_ = flops / (times_ * kOperations);
    ways_.emplace_back([this](int runs) {
      return in_a_row(runs, [&] {
        dnnl_sgemm('N', 'N', kSize, kSize, kSize, 1, a_.data(), kSize, b_.data(), kSize, 0, c_.data(), kSize);
      });
    });
    // OpenBLAS with a thread of ours a core: its own ones go on waiting in a loop when the workload runs again.
    ways_.emplace_back([this](int runs) {
      return on_all_cores(
          [this](std::size_t i, std::size_t n) { rows(part(0, kSize, i, n), part(0, kSize, i + 1, n)); }, runs);
    });
    if (bf16) add_narrow();
  }
  bool take_long() const { return times_ > 4; }

  // One for each way.
  std::vector<Times> operator()(int runs) const {
    std::vector<Times> out;
    for (const auto& way : ways_) {
      out.push_back(way(runs));
      for (double& t : out.back()) t *= share_;
    }
    return out;
  }

 private:
  static constexpr int kSize = 1024;

  template <class F>
  Times in_a_row(int runs, F product) const {
    product();
    Times times;
    for (int i = 0; i < runs; ++i) {
      times.push_back(microseconds([&] {
        for (int k = 0; k < times_; ++k) product();
      }));
    }
    return times;
  }

  void rows(std::size_t begin, std::size_t end) {
    const auto count = static_cast<int>(end - begin);
    for (int k = 0; k < times_; ++k) {
      cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, count, kSize, kSize, 1, a_.data() + begin * kSize, kSize,
                  b_.data(), kSize, 0, c_.data() + begin * kSize, kSize);
    }
  }

  void add_narrow() {
    namespace d = dnnl;
    d::engine engine(d::engine::kind::cpu, 0);
    d::stream stream(engine);
    const d::memory::desc matrix({kSize, kSize}, d::memory::data_type::bf16, d::memory::format_tag::ab);
    const d::matmul::primitive_desc description({matrix, matrix, matrix}, engine, true);
    if (!description) return;  // a CPU without such products: those of f32 do
    d::matmul product(description);
    d::memory x(matrix, engine), y(matrix, engine), z(matrix, engine);
    for (auto* m : {&x, &y}) std::memset(m->get_data_handle(), 0, m->get_desc().get_size());
    ways_.emplace_back([=, this](int runs) mutable {
      return in_a_row(runs, [&] {
        product.execute(stream, {{DNNL_ARG_SRC, x}, {DNNL_ARG_WEIGHTS, y}, {DNNL_ARG_DST, z}});
        stream.wait();
      });
    });
  }

  std::vector<float> a_, b_, c_;
  int times_ = 1;
  double share_ = 1;
  std::vector<std::function<Times(int)>> ways_;
};

Times empty_calls(int runs) {
  std::function<void(int*)> f = [](int* count) { ++*count; };
  constexpr int kCalls = 1000;
  int count = 0;
  Times times;
  for (int i = 0; i < runs; ++i) {
    times.push_back(microseconds([&] {
                      for (int k = 0; k < kCalls; ++k) f(&count);
                    }) /
                    kCalls);
  }
  return times;
}

// Bytes per nanosecond of copies within the first-level caches, read and written.
double cached_copy_rate() {
  constexpr std::size_t kBytes = 8192;
  constexpr int kTimes = 2000;
  std::size_t threads = std::max(1U, std::thread::hardware_concurrency());
  std::vector<char> memory(2 * kBytes * threads, 1);
  Times times = on_all_cores(
      [&](std::size_t i, std::size_t) {
        char* from = memory.data() + 2 * kBytes * i;
        for (int k = 0; k < kTimes; ++k) {
          std::memcpy(from + kBytes, from, kBytes);
          std::atomic_signal_fence(std::memory_order_seq_cst);  // each is done
        }
      },
      kMachineRuns);
  return 2.0 * kBytes * kTimes * static_cast<double>(threads) / (1000 * least(times));
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
  auto bandwidth = [](double reads, double writes) {
    return (reads + writes) / (1000 * least(Traffic(reads, writes)(kMachineRuns)));
  };
  auto speed = [](bool bf16) {
    double out = 0;
    for (const Times& way : Products(kProducts, bf16)(kMachineRuns))
      out = std::max(out, kProducts / (1000 * least(way)));
    return out;
  };
  m.copy = bandwidth(kBytes, kBytes);
  m.read = bandwidth(kBytes, 0);
  m.fill = bandwidth(0, kBytes);
  m.cached_copy = cached_copy_rate();
  m.f32_products = speed(false);
  m.bf16_products = speed(true);
  return m;
}

struct LimitSampler::State {
  std::optional<Traffic> traffic;
  std::unique_ptr<Products> products;
  Times of_traffic, of_calls;
  std::vector<Times> of_products;  // by way
};

LimitSampler::LimitSampler(const Limit& limit) : state_(std::make_unique<State>()) {
  if (limit.reads + limit.writes > 0) state_->traffic.emplace(limit.reads, limit.writes);
  if (limit.flops > 0) state_->products = std::make_unique<Products>(limit.flops, limit.bf16);
}
LimitSampler::~LimitSampler() = default;

void LimitSampler::sample() {
  constexpr int kFew = 3;
  auto join = [](Times& to, const Times& more) { to.insert(to.end(), more.begin(), more.end()); };
  State& s = *state_;
  if (s.traffic) join(s.of_traffic, (*s.traffic)(kFew));
  if (s.products) {
    auto more = (*s.products)(s.products->take_long() ? 1 : kFew);
    s.of_products.resize(more.size());
    for (std::size_t way = 0; way < more.size(); ++way) join(s.of_products[way], more[way]);
  }
  if (!s.traffic && !s.products) join(s.of_calls, empty_calls(kFew));
}

double LimitSampler::longest(double (*of)(Times)) const {
  const State& s = *state_;
  double products = std::numeric_limits<double>::infinity();
  for (const Times& way : s.of_products) products = std::min(products, of(way));
  double out = s.of_products.empty() ? 0 : products;
  for (const Times* times : {&s.of_traffic, &s.of_calls}) {
    if (!times->empty()) out = std::max(out, of(*times));
  }
  return out;
}
double LimitSampler::median() const { return longest(bench::median); }
double LimitSampler::least() const { return longest(bench::least); }

}  // namespace tessera::bench
