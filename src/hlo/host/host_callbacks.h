// SPDX-License-Identifier: Apache-2.0
// Functions of a program's own language that its modules call by number: JAX's Python callbacks.
#pragma once

#include <cstdint>
#include <functional>

#include "hlo/text/ast.h"
#include "ops/control/calls.h"

namespace tessera::hlo {

/// A call of the host: the function's number, the results' types, and element types as the module says them (narrow
/// ones are held in wider dtypes).
struct HostCall {
  std::int64_t number = 0;
  ir::Types results;
  std::vector<Elem> in, out;
};
/// Gives the function of a call. Throws where there is none.
using HostCallbacks = std::function<ops::HostFunction(const HostCall& call)>;

/// From now on modules that are read may call functions of the host; null: they may not. Thread-safe.
void set_host_callbacks(HostCallbacks callbacks);
/// What was set; empty where nothing was.
HostCallbacks host_callbacks();

}  // namespace tessera::hlo
