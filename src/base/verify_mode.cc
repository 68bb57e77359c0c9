// SPDX-License-Identifier: Apache-2.0
#include "base/verify_mode.h"

#include "tessera/config.h"
#include "tessera/error.h"

namespace tessera::base {

bool verifying() { return config().verify; }

void verification_failed(const std::string& message) { throw VerificationError(message); }

}  // namespace tessera::base
