// SPDX-License-Identifier: Apache-2.0
// The verification mode (`Config::verify`), for those who take part in it.
#pragma once

#include <cstddef>
#include <cstring>
#include <string>

namespace tessera::base {

/// True while the mode is on.
bool verifying();

/// In the mode, fills memory that nobody has written yet with bytes that are NaN in every float dtype.
inline void poison(void* memory, std::size_t bytes) {
  if (bytes > 0 && verifying()) std::memset(memory, 0xFF, bytes);
}

/// Throws `VerificationError`.
[[noreturn]] void verification_failed(const std::string& message);

}  // namespace tessera::base
