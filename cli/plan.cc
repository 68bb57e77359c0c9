// SPDX-License-Identifier: Apache-2.0
// tessera plan program.mlir --devices 8 --html plan.html [--compare old.mlir]
#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/machine.h"
#include "base/strings.h"
#include "commands.h"
#include "memory.h"
#include "tessera/device.h"
#include "tessera/pictures.h"
#include "tessera/shape_dtype.h"
#include "tessera/stablehlo.h"
#include "values.h"

namespace tessera::cli {

namespace {
struct PlanOptions {
  std::string program, compare, html, title;
  std::optional<std::string> max_memory_text;
  std::int64_t devices = 0;  // as many as the program is for
  bool no_sources = false;
};

struct Planned {
  CommPlan plan;
  PlanPageOptions page;
};

// The plan is that of arguments without data: nothing is run.
Planned plan_of(const std::string& path, const PlanOptions& o, std::int64_t max_memory) {
  StablehloProgram program = StablehloProgram::load(path, {.max_memory = max_memory});
  ClientScope scope(
      Client::cpu({.devices = o.devices > 0 ? o.devices : program.num_devices(), .memory_limit = max_memory}));
  Planned out;
  std::vector<Array> args;
  auto add = [&](const char* kind, std::size_t i, const StablehloProgram::Port& port, const ShardingPtr& sharding) {
    out.page.values.push_back({str(kind, " ", i), port.type, port.shape, sharding});
    const auto* named = dynamic_cast<const NamedSharding*>(sharding.get());
    if (named != nullptr && named->mesh().is_concrete() && !out.page.mesh) out.page.mesh = named->mesh().concrete();
  };
  for (std::size_t i = 0; i < program.inputs().size(); ++i) {
    const auto& port = program.inputs()[i];
    const ShardingPtr sharding = program.input_sharding(i);
    args.push_back(without_data({port.shape, port.dtype, false, sharding}));
    add("argument", i, port, sharding);
  }
  for (std::size_t i = 0; i < program.outputs().size(); ++i) {
    add("result", i, program.outputs()[i], program.output_sharding(i));
  }
  out.plan = program.comm_plan(args);
  return out;
}

void plan(const PlanOptions& o) {
  const std::int64_t max_memory =
      o.max_memory_text ? bytes_value("--max-memory", *o.max_memory_text) : base::machine_memory();
  bound_memory(max_memory);
  check_paths({{"the program", o.program}, {"--compare", o.compare}, {"--html", o.html, true}});
  Planned now = plan_of(o.program, o, max_memory);
  std::optional<Planned> old;
  if (!o.compare.empty()) old = plan_of(o.compare, o, max_memory);
  now.page.quote_sources = !o.no_sources;
  const auto name = [](const std::string& path) { return std::filesystem::path(path).filename().string(); };
  now.page.title = !o.title.empty() ? o.title
                   : old            ? str(name(o.compare), " → ", name(o.program))
                                    : str("Communication of ", name(o.program));
  if (!o.html.empty()) {
    base::write_file("--html", o.html, old ? to_html(old->plan, now.plan, now.page) : to_html(now.plan, now.page));
  }
  if (old) std::printf("%s:\n%s\n%s:\n", o.compare.c_str(), to_string(old->plan).c_str(), o.program.c_str());
  std::printf("%s", to_string(now.plan).c_str());
  if (old) {
    const std::int64_t before = old->plan.bytes_per_device();
    const std::int64_t after = now.plan.bytes_per_device();
    std::printf("change: %+lld bytes per device\n", static_cast<long long>(after - before));
  }
}
}  // namespace

void add_plan(CLI::App& app) {
  auto o = std::make_shared<PlanOptions>();
  CLI::App* command =
      app.add_subcommand("plan", "Show what a StableHLO program sends between devices, without running it");
  command->add_option("program", o->program, "The program, as for `tessera run`")->required();
  command->add_option("--devices", o->devices, "Virtual devices; default: as many as the program is for")
      ->check(CLI::Range(std::int64_t{1}, kMostDevices));
  command->add_option("--compare", o->compare, "An older form of the program: what has changed since");
  command->add_option("--html", o->html, "Write the plan as a page for browsers, too");
  command->add_option("--title", o->title, "Of the page");
  command->add_flag("--no-sources", o->no_sources, "Leave the user's lines out of the page");
  command->add_option("--max-memory", o->max_memory_text,
                      "Bytes that planning may hold, as 512M or 4G; default: the machine's memory");
  command->callback([o] { plan(*o); });
}

}  // namespace tessera::cli
