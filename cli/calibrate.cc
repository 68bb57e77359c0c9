// SPDX-License-Identifier: Apache-2.0
// tessera calibrate --devices 8 --out cluster.json
#include <CLI/CLI.hpp>
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/strings.h"
#include "commands.h"
#include "tessera/cluster_model.h"
#include "tessera/device.h"
#include "tessera/error.h"
#include "values.h"
#include "workloads/calibration.h"

namespace tessera::cli {

namespace {

struct CalibrateOptions {
  bench::CalibrationSettings settings;
  std::string out, cluster;
  bool check = false, mpi = false;
  std::vector<std::string> programs;
};

void print_check(const std::vector<bench::CheckedCase>& cases) {
  std::printf("%-26s %-28s %12s %12s %8s\n", "program", "plan", "predicted us", "measured us", "error");
  std::set<std::string> seen;
  double sum = 0;
  double worst = 0;
  double all = 0;
  for (const auto& c : cases) {
    std::printf("%-26s %-28s %12.1f %12.1f %+7.1f%%\n", c.program.c_str(), c.plan.c_str(), 1e6 * c.predicted,
                1e6 * c.measured, 100 * c.error());
    all += std::abs(c.error());
    if (!seen.insert(c.program).second) continue;
    sum += std::abs(c.error());
    worst = std::max(worst, std::abs(c.error()));
  }
  const auto programs = static_cast<double>(seen.size());
  const bench::PlanOrder order = bench::plan_order(cases);
  std::printf("first plans of %zu programs: mean error %.1f%%, worst %.1f%%; all %zu plans: mean %.1f%%\n", seen.size(),
              100 * sum / programs, 100 * worst, cases.size(), 100 * all / static_cast<double>(cases.size()));
  std::printf(
      "order of plans: right in %lld of %lld pairs; %lld further ones change theirs between rounds, %lld measure "
      "within "
      "%.0f%%\n",
      static_cast<long long>(order.right), static_cast<long long>(order.pairs), static_cast<long long>(order.changing),
      static_cast<long long>(order.ties), 100 * bench::PlanOrder::kTie);
}

void calibrate(const CalibrateOptions& o) {
  if (!o.check && !o.cluster.empty())
    throw OptionError("--cluster: " + o.cluster + " is checked alone; expected --check");
  if (!o.check && !o.programs.empty()) throw OptionError("--program: nothing is checked; expected --check");
  if (!std::has_single_bit(static_cast<std::uint64_t>(o.settings.memory_bytes)))
    throw OptionError("--memory: " + std::to_string(o.settings.memory_bytes) +
                      " is no power of two; expected one like " +
                      std::to_string(std::bit_floor(static_cast<std::uint64_t>(o.settings.memory_bytes))));
  check_paths({{"--cluster", o.cluster}, {"--out", o.out, true}});
  ClusterModel cluster;
  if (!o.cluster.empty()) cluster = ClusterModel::parse(base::read_file("--cluster", o.cluster), o.cluster);
  const Client client =
      o.mpi ? Client::mpi({.devices = o.settings.devices}) : Client::cpu({.devices = o.settings.devices});
  ClientScope scope(client);
  bench::CalibrationSettings settings = o.settings;
  settings.processes = client.process_count();
  settings.devices *= settings.processes;
  std::optional<bench::CalibrationCheck> check;
  if (o.check) check.emplace(settings, o.programs);
  auto run = [&] {
    if (check) check->measure();
  };
  if (o.cluster.empty()) {
    cluster = bench::calibrate(settings, run);
  } else {
    for (int round = 0; round < settings.rounds; ++round) run();
  }
  std::vector<bench::CheckedCase> cases;
  if (check) cases = check->against(cluster);  // in all processes, among which the programs' arguments are placed
  if (client.process_index() != 0) return;     // the first one answers for all
  if (!o.out.empty()) base::write_file("--out", o.out, cluster.to_json());
  if (o.out.empty() && !o.check) std::printf("%s", cluster.to_json().c_str());
  if (check) print_check(cases);
}

}  // namespace

void add_calibrate(CLI::App& app) {
  auto o = std::make_shared<CalibrateOptions>();
  CLI::App* command =
      app.add_subcommand("calibrate", "Measure this machine, and write it as a cluster for predictions");
  command->add_option("--devices", o->settings.devices, "Virtual devices (8)")->check(CLI::Range(1, 1024));
  command->add_flag("--mpi", o->mpi, "Under mpirun: over all its processes, each with so many devices");
  command->add_option("--budget", o->settings.budget, "Seconds of timed runs a measurement (0.3)")
      ->check(CLI::Range(0.0, 1e6));
  command->add_option("--rounds", o->settings.rounds, "Rounds of all measurements, of which the medians count (1)")
      ->check(CLI::Range(1, 1000));
  command
      ->add_option("--memory", o->settings.memory_bytes,
                   "Bytes of the largest arrays, a power of two that no cache holds (134217728)")
      ->check(CLI::Range(bench::CalibrationSettings::kLeastMemoryBytes, std::int64_t{1} << 40));
  command->add_option("--out", o->out, "The file to write; default: standard output");
  command->add_flag("--check", o->check, "Predict programs under several plans, run them, and print both times");
  command->add_option("--cluster", o->cluster, "Check this one, which was written before, and measure nothing anew");
  command->add_option("--program", o->programs, "Check these alone");
  command->callback([o] { calibrate(*o); });
}

}  // namespace tessera::cli
