// SPDX-License-Identifier: Apache-2.0
// tessera shard program.mlir --cluster h100-dgx --memory-limit 64G
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include "base/file.h"
#include "cluster_option.h"
#include "commands.h"
#include "hlo/module.h"
#include "planner/search.h"
#include "values.h"

namespace tessera::cli {

namespace {

struct ShardOptions {
  std::string program;
  ClusterOption cluster;
  std::optional<std::string> memory_limit;
  planner::SearchOptions search;
};

void shard(const ShardOptions& o) {
  check_paths({{"the program", o.program}});
  planner::SearchOptions options = o.search;
  if (o.memory_limit) options.memory_limit = bytes_value("--memory-limit", *o.memory_limit);
  const ir::Module module = hlo::import_module(base::read_file("the program", o.program), {.name = o.program});
  std::printf("%s", planner::explain(planner::search(module, o.cluster.read(), options)).c_str());
}

}  // namespace

void add_shard(CLI::App& app) {
  auto o = std::make_shared<ShardOptions>();
  CLI::App* command =
      app.add_subcommand("shard", "Find shardings for the arguments of a StableHLO program, and a mesh");
  command
      ->add_option("program", o->program, "The program, as `tessera run` takes it; its own shardings are not looked at")
      ->required();
  o->cluster.add_to(*command);
  command->add_option("--devices", o->search.devices, "Of the cluster; default: all")
      ->check(CLI::Range(std::int64_t{1}, ClusterModel::kMostDevices));
  command->add_option("--memory-limit", o->memory_limit, "Bytes on a device, as 64G; default: the cluster's");
  command->add_option("--threads", o->search.threads, "That price candidates; default: 2")->check(CLI::Range(1, 256));
  command->callback([o] { shard(*o); });
}

}  // namespace tessera::cli
