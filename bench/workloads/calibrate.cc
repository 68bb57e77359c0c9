// SPDX-License-Identifier: Apache-2.0
// Figures of the machine at hand, through the engine: each from programs that do one thing alone. All virtual devices
// of a process share its cores and its memory, and a step runs on all of them before the next one begins; so a device
// has an equal share of what all of them reach together.
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <thread>

#include "calibration.h"
#include "inputs.h"
#include "tessera/threads.h"
#include "workload.h"

namespace tessera::bench {

namespace {

// Operations of a long chain; a short one has a quarter of them, and is still no memory traffic above all.
struct Chain {
  std::int64_t length = 32;
  std::int64_t elements = 1 << 18;
};
constexpr Chain kChain, kSums{28, 1 << 18}, kFunctions{4, 1 << 20};

class Meter {
 public:
  Meter(const CalibrationSettings& s, RoundTimes& times)
      : s_(s), times_(times), n_(s.devices), mesh_(mesh1(s.devices)) {}

  template <class F, class... Args>
  double seconds(const F& f, const Args&... args) const {
    auto once = call(jit(f), args...);
    return times_.median(median_seconds({[&] { once(); }}, s_.budget).front());
  }
  /// Seconds that one operation adds to a chain of them. `f(length)` is a function of the chain.
  template <class F, class... Args>
  double added(Chain chain, const F& f, const Args&... args) const {
    const double more = seconds(f(chain.length), args...) - seconds(f(chain.length / 4), args...);
    return std::max(more, 1e-9) / static_cast<double>(chain.length - chain.length / 4);
  }
  /// Split by rows over all devices.
  Array rows(const Shape& shape) const { return put(shape, mesh_, P("x")); }
  Array whole(const Shape& shape) const { return put(shape, mesh_, P()); }
  std::int64_t devices() const { return n_; }
  const Mesh& mesh() const { return mesh_; }

