// SPDX-License-Identifier: Apache-2.0
// A cluster whose figures are measured on the machine at hand, and programs on which its predictions are checked.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tessera/cluster_model.h"
#include "tessera/simulation.h"

namespace tessera::bench {

struct CalibrationSettings {
  std::int64_t devices = 8;    ///< of all processes
  std::int64_t processes = 1;  ///< each with as many of them, one process after the other
  double budget = 0.3;         ///< seconds of timed runs a measurement and round
  int rounds = 1;
  /// Of the arrays that stand for what no cache holds; a power of two from `kLeastMemoryBytes` on.
  std::int64_t memory_bytes = 1 << 27;
  static constexpr std::int64_t kLeastMemoryBytes = 1 << 22;
};

/// Times that are measured in the same order in each of several rounds, of which the median counts: what else a machine
/// does, or its neighbours on the same processor, comes and goes within a minute, and meets short programs and long
/// ones alike. (The least of several rounds is nearer to what a quiet machine does for short programs than for long
/// ones.)
class RoundTimes {
 public:
  void begin_round() { next_ = 0; }
  /// The median so far of the time at this place of the order.
  double median(double seconds);

 private:
  std::vector<std::vector<double>> times_;  // by place
  std::size_t next_ = 0;
};

/// Measures the current client's devices by small programs, each for `budget` seconds a round; `after_round` runs
/// between the rounds, so that what it measures meets the same machine.
ClusterModel calibrate(
    const CalibrationSettings& s, const std::function<void()>& after_round = [] {});

/// A program under one plan: its arguments are placed.
struct PlannedProgram {
  std::function<Simulation(const ClusterModel&)> predict;
  std::function<void()> run;  ///< one step, to its end
};
struct CalibrationCase {
  std::string program, plan;
  std::function<PlannedProgram()> make;
};
/// By program; the first plan of each stands for it.
std::vector<CalibrationCase> calibration_cases(std::int64_t devices);

/// Seconds of one run of each: the median of those that the budget allows for each, of three at least; the same in all
/// processes. The programs run by turns, so that all of them meet the same machine. Where there are several processes,
/// short runs are timed many at a time, from when all processes begin until all have ended: a single one has a core for
/// itself that its process shares with others.
std::vector<double> median_seconds(const std::vector<std::function<void()>>& programs, double budget);

struct CheckedCase {
  std::string program, plan;
  double predicted = 0, measured = 0;  ///< seconds
  std::vector<double> rounds;          ///< of which `measured` is the median
  double error() const { return predicted / measured - 1; }
};
/// The cases' programs, those of these names or all, run in rounds and predicted.
class CalibrationCheck {
 public:
  /// Throws `ValueError` for a name that no program has.
  CalibrationCheck(const CalibrationSettings& s, const std::vector<std::string>& programs);
  /// One round of all; the plans of a program by turns.
  void measure();
  /// What a cluster predicts beside the medians of the rounds.
  std::vector<CheckedCase> against(const ClusterModel& cluster) const;

 private:
  CalibrationSettings settings_;
  std::vector<CalibrationCase> cases_;
  std::vector<std::vector<double>> rounds_;  // seconds, by case
};

/// Pairs of plans of the same program. Left out are those whose measured times differ by less than `kTie`, and those
/// of which not every round finds the same plan the faster one.
struct PlanOrder {
  static constexpr double kTie = 0.05;
  std::int64_t pairs = 0, right = 0, ties = 0, changing = 0;
};
PlanOrder plan_order(const std::vector<CheckedCase>& cases);

}  // namespace tessera::bench
