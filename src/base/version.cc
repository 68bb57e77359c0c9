// SPDX-License-Identifier: Apache-2.0
#include "tessera/version.h"

namespace tessera {

const char* version() { return "0.1.0"; }

}  // namespace tessera