 private:
  const CalibrationSettings& s_;
  RoundTimes& times_;
  std::int64_t n_;
  Mesh mesh_;
};

// A step that has next to nothing to do on each device.
double launch(const Meter& m) {
  auto chain = [](std::int64_t length) {
    return [length](Array x, const Array& w) {
      for (std::int64_t i = 0; i < length; ++i) x = matmul(x, w);
      return x;
    };
  };
  return m.added(kChain, chain, m.rows({m.devices(), 4}), m.whole({4, 4}));
}

// Operations per second of all devices together, inside one fused block over arrays that the caches hold. `op` makes of
// what the chain has so far and of the operand what it has then.
using Step = std::function<Array(const Array&, const Array&)>;
double element_rate(const Meter& m, Chain chain, const Step& op, double operations) {
  const std::int64_t columns = chain.elements / m.devices();
  auto steps = [&](std::int64_t length) {
    return [length, op](const Array& x) {
      Array y = x;
      for (std::int64_t i = 0; i < length; ++i) y = op(y, x + static_cast<double>(i));
      return y;
    };
  };
  return operations * static_cast<double>(columns * m.devices()) /
         m.added(chain, steps, m.rows({m.devices(), columns}));
}
// Of functions that are taken for equally fast.
using Function = std::function<Array(const Array&)>;
double function_rate(const Meter& m, double sums, const std::vector<Function>& functions) {
  constexpr double kBeside = 3;  // of the operand, of the chain, and the function's own
  double seconds = 0;
  for (const auto& f : functions) {
    const double each = 1 / element_rate(
                                m, kFunctions, [f](const Array& y, const Array& x) { return y + f(x); }, 1);
    seconds += std::max(each - kBeside / sums, each / 2);
  }
  return static_cast<double>(functions.size()) / seconds;
}

double product_speed(const Meter& m, DType dtype) {
  constexpr std::int64_t n = 1024;
  const std::int64_t rows = std::max(n, 64 * m.devices());
  const double time = m.seconds([](const Array& x, const Array& w) { return matmul(x, w); },
                                astype(m.rows({rows, n}), dtype), astype(m.whole({n, n}), dtype));
  return 2.0 * static_cast<double>(rows * n * n) / time;
}

// A matrix, split by rows, times a vector.
std::int64_t matrix_rows(const Meter& m, std::int64_t elements, std::int64_t columns) {
  return m.devices() * std::max<std::int64_t>(1, elements / columns / m.devices());
}
double matrix_times_vector(const Meter& m, std::int64_t elements, std::int64_t columns) {
  return m.seconds([](const Array& x, const Array& v) { return matmul(x, v); },
                   m.rows({matrix_rows(m, elements, columns), columns}), m.whole({columns}));
}
constexpr std::int64_t kMatrix = 1 << 20;   // elements that the caches hold
constexpr std::int64_t kLongRow = 1 << 10;  // of it

// Bytes per second at which such a matrix is read: what a product of four times its rows takes longer.
double product_reads(const Meter& m) {
  constexpr std::int64_t kQuarter = kMatrix / 4;
  const double more = matrix_times_vector(m, kMatrix, kLongRow) - matrix_times_vector(m, kQuarter, kLongRow);
  return 4.0 * static_cast<double>(kMatrix - kQuarter) / std::max(more, 1e-7);
}

// Rows per second of such a product, besides their bytes: what as many bytes in short rows take longer.
double product_row_rate(const Meter& m) {
  constexpr std::int64_t kShort = 1 << 7;
  const double more = matrix_times_vector(m, kMatrix, kShort) - matrix_times_vector(m, kMatrix, kLongRow);
  const std::int64_t rows = matrix_rows(m, kMatrix, kShort) - matrix_rows(m, kMatrix, kLongRow);
  return static_cast<double>(std::max<std::int64_t>(1, rows)) / std::max(more, 1e-7);
}

// Bytes per second that a sum of all elements reads of what no cache holds.
double reduction_reads(const Meter& m, std::int64_t bytes) {
  const std::int64_t columns = bytes / 4 / m.devices();
  return static_cast<double>(bytes) / m.seconds([](const Array& x) { return sum(x); }, m.rows({m.devices(), columns}));
}

// Seconds of reading an operand of as many elements, in such rows, once more inside a fused block, moved; and adding
// it.
constexpr std::int64_t kWindowElements = 1 << 17;  // of a device: more than the cache of a core holds
double window_time(const Meter& m, std::int64_t columns) {
  constexpr Chain kWindows{8, 0};
  auto chain = [](std::int64_t length) {
    return [length](const Array& x) {
      Array y = x;
      for (std::int64_t i = 0; i < length; ++i) {
        const std::int64_t by = i % 4 < 2 ? i / 4 + 1 : -(i / 4 + 1);
        std::vector<lax::PadDim> pads(3);
        pads[i % 2 == 0 ? 1 : 2] = {by, -by};
        y = y + lax::pad(x, 0.0F, pads);
      }
      return y;
    };
  };
  return m.added(kWindows, chain, m.rows({m.devices(), kWindowElements / columns, columns}));
}
void measure_windows(const Meter& m, ClusterDevice& d) {
  constexpr std::int64_t kLong = 1 << 10;
  constexpr std::int64_t kShort = 1 << 6;
  const auto elements = static_cast<double>(kWindowElements);
  const double in_long = window_time(m, kLong);
  const double in_short = std::max(window_time(m, kShort), in_long);
  const double each_row = (in_short - in_long) / (elements / kShort - elements / kLong);
  const double all = in_long - each_row * elements / kLong - elements / d.vector_flops;
  d.operations["window"] = elements / std::max(all, in_long / 4);
  d.operations["window_row"] = 1 / std::max(each_row, 1e-9);
}

// Of images, each device its own, by a kernel of 3x3.
double convolution_speed(const Meter& m) {
  constexpr std::int64_t kSide = 32;
  constexpr std::int64_t kChannels = 64;
  constexpr std::int64_t kKernel = 3;
  constexpr std::int64_t kImages = 16;
  const std::int64_t images = m.devices() * std::max<std::int64_t>(1, kImages / m.devices());
  const lax::ConvOptions options{.pad_mode = lax::PadMode::Same, .dimension_numbers = {"NHWC", "HWIO", "NHWC"}};
  const double time =
      m.seconds([options](const Array& x, const Array& w) { return lax::conv_general_dilated(x, w, options); },
                m.rows({images, kSide, kSide, kChannels}), m.whole({kKernel, kKernel, kChannels, kChannels}));
  return 2.0 * static_cast<double>(images * kSide * kSide * kKernel * kKernel * kChannels * kChannels) / time;
}

const ReduceOptions kAlongRows{.axis = Dims{1}, .keepdims = true};

constexpr std::int64_t kManySteps = 1 << 23;  // bytes below which a chain is long

// Seconds of a step over arrays of `bytes` in all, in a chain of steps that no block joins: within a program the cores
// look for the next one while they wait. It reads them, or with `writes` reads them, writes others and reads these.
double pass_time(const Meter& m, std::int64_t bytes, bool writes) {
  auto chain = [writes](std::int64_t steps) {
    return [steps, writes](const Array& x, Array start) {
      for (std::int64_t i = 0; i < steps; ++i) {
        Array next = x + start;
        start = optimization_barrier(mean(writes ? optimization_barrier(next) : next, kAlongRows));
      }
      return start;
    };
  };
  constexpr std::int64_t kLong = 32;
  constexpr std::int64_t kShort = 4;
  const std::int64_t columns = std::max<std::int64_t>(1, bytes / 4 / m.devices());
  return m.added({bytes < kManySteps ? kLong : kShort, 0}, chain, m.rows({m.devices(), columns}),
                 m.rows({m.devices(), 1}));
}

// Bytes that one core works on alone, and the least that all cores share.
constexpr std::int64_t kAlone = 1 << 18, kShared = CalibrationSettings::kLeastMemoryBytes;

// The cache, or memory, in which work on `bytes` is done. One operation that reads them takes `read` seconds, and two
// that read, write and read halves of them take `written`, `each` of them besides what it moves. Beside reads that wait
// writes take little; into lines that have to be fetched first more than reads, but no more than to fetch and to store
// them.
ClusterCache rates(std::int64_t bytes, double read, double written, double each) {
  constexpr double kLeast = 0.1;
  constexpr double kMost = 2;
  const auto all = static_cast<double>(bytes);
  const double bandwidth = all / std::max(read - each, 1e-7);
  return {bytes, bandwidth, std::clamp(2 * ((written - 2 * each) * bandwidth / all - 1), kLeast, kMost)};
}

// What it takes to have all cores work on an operation, within a program, besides what every operation takes: of two
// sizes for which the rate is the same, and small, so that noise in the rate is small beside it.
double spread(const Meter& m, double launch) {
  constexpr std::int64_t kSmall = 1 << 20;
  return std::max(0.0, 2 * pass_time(m, kSmall, false) - pass_time(m, 2 * kSmall, false) - launch);
}

// Rates by the size of what is read and written, from the caches of the cores to the memory; rates that differ by less
// than a fifth are one. A larger working set is never the faster one. Work that one core does is measured below the
// size from which the engine has all cores share it.
void measure_memory(const Meter& m, std::int64_t largest, ClusterDevice& d, ClusterLevel& level) {
  constexpr double kAlike = 1.2;
  level.cores = num_threads();
  level.stream_bytes = cache_bytes();
  std::vector<double> read;  // of every size in every round
  std::vector<double> written;
  for (std::int64_t bytes = kShared; bytes <= largest; bytes *= 2) {
    read.push_back(pass_time(m, bytes, false));
    if (bytes < largest) written.push_back(pass_time(m, bytes / 2, true));
  }
  level.spread = level.cores > 1 ? spread(m, d.launch) : 0;
  // Without a cache: half of them read and as much written, by an operation that does nothing else.
  const double written_alone =
      m.seconds([](const Array& x) { return x + 1.0; }, m.rows({m.devices(), largest / 8 / m.devices()}));
  const ClusterCache memory = rates(largest, read.back(), written_alone + read.back() / 2, d.launch + level.spread);
  d.memory_bandwidth = memory.bandwidth;
  d.write_cost = memory.write_cost;
  if (level.cores > 1) {
    ClusterCache alone = rates(kAlone, pass_time(m, kAlone, false), pass_time(m, kAlone / 2, true), d.launch);
    alone.bandwidth = std::max(alone.bandwidth * static_cast<double>(level.cores), memory.bandwidth);
    d.caches.push_back(alone);
  }
  std::size_t next = 0;
  for (std::int64_t bytes = kShared; bytes < largest; bytes *= 2, ++next) {
    ClusterCache here = rates(bytes, read[next], written[next], d.launch + level.spread);
    const bool first = d.caches.empty();
    if (!first) here.bandwidth = std::min(here.bandwidth, d.caches.back().bandwidth);
    if (here.bandwidth < kAlike * memory.bandwidth) break;
    if (!first && d.caches.back().bandwidth < kAlike * here.bandwidth) {
      d.caches.back().bytes = bytes;
    } else {
      d.caches.push_back(here);
    }
  }
  // Sizes between two that were measured are taken for the nearer one. Of processes that share cores those that have
  // one had the caches for themselves here, for many steps; where they wait for each other, all of them have a part.
  for (auto& cache : d.caches) {
    cache.bytes = static_cast<std::int64_t>(1.5 * static_cast<double>(cache.bytes) / processes_per_core());
  }
}

void measure_functions(const Meter& m, ClusterDevice& d) {
  const double sums = d.vector_flops * static_cast<double>(m.devices());
  d.operations["root"] =
      function_rate(m, sums,
                    {[](const Array& v) { return 1.5 / (v + 1); }, [](const Array& v) { return sqrt(v + 1); },
                     [](const Array& v) { return rsqrt(v + 2); }});
  d.operations["exp"] = function_rate(m, sums, {[](const Array& v) { return exp(-v); }});
  d.operations["tanh"] =
      function_rate(m, sums, {[](const Array& v) { return tanh(v); }, [](const Array& v) { return nn::sigmoid(v); }});
  d.operations["transcendental"] =
      function_rate(m, sums,
                    {[](const Array& v) { return log(v + 2); }, [](const Array& v) { return sin(v); },
                     [](const Array& v) { return cos(v); }});
  d.operations["special"] =
      function_rate(m, sums,
                    {[](const Array& v) { return erf(v); }, [](const Array& v) { return power(v * v + 1, -v); },
                     [](const Array& v) { return log1p(v * v); }, [](const Array& v) { return arctan2(v, v + 1); }});
}

// Of as many elements in long rows and in short ones: what is set aside before the largest are known grows with the
// square root of a row's length.
void measure_top_k(const Meter& m, ClusterDevice& d) {
  constexpr std::int64_t kShort = 1 << 11, kLong = 1 << 15, kAll = 1 << 20;
  const std::int64_t rows = m.devices() * std::max<std::int64_t>(1, kAll / kLong / m.devices());  // long ones
  const auto elements = static_cast<double>(rows * kLong);
  auto time = [&](std::int64_t columns) {
    return m.seconds([](const Array& v) { return lax::top_k(v, 8).first; }, m.rows({rows * kLong / columns, columns}));
  };
  auto roots = [&](std::int64_t columns) { return elements / std::sqrt(static_cast<double>(columns)); };
  const double in_long = time(kLong);
  const double root = std::max((time(kShort) - in_long) / (roots(kShort) - roots(kLong)), 1e-12);
  d.operations["top_k_row"] = 1 / root;
  d.operations["top_k"] = elements / std::max(in_long - root * roots(kLong), in_long / 100);
}

void measure_operations(const Meter& m, std::int64_t largest, ClusterDevice& d) {
  const std::int64_t n = m.devices();
  auto rate = [](double elements, double seconds) { return elements / seconds; };
  constexpr std::int64_t kColumns = 1 << 10;
  constexpr double kLog = 10, kLineLog = 13;
  constexpr std::int64_t kAll = 1 << 20;
  const std::int64_t rows = n * std::max<std::int64_t>(1, kAll / kColumns / n);
  const auto elements = static_cast<double>(rows * kColumns);
  const Array x = m.rows({rows, kColumns});
  const std::int64_t lines = std::max(n, kAll >> 13);
  const auto in_lines = static_cast<double>(lines << 13);
  const Array y = m.rows({lines, 1 << 13});
  d.operations["sort"] = rate(in_lines * kLineLog, m.seconds([](const Array& v) { return sort(v); }, y));
  d.operations["fft"] =
      rate(elements * kLog, m.seconds([](const Array& v) { return fft::fft(v); }, astype(x, complex64)));
  d.operations["scan"] = rate(elements, m.seconds([](const Array& v) { return cumsum(v, 1); }, x));
  const Array picks = device_put(fill_int({rows * 16}, 1 << 12, 1), NamedSharding(m.mesh(), P("x")));
  d.operations["gather"] =
      rate(static_cast<double>(rows * 16 * 64),
           m.seconds([](const Array& t, const Array& i) { return take(t, i, 0); }, m.whole({1 << 12, 64}), picks));
  d.operations["convolution"] = convolution_speed(m);
  d.operations["product_reads"] = product_reads(m);
  d.operations["reduction_reads"] = reduction_reads(m, largest);
  d.operations["product_row"] = product_row_rate(m);
  // Divisions and conversions: sums and products of complex values are as fast as those of real ones.
  auto divide = [](const Array& v) { return v / v; };
  auto convert = [](const Array& v) { return astype(v, complex64); };
  d.operations["complex"] = rate(2 * elements, m.seconds(divide, astype(x, complex64)) + m.seconds(convert, x));
}

// The devices of a process along axis "d", processes along "p".
Mesh by_process(const CalibrationSettings& s) { return make_mesh({s.processes, s.devices / s.processes}, {"p", "d"}); }
P blocks() { return P(SpecEntry(std::vector<std::string>{"p", "d"})); }

// Copies inside the memory that the devices of a process share: an all-to-all reads and writes every byte once.
void measure_copies(const Meter& m, const CalibrationSettings& s, ClusterLevel& l) {
  const Mesh mesh = by_process(s);
  const std::int64_t each = l.size();
  auto exchanges = [&](std::int64_t length) {
    auto body = [length](Array x) {
      for (std::int64_t i = 0; i < length; ++i) x = all_to_all(x, "d", 1, 1, {.tiled = true});
      return x;
    };
    return shard_map(body, mesh, blocks(), blocks());
  };
  l.latency = m.added(kChain, exchanges, put({s.devices, each}, mesh, blocks()));
  const std::int64_t columns = each * std::max<std::int64_t>(1, (1 << 22) / each);
  const double time = m.seconds(exchanges(1), put({s.devices, columns}, mesh, blocks()));
  l.bandwidth = 8.0 * static_cast<double>(each * columns) / time;
}

// Between processes: sums over them of a value that each of their devices has a block of.
ClusterLevel network(const Meter& m, const CalibrationSettings& s) {
  const Mesh mesh = by_process(s);
  ClusterLevel l{"processes", ClusterLevel::Kind::Switch, {s.processes}};
  l.direct = true;
  auto sums = [&](std::int64_t length) {
    auto body = [length](Array x) {
      for (std::int64_t i = 0; i < length; ++i) x = x + psum(x, "p");
      return x;
    };
    return shard_map(body, mesh, blocks(), blocks());
  };
  auto time = [&](std::int64_t elements) { return m.seconds(sums(1), put({s.devices, elements}, mesh, blocks())); };
  constexpr std::int64_t kLarge = 1 << 20;
  const double large = std::max(time(kLarge) - time(1), 1e-9);
  const auto members = static_cast<double>(s.processes);
  const auto bytes = 4.0 * static_cast<double>(kLarge * (s.devices / s.processes));
  l.latency = m.added(kChain, sums, put({s.devices, 1}, mesh, blocks()));
  l.bandwidth = 2 * (members - 1) / members * bytes / large;
  return l;
}

std::string today() {
  std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%d", &utc);
  return text;
}

ClusterModel measured(const CalibrationSettings& s, RoundTimes& times) {
  times.begin_round();
  const Meter m(s, times);
  const auto n = static_cast<double>(s.devices);
  ClusterModel c;
  c.name = "calibrated";
  ClusterDevice& d = c.device;
  d.name = "a virtual device of the native engine";
  for (DType t : {DType::BF16, DType::F32, DType::F64}) d.flops[t] = product_speed(m, t) / n;
  d.vector_flops = element_rate(
                       m, kSums, [](const Array& y, const Array& x) { return y * x; }, 2) /
                   n;
  d.launch = launch(m);
  ClusterLevel level{"memory", ClusterLevel::Kind::Memory, {s.devices / s.processes}};
  measure_memory(m, s.memory_bytes, d, level);
  d.memory_bandwidth /= n;
  for (auto& cache : d.caches) {
    cache.bandwidth /= n;
    cache.bytes /= s.devices;
  }
  measure_functions(m, d);
  measure_operations(m, s.memory_bytes, d);
  measure_top_k(m, d);
  for (auto& [kind, rate] : d.operations) rate /= n;
  measure_windows(m, d);
  d.memory = static_cast<std::int64_t>(static_cast<double>(sysconf(_SC_PHYS_PAGES)) *
                                       static_cast<double>(sysconf(_SC_PAGESIZE)) / n);
  measure_copies(m, s, level);
  c.levels.push_back(level);
  if (s.processes > 1) c.levels.push_back(network(m, s));
  c.overlaps = {};
  c.source = "measured by `tessera calibrate` on " + today() + ": " + std::to_string(s.devices) +
             " virtual devices of the native engine in " + std::to_string(s.processes) +
             (s.processes == 1 ? " process on " : " processes on ") +
             std::to_string(std::thread::hardware_concurrency()) + " cores of " + machine_model();
  c.check("calibrate");
  return c;
}

}  // namespace

ClusterModel calibrate(const CalibrationSettings& s, const std::function<void()>& after_round) {
  RoundTimes times;
  ClusterModel c;
  for (int round = 0; round < s.rounds; ++round) {
    c = measured(s, times);
    after_round();
  }
  return c;
}

}  // namespace tessera::bench
