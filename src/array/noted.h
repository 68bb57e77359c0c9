// SPDX-License-Identifier: Apache-2.0
// Arrays of which other processes have parts.
#pragma once

#include "tessera/array.h"

namespace tessera::arrays {

/// The same array, which `function` has made of what this process has of it. Where others have the rest, it is noted in
/// the process's journal, by which processes that wait for each other in different programs find what differs.
Array noted(Array made, const char* function);

}  // namespace tessera::arrays
