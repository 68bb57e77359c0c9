// SPDX-License-Identifier: Apache-2.0
// Programs under given shardings that fit into memory because values are computed again.
#pragma once

#include <vector>

#include "planner/plan_pricer.h"

namespace tessera::planner {

/// A program that is not kept within memory by its shardings alone.
struct Fitted {
  std::vector<Recomputation> again;
  std::vector<RecomputedValues> recomputed;  ///< those that free most first
  Price price;                               ///< as the program that will run
  Price kept;                                ///< with nothing computed again
};

/// Chooses by what the steps of the program under these layouts take and keep, and checks the choice on the program
/// that will run with it, a few times where it keeps more than was foreseen. Where nothing fits: what keeps least.
Fitted fit(const PlanPricer& exact, const Chosen& chosen);

}  // namespace tessera::planner
