// SPDX-License-Identifier: Apache-2.0
// The memory of the whole process: once there is a bound, every `new` of the library, arrays and kernels' workspaces
// included, is counted, and one that would go beyond it throws `std::bad_alloc`.
#pragma once

#include <cstdint>
#include <string>

namespace tessera::cli {

/// Bytes that the process may hold from now on.
void bound_memory(std::int64_t bytes);
/// What to tell about the last `new` that failed.
std::string out_of_memory_message();

}  // namespace tessera::cli
