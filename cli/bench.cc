// SPDX-License-Identifier: Apache-2.0
// tessera bench --json gpt_step_alldev psum_1024B
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "commands.h"
#include "tessera/device.h"
#include "tessera/error.h"
#include "workloads/workload.h"

namespace tessera::cli {

namespace {

struct BenchOptions {
  bench::Settings settings;
  std::vector<std::string> names;
  bool json = false, list = false, first_result = false, scale = false, machine = false;
};

double peak_mb() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

void print_numbers(const char* key, const std::vector<double>& v) {
  std::printf(", \"%s\": [", key);
  for (std::size_t i = 0; i < v.size(); ++i) std::printf("%s%.9g", i > 0 ? ", " : "", v[i]);
  std::printf("]");
}

// One line, as the peer prints it, with the limit and the memory high-water mark of the process so far.
void print_json(const std::string& name, const bench::Result& r) {
  std::printf("{\"workload\": \"%s\", \"unit\": \"us\", \"min\": %.3f, \"median\": %.3f, \"runs\": %zu", name.c_str(),
              r.runs[0], r.median(), r.runs.size());
  std::printf(", \"limit\": %.4f, \"best_limit\": %.4f, \"peak_mb\": %.1f", r.limit, r.best_limit, peak_mb());
  if (r.check.count > 0) {
    std::printf(", \"check\": {\"count\": %lld, \"sum\": %.17g, \"abs\": %.17g", static_cast<long long>(r.check.count),
                r.check.sum, r.check.abs);
    print_numbers("first", r.check.first);
    if (!r.check.losses.empty()) print_numbers("losses", r.check.losses);
    std::printf("}");
  }
  std::printf("}\n");
  std::fflush(stdout);
}

void print_row(const std::string& name, const bench::Result& r) {
  std::printf("%-36s %12.1f us   best %12.1f   limit %12.3f   %5zu runs\n", name.c_str(), r.median(), r.runs[0],
              r.limit, r.runs.size());
  std::fflush(stdout);
}

void print_machine(bool json) {
  bench::Machine m = bench::measure_machine();
  std::string isa;
  for (const auto& set : m.isa) isa += (isa.empty() ? "" : " ") + set;
  const char* rows =
      "machine       %s, %d cores, %s\n"
      "caches        L1 %lld KB, L2 %lld KB, L3 %lld KB\n"
      "memory        copy %.1f GB/s, read %.1f, fill %.1f\n"
      "L1            copy %.1f GB/s\n"
      "products      f32 %.1f GFLOP/s, bf16 %.1f\n";
  const char* object =
      "{\"model\": \"%s\", \"cores\": %d, \"isa\": \"%s\", \"l1_kb\": %lld, \"l2_kb\": %lld, \"l3_kb\": %lld, "
      "\"copy_gb_s\": %.1f, \"read_gb_s\": %.1f, \"fill_gb_s\": %.1f, \"l1_copy_gb_s\": %.1f, "
      "\"f32_gflop_s\": %.1f, \"bf16_gflop_s\": %.1f}\n";
  auto kb = [](std::int64_t bytes) { return static_cast<long long>(bytes / 1024); };
  std::printf(json ? object : rows, m.model.c_str(), m.cores, isa.c_str(), kb(m.l1), kb(m.l2), kb(m.l3), m.copy, m.read,
              m.fill, m.cached_copy, m.f32_products, m.bf16_products);
}

std::vector<const bench::Workload*> chosen(const std::vector<std::string>& names) {
  std::vector<const bench::Workload*> out;
  for (const auto& name : names) {
    auto it = std::find_if(bench::workloads().begin(), bench::workloads().end(),
                           [&](const bench::Workload& w) { return w.name == name; });
    if (it == bench::workloads().end()) throw ValueError("bench: no workload \"" + name + "\"; --list shows them all");
    out.push_back(&*it);
  }
  if (names.empty()) {
    for (const auto& w : bench::workloads()) out.push_back(&w);
  }
  return out;
}

void run_bench(const BenchOptions& o) {
  if (o.first_result) return bench::first_result(o.settings.devices);
  if (o.scale) return bench::print_scale();
  if (o.machine) return print_machine(o.json);
  auto list = chosen(o.names);
  if (o.settings.devices > 1 && o.settings.devices % 2 != 0) {
    throw ValueError("--devices: " + std::to_string(o.settings.devices) + "; expected an even number, or 1");
  }
  const Client client = Client::from_environment(o.settings.devices);
  if (static_cast<std::int64_t>(client.devices().size()) != o.settings.devices) {
    throw ValueError("--devices: " + std::to_string(o.settings.devices) + "; the engine of TESSERA_ENGINE has " +
                     std::to_string(client.devices().size()));
  }
  ClientScope scope(client);
  for (const auto* w : list) {
    if (o.list) {
      std::printf("%s\n", w->name.c_str());
    } else if (o.json) {
      print_json(w->name, w->run(o.settings));
    } else {
      print_row(w->name, w->run(o.settings));
    }
  }
}

}  // namespace

void add_bench(CLI::App& app) {
  auto o = std::make_shared<BenchOptions>();
  CLI::App* command = app.add_subcommand("bench", "Time this library's side of the benchmark workloads");
  command->add_option("workloads", o->names, "Which ones; default: all");
  command->add_option("--devices", o->settings.devices, "Virtual devices (8), or those of TESSERA_ENGINE")
      ->check(CLI::Range(1, 1 << 20));
  command->add_option("--budget", o->settings.budget, "Seconds of timed runs a workload (2)")
      ->check(CLI::Range(0.0, 1e6));
  command->add_option("--min-runs", o->settings.min_runs, "Runs at least, whatever they take (5)")
      ->check(CLI::Range(1, 1'000'000'000));
  command->add_flag("--remat", o->settings.remat, "The training step computes its blocks' activations again");
  command->add_flag("--json", o->json, "One JSON object a line");
  command->add_flag("--list", o->list, "Names only");
  command->add_flag("--scale", o->scale, "Instead: meshes and shardings of up to 1,048,576 devices");
  command->add_flag("--machine", o->machine,
                    "Instead: instruction sets, caches, bandwidths and products of this machine");
  command->add_flag("--first-result", o->first_result, "One small call, and out")->group("");
  command->callback([o] { run_bench(*o); });
}

}  // namespace tessera::cli
