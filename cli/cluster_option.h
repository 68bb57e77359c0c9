// SPDX-License-Identifier: Apache-2.0
// The options that name a cluster.
#pragma once

#include <cstdint>
#include <string>

#include "tessera/cluster_model.h"

namespace CLI {
class App;
}

namespace tessera::cli {

struct ClusterOption {
  std::string name;         ///< of a preset, or a file
  std::int64_t groups = 0;  ///< of a preset; 0: as it has

  void add_to(CLI::App& command);
  bool is_preset() const;
  /// Throws what `ClusterModel::preset` and `load` throw, and `ValueError` for `groups` with a file.
  ClusterModel read() const;
};

}  // namespace tessera::cli
