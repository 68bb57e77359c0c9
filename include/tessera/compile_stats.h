// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace tessera {

/// How often the stages before running were entered.
struct CompileStats {
  std::int64_t traces = 0;     ///< a user's function ran
  std::int64_t lowerings = 0;  ///< a graph was partitioned
  std::int64_t compiles = 0;   ///< a partitioned graph was compiled for a device list
  bool operator==(const CompileStats&) const = default;
};
/// Of all jitted functions since the program began.
CompileStats compile_stats();

}  // namespace tessera
