// SPDX-License-Identifier: Apache-2.0
#include "support/test_client.h"

#include <cstdlib>
#include <map>
#include <mutex>
#include <string>

namespace tessera::test {

Client test_client(std::int64_t devices) {
  const char* plugin = std::getenv("TESSERA_TEST_PLUGIN");
  if (plugin == nullptr || *plugin == '\0') return Client::cpu({.devices = devices});
  static std::mutex mutex;
  static std::map<std::int64_t, Client> clients;
  std::lock_guard lock(mutex);
  Client& c = clients[devices];
  if (!c) {
    ::setenv("TESSERA_CPU_DEVICES", std::to_string(devices).c_str(), 1);
    c = Client::pjrt({.plugin = plugin});
  }
  return c;
}

}  // namespace tessera::test
