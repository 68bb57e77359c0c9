// SPDX-License-Identifier: Apache-2.0
// Which values are computed again so that a program fits into memory, for the least time.
#pragma once

#include <cstdint>
#include <vector>

#include "planner/recompute/replay.h"

namespace tessera::planner {

/// One decision: a value that is not kept, and what it is computed from that is not there either.
struct FreedValue {
  ir::ValueId value = 0;
  bool copies = false;
  std::vector<Recomputation> list;
  std::int64_t bytes = 0;  ///< freed where memory was highest when this was decided
  double seconds = 0;      ///< that it takes
};

/// Frees, as long as temporary bytes exceed the limit, the value that is best: where memory is highest, of those that
/// are alive there and read later, by bytes, the places above the limit that they are freed for, and seconds. In the
/// end what is not needed for the limit is taken back. Where nothing helps any more, memory stays above the limit.
/// `begin`: decisions for a higher limit.
std::vector<FreedValue> choose_recomputations(const ReplayProgram& program, std::int64_t temporary_limit,
                                              std::vector<FreedValue> begin = {});

/// All decisions' recomputations, each once.
std::vector<Recomputation> recomputations(const std::vector<FreedValue>& freed);

}  // namespace tessera::planner
