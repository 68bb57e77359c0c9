// SPDX-License-Identifier: Apache-2.0
// Random programs under random shardings on the devices of a PJRT plugin.
#pragma once

#include <cstdint>
#include <string>

#include "tessera/device.h"

namespace tessera::test {

/// Of TESSERA_TEST_PLUGIN, else of this build's own plugin.
std::string plugin_path_of_test();
/// Eight devices of the plugin that TESSERA_TEST_PLUGIN names, else of this build's own; made once.
Client plugin_client();

struct PluginOutcome {
  std::string difference;    ///< from the ops' references; an unexpected error counts
  bool refused = false;      ///< by an `UnimplementedError`
  bool partitioner = false;  ///< it differs, and does not where nothing is split: the plugin's partitioner is at fault
};
/// The program of this seed through `jit` and the public shardings of its arguments and results.
PluginOutcome run_random_program(std::uint64_t seed, const Client& client);

}  // namespace tessera::test
