// SPDX-License-Identifier: Apache-2.0
// Functions of a program's own language that its modules call by number: JAX's Python callbacks.
#pragma once

#include <cstdint>
#include <functional>

#include "ops/control/calls.h"

namespace tessera::hlo {

/// Gives the function of a number for results of these types. Throws where there is none.
using HostCallbacks = std::function<ops::HostFunction(std::int64_t number, const ir::Types& results)>;

/// From now on modules that are read may call functions of the host; null: they may not. Thread-safe.
void set_host_callbacks(HostCallbacks callbacks);
/// What was set; empty where nothing was.
HostCallbacks host_callbacks();

}  // namespace tessera::hlo
