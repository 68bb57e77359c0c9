// SPDX-License-Identifier: Apache-2.0
#include "hlo/host/host_callbacks.h"

#include "hlo/host/module_functions.h"

namespace tessera::hlo {

void set_host_callbacks(HostCallbacks callbacks) {
  ModuleFunctions<HostCallbacks>::of_process().set(std::move(callbacks));
}
HostCallbacks host_callbacks() { return ModuleFunctions<HostCallbacks>::of_process().get(); }

}  // namespace tessera::hlo
