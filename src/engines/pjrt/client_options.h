// SPDX-License-Identifier: Apache-2.0
// What a plugin is told when its client is made.
#pragma once

#include <map>
#include <string>

#include "tessera/device.h"

namespace tessera::pjrt_engine {

/// The program's own options, and beside them those of TESSERA_PJRT_OPTIONS in the environment. Throws `ValueError`
/// for an entry there that has no name or no value.
std::map<std::string, PjrtOptions::Value> client_options(const PjrtOptions& options);

}  // namespace tessera::pjrt_engine
