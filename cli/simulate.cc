// SPDX-License-Identifier: Apache-2.0
// tessera simulate program.mlir --cluster h100-dgx --groups 16 --mesh data=16,model=8
#include "planner/simulate.h"

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>

#include "base/file.h"
#include "cluster_option.h"
#include "commands.h"
#include "hlo/module.h"
#include "values.h"

namespace tessera::cli {

namespace {

struct SimulateOptions {
  std::string program, mesh, trace, write_cluster;
  ClusterOption cluster;
  bool comm_plan = false, time = false;
};

void simulate(const SimulateOptions& o) {
  check_paths({{"the program", o.program},
               {"--cluster", o.cluster.is_preset() ? "" : o.cluster.name},
               {"--trace", o.trace, true},
               {"--write-cluster", o.write_cluster, true}});
  const ClusterModel cluster = o.cluster.read();
  if (!o.write_cluster.empty()) base::write_file("--write-cluster", o.write_cluster, cluster.to_json());
  ir::Module module = hlo::import_module(base::read_file("the program", o.program), {.name = o.program});
  if (!o.mesh.empty())
    module = planner::with_mesh_sizes(std::move(module), mesh_value("--mesh", o.mesh, ClusterModel::kMostDevices));
  const auto begin = std::chrono::steady_clock::now();
  const Simulation result = planner::simulate(planner::placed(std::move(module)), cluster);
  if (o.comm_plan) std::printf("%s\n", to_string(result.comm_plan).c_str());
  std::printf("%s", to_string(result).c_str());
  if (o.time) {
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    std::printf("partitioned and simulated in %.3f s\n", took.count());
  }
  if (!o.trace.empty()) base::write_file("--trace", o.trace, result.trace());
}

}  // namespace

void add_simulate(CLI::App& app) {
  auto o = std::make_shared<SimulateOptions>();
  CLI::App* command = app.add_subcommand("simulate", "Predict what a StableHLO program costs on a cluster");
  command->add_option("program", o->program, "The program, as `tessera run` takes it")->required();
  o->cluster.add_to(*command);
  command->add_option("--mesh", o->mesh, "Other sizes for the axes of the program's mesh: data=16,model=8");
  command->add_option("--trace", o->trace, "Write the simulated step as a trace for Perfetto");
  command->add_option("--write-cluster", o->write_cluster, "Write the cluster as JSON");
  command->add_flag("--comm-plan", o->comm_plan, "Print what is sent between devices");
  command->add_flag("--time", o->time, "Print how long partitioning and simulating took");
  command->callback([o] { simulate(*o); });
}

}  // namespace tessera::cli
