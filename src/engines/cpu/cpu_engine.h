// SPDX-License-Identifier: Apache-2.0
// The native engine: any number of virtual devices in one process.
#pragma once

#include <memory>

#include "runtime/engine.h"

namespace tessera::cpu {

/// `collectives` is null for a single process.
std::shared_ptr<runtime::Engine> make_engine(int process_index, std::shared_ptr<runtime::MemoryPool> memory,
                                             std::shared_ptr<runtime::Collectives> collectives);

}  // namespace tessera::cpu
