// SPDX-License-Identifier: Apache-2.0
// Messages between the processes of an MPI communicator, and what is known of those that do not answer.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/process_collectives.h"
#include "tessera/device.h"

namespace tessera::mpi {

class MpiTransport : public runtime::Collectives {
 public:
  /// Loads MPI and joins the others, each of which calls this too. Throws as `Client::mpi`.
  static std::shared_ptr<MpiTransport> join(const MpiOptions& options);
  /// By process: how many devices it has, and the lowest process on its machine.
  virtual const std::vector<std::int64_t>& devices() const = 0;
  virtual const std::vector<std::int32_t>& nodes() const = 0;
};

}  // namespace tessera::mpi
