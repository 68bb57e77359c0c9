// SPDX-License-Identifier: Apache-2.0
#include "hlo/host/host_callbacks.h"

#include <mutex>

namespace tessera::hlo {

namespace {
struct Slot {
  std::mutex mutex;
  HostCallbacks callbacks;
};
Slot& slot() {
  static auto* it = new Slot;
  return *it;
}
}  // namespace

void set_host_callbacks(HostCallbacks callbacks) {
  std::lock_guard lock(slot().mutex);
  slot().callbacks = std::move(callbacks);
}
HostCallbacks host_callbacks() {
  std::lock_guard lock(slot().mutex);
  return slot().callbacks;
}

}  // namespace tessera::hlo
