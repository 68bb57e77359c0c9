// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace tessera::base {

/// Throws `ResourceExhaustedError` where the process has a limit of address space (`ulimit -v`) under which `bytes`
/// more cannot be had. For calls of OpenBLAS, which asks for its buffers again and again, for ever, until it gets them.
void check_address_space(std::int64_t bytes);

/// What OpenBLAS asks for at most for a call on one thread.
constexpr std::int64_t kBlasBuffer = std::int64_t{160} << 20;

}  // namespace tessera::base
