// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace tessera::base {

/// Bytes that the process can have: the machine's memory, or less where its control group has a limit.
std::int64_t machine_memory();

/// Throws `ResourceExhaustedError` where the process has a limit of address space (`ulimit -v`) under which `bytes`
/// more cannot be had. For calls of OpenBLAS, which asks for its buffers again and again, for ever, until it gets them.
void check_address_space(std::int64_t bytes);

/// What OpenBLAS asks for at most for a call on one thread.
constexpr std::int64_t kBlasBuffer = std::int64_t{160} << 20;

}  // namespace tessera::base
