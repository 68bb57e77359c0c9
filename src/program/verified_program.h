// SPDX-License-Identifier: Apache-2.0
// The part of the verification mode that knows programs before they are partitioned.
#pragma once

#include <memory>

#include "program/placed_module.h"
#include "runtime/engine.h"

namespace tessera::program {

/// `executable`, of the placed module partitioned as `partitioned`, with every run repeated: operation by operation
/// and partitioned another way. Where the results lie further apart than changes in the last places of what the program
/// computes on the way explain, the run throws `VerificationError`. The same object where a run cannot be repeated:
/// host callbacks with effects, devices of several processes.
std::shared_ptr<runtime::Executable> verified(std::shared_ptr<runtime::Executable> executable, runtime::Engine& engine,
                                              const PlacedModule& placed, const ir::GraphPtr& partitioned);

}  // namespace tessera::program
