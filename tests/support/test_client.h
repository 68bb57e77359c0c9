// SPDX-License-Identifier: Apache-2.0
// The devices that tests of programs run on.
#pragma once

#include <cstdint>

#include "tessera/device.h"

namespace tessera::test {

/// A client of this many CPU devices. Where TESSERA_TEST_PLUGIN names a PJRT plugin: of its devices, whose number the
/// plugin reads from TESSERA_CPU_DEVICES; made once for each number.
Client test_client(std::int64_t devices);

}  // namespace tessera::test
