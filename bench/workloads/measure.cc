// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <cmath>

#include "tessera/host_array.h"
#include "workload.h"

namespace tessera::bench {

double microseconds(const std::function<void()>& f) {
  auto t = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - t).count();
}

Check check(const std::vector<Array>& results) {
  Check c;
  for (const Array& r : results) {
    HostArray wide = r.host().astype(float64);
    auto v = wide.span<double>();
    c.count += static_cast<std::int64_t>(v.size());
    for (double x : v) {
      c.sum += x;
      c.abs += std::abs(x);
    }
    if (&r == results.data()) c.first.assign(v.begin(), v.begin() + std::min<std::ptrdiff_t>(4, std::ssize(v)));
  }
  return c;
}

namespace {

// Of runs, after each of which the limit is sampled.
constexpr std::int64_t kBatches = 5;

Result finish(Result r, const LimitSampler& limit) {
  std::sort(r.runs.begin(), r.runs.end());
  r.limit = limit.median();
  r.best_limit = limit.least();
  return r;
}

}  // namespace

Result timed(const Settings& s, const std::function<std::vector<Array>()>& f, const Limit& limit, int warmup) {
  constexpr std::int64_t kMost = 2000;
  Result r;
  std::vector<Array> results;
  for (int i = 0; i < warmup; ++i) results = f();
  r.check = check(results);
  results.clear();
  LimitSampler sampler(limit);
  for (std::int64_t batch = 1; batch <= kBatches; ++batch) {
    const std::int64_t least = s.min_runs * batch / kBatches, most = kMost * batch / kBatches;
    const double budget = s.budget / static_cast<double>(kBatches);
    auto start = std::chrono::steady_clock::now();
    auto more = [&] {
      const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
      return std::ssize(r.runs) < most && (std::ssize(r.runs) < least || spent.count() < budget);
    };
    if (!more()) continue;
    if (batch > 1) {  // not counted: it finds the caches as the limit's samples left them
      f();
      start = std::chrono::steady_clock::now();
    }
    while (more()) r.runs.push_back(microseconds([&] { f(); }));
    sampler.sample();
  }
  return finish(std::move(r), sampler);
}

Result each(std::int64_t runs, const std::function<double(std::int64_t)>& f, const Limit& limit) {
  Result r;
  LimitSampler sampler(limit);
  for (std::int64_t i = 0; i < runs; ++i) {
    r.runs.push_back(f(i));
    if ((i + 1) * kBatches / runs > i * kBatches / runs) sampler.sample();
  }
  return finish(std::move(r), sampler);
}

const std::vector<Workload>& workloads() {
  static const std::vector<Workload> list = [] {
    std::vector<Workload> all;
    add_dispatch(all);
    add_collectives(all);
    add_compute(all);
    add_movement(all);
    add_training(all);
    add_latency(all);
    return all;
  }();
  return list;
}

}  // namespace tessera::bench
