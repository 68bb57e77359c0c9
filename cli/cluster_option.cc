// SPDX-License-Identifier: Apache-2.0
#include "cluster_option.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>

#include "base/strings.h"
#include "tessera/error.h"

namespace tessera::cli {

void ClusterOption::add_to(CLI::App& command) {
  command
      .add_option("--cluster", name,
                  "A description as JSON (docs/planner.md), or one of: " + join(ClusterModel::presets()))
      ->required();
  command.add_option("--groups", groups, "Slices or nodes of a preset; default: 1")
      ->check(CLI::Range(std::int64_t{1}, ClusterModel::kMostDevices));
}

bool ClusterOption::is_preset() const {
  const auto names = ClusterModel::presets();
  return std::ranges::find(names, name) != names.end();
}

ClusterModel ClusterOption::read() const {
  if (is_preset()) return ClusterModel::preset(name, groups);
  if (groups != 0) {
    throw ValueError(str("--groups: ", groups, " is given with the file ", name,
                         ", which names its own number; expected a preset: ", join(ClusterModel::presets())));
  }
  std::error_code unreadable;
  if (!std::filesystem::exists(name, unreadable)) {
    throw ValueError(str("--cluster: there is no file ", name,
                         "; expected one that describes a cluster, or a preset: ", join(ClusterModel::presets())));
  }
  return ClusterModel::load(name);
}

}  // namespace tessera::cli
