// SPDX-License-Identifier: Apache-2.0
#include "hlo/host/host_callbacks.h"

#include "hlo/host/module_functions.h"

namespace tessera::hlo {

namespace {
ModuleFunctions<HostCallbacks>& slot() {
  static auto* it = new ModuleFunctions<HostCallbacks>;
  return *it;
}
}  // namespace

void set_host_callbacks(HostCallbacks callbacks) { slot().set(std::move(callbacks)); }
HostCallbacks host_callbacks() { return slot().get(); }

}  // namespace tessera::hlo
