// SPDX-License-Identifier: Apache-2.0
// Tessera's side of the side-by-side workloads, which `bench/jax_peer.py` defines: shapes, dtypes, shardings and what
// is inside the timed part. One list, used by `tessera bench`.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tessera/array.h"

namespace tessera::bench {

struct Settings {
  std::int64_t devices = 8;
  double budget = 2.0;        ///< seconds of timed runs a workload
  std::int64_t min_runs = 5;  ///< even when the budget is spent
  bool remat = false;         ///< the training step keeps no activations inside its blocks
};

/// What the hardware needs at least for a workload.
struct Limit {
  double reads = 0, writes = 0;  ///< bytes of memory
  double flops = 0;              ///< of matrix products
  bool bf16 = false;             ///< whose operands are bfloat16
};

/// Over all results, taken as float64.
struct Check {
  std::int64_t count = 0;
  double sum = 0, abs = 0;
  std::vector<double> first;   ///< elements, four at most
  std::vector<double> losses;  ///< of chained steps
};
Check check(const std::vector<Array>& results);

struct Result {
  std::vector<double> runs;  ///< microseconds, ascending
  Check check;               ///< count 0: none
  double limit = 0;          ///< microseconds, measured between the runs: the median of its samples
  double best_limit = 0;     ///< the least of them
  double median() const { return runs[runs.size() / 2]; }
};

/// Runs `f` (which returns when its results are ready) a few times, then until the budget is spent: in batches, between
/// which the limit is sampled.
Result timed(const Settings& s, const std::function<std::vector<Array>()>& f, const Limit& limit, int warmup = 3);
/// Times of calls of `f`, which gives microseconds itself; no results are checked.
Result each(std::int64_t runs, const std::function<double(std::int64_t)>& f, const Limit& limit);
double microseconds(const std::function<void()>& f);
/// Microseconds that this machine needs for a limit: memory traffic, and products of the faster library, each on all
/// cores, the longer of the two; where there is neither, a call of an empty function. A machine's speed may change
/// within seconds: samples are to be taken between the runs that they are compared with.
class LimitSampler {
 public:
  explicit LimitSampler(const Limit& limit);
  ~LimitSampler();
  void sample();  ///< takes three more, of what takes long one
  double median() const;
  double least() const;

 private:
  struct State;
  double longest(double (*of)(std::vector<double>)) const;
  std::unique_ptr<State> state_;
};

struct Workload {
  std::string name;
  std::function<Result(const Settings&)> run;
};
/// In the peer's order.
const std::vector<Workload>& workloads();
/// One result on all devices, and out: what a process does whose start is timed.
void first_result(std::int64_t devices);
/// What the machine is and can do: instruction sets, caches, bandwidths, products.
struct Machine {
  std::string model;
  int cores = 0;
  std::vector<std::string> isa;                          ///< instruction sets that kernels are written for
  std::int64_t l1 = 0, l2 = 0, l3 = 0;                   ///< bytes, as the system gives them; 0: it does not
  double copy = 0, read = 0, fill = 0, cached_copy = 0;  ///< GB/s on all cores: 256 MB, and 8 KB a core
  double f32_products = 0, bf16_products = 0;            ///< GFLOP/s on all cores
};
Machine measure_machine();
/// The processor's name, or "unknown".
std::string machine_model();
/// A table of what meshes, shardings and index maps of 64 to 1,048,576 devices cost.
void print_scale();

// The families.
void add_dispatch(std::vector<Workload>& list);
void add_collectives(std::vector<Workload>& list);
void add_compute(std::vector<Workload>& list);
void add_movement(std::vector<Workload>& list);
void add_training(std::vector<Workload>& list);
void add_latency(std::vector<Workload>& list);

}  // namespace tessera::bench
