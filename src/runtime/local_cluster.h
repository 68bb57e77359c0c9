// SPDX-License-Identifier: Apache-2.0
// The transport between processes that are simulated by threads of one program.
#pragma once

#include <memory>

#include "runtime/process_collectives.h"

namespace tessera::runtime {

/// Where the processes of one simulated cluster meet.
class LocalCluster {
 public:
  static std::shared_ptr<LocalCluster> create(int process_count);
  virtual ~LocalCluster() = default;
  /// The transport of one process. When the returned object goes, waits of its peers for it throw.
  virtual std::shared_ptr<Collectives> join(int process_index) = 0;
};

}  // namespace tessera::runtime
