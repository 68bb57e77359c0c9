// SPDX-License-Identifier: Apache-2.0
#include "tessera/config.h"

namespace tessera {

Config& config() {
  static auto* c = new Config;
  return *c;
}

std::size_t config_key() {
  const Config& c = config();
  std::size_t key = 0;
  for (bool b : {c.use_shardy.get(), c.enable_checks.get(), c.deterministic.get(), c.debug_nans.get()}) {
    key = key * 2 + (b ? 1 : 0);
  }
  return key;
}

}  // namespace tessera
