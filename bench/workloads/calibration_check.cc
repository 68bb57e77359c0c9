// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <utility>

#include "calibration.h"
#include "tessera/error.h"
#include "tessera/host_array.h"
#include "tessera/multihost.h"
#include "workload.h"

namespace tessera::bench {

namespace {

// The largest of all processes, which then do the same with it: they must run the same programs as often.
double agreed(double value) {
  if (process_count() == 1) return value;
  const HostArray all = process_allgather(HostArray::scalar(value));
  return std::ranges::max(all.span<double>());
}

// Waits for all processes: one of them that is ahead would leave its core to the others.
void meet() {
  if (process_count() > 1) sync_global_devices("calibrate");
}

double median_of(std::vector<double> times) {
  const auto middle = times.begin() + std::ssize(times) / 2;
  std::ranges::nth_element(times, middle);
  return *middle;
}

bool tie(const CheckedCase& a, const CheckedCase& b) {
  return std::max(a.measured, b.measured) < (1 + PlanOrder::kTie) * std::min(a.measured, b.measured);
}
bool changes(const CheckedCase& a, const CheckedCase& b) {
  for (std::size_t r = 0; r < a.rounds.size(); ++r) {
    if ((a.rounds[r] < b.rounds[r]) != (a.measured < b.measured)) return true;
  }
  return false;
}

}  // namespace

std::vector<double> median_seconds(const std::vector<std::function<void()>>& programs, double budget) {
  constexpr double kFewest = 3;
  constexpr double kMost = 2000;
  constexpr double kTurn = 0.06;  // a core goes from one process to the next many times
  std::vector<int> together;      // runs that are timed as one
  double first = 0;
  for (const auto& run : programs) {
    run();
    const double once = std::max(microseconds(run) * 1e-6, 1e-7);
    const double least = process_count() == 1 ? 1 : kTurn / agreed(once);
    together.push_back(static_cast<int>(std::clamp(std::ceil(least), 1.0, kMost)));
    first += once * together.back() / static_cast<double>(programs.size());
  }
  const auto times = static_cast<int>(std::clamp(budget / agreed(first), kFewest, kMost));
  std::vector<std::vector<double>> runs(programs.size());
  for (int i = 0; i < times; ++i) {
    for (std::size_t k = 0; k < programs.size(); ++k) {
      auto all = [&] {
        for (int j = 0; j < together[k]; ++j) programs[k]();
        meet();
      };
      meet();
      runs[k].push_back(microseconds(all) / together[k]);
    }
  }
  std::vector<double> out;
  for (auto& of : runs) out.push_back(agreed(median_of(std::move(of)) * 1e-6));
  return out;
}

double RoundTimes::median(double seconds) {
  if (next_ == times_.size()) times_.emplace_back();
  std::vector<double>& times = times_[next_++];
  times.push_back(seconds);
  return median_of(times);
}

CalibrationCheck::CalibrationCheck(const CalibrationSettings& s, const std::vector<std::string>& programs)
    : settings_(s) {
  const std::vector<CalibrationCase> all = calibration_cases(s.devices);
  for (const auto& name : programs) {
    if (std::ranges::any_of(all, [&](const auto& c) { return c.program == name; })) continue;
    std::string known;
    for (const auto& c : all) {
      if (known.find(c.program) == std::string::npos) known += (known.empty() ? "" : ", ") + c.program;
    }
    throw ValueError("--program: \"" + name + "\"; expected one of " + known);
  }
  for (const auto& c : all) {
    if (programs.empty() || std::ranges::find(programs, c.program) != programs.end()) cases_.push_back(c);
  }
}

void CalibrationCheck::measure() {
  rounds_.resize(cases_.size());
  for (std::size_t i = 0; i < cases_.size();) {
    std::vector<std::function<void()>> plans;
    for (std::size_t k = i; k < cases_.size() && cases_[k].program == cases_[i].program; ++k) {
      plans.push_back(cases_[k].make().run);
    }
    for (double seconds : median_seconds(plans, settings_.budget)) rounds_[i++].push_back(seconds);
  }
}

std::vector<CheckedCase> CalibrationCheck::against(const ClusterModel& cluster) const {
  std::vector<CheckedCase> out;
  for (std::size_t i = 0; i < cases_.size(); ++i) {
    const CalibrationCase& c = cases_[i];
    out.push_back({c.program, c.plan, c.make().predict(cluster).step, median_of(rounds_.at(i)), rounds_.at(i)});
  }
  return out;
}

PlanOrder plan_order(const std::vector<CheckedCase>& cases) {
  PlanOrder out;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    for (std::size_t j = i + 1; j < cases.size(); ++j) {
      const CheckedCase& a = cases[i];
      const CheckedCase& b = cases[j];
      if (a.program != b.program) continue;
      if (tie(a, b)) {
        ++out.ties;
      } else if (changes(a, b)) {
        ++out.changing;
      } else {
        ++out.pairs;
        if ((a.predicted < b.predicted) == (a.measured < b.measured)) ++out.right;
      }
    }
  }
  return out;
}

}  // namespace tessera::bench
