// SPDX-License-Identifier: Apache-2.0
// The search for the best shardings over a mesh of one shape.
#pragma once

#include <vector>

#include "planner/plan_pricer.h"

namespace tessera::planner {

/// Climbs to the best plan for the arguments by rough prices, and in small programs further by exact ones; nothing is
/// decided for values inside. `hint`: decisions to begin with, too.
MeshPlan best_arguments(PlanPricer& rough, PlanPricer& exact, const std::vector<Decision>& hint);

/// Gives values inside the program layouts as long as that makes the plan better.
void constrain(PlanPricer& pricer, MeshPlan& plan);

/// What the plan costs as a program that will run, and why it is so: prices after each decision, what was tried in its
/// place and on top.
void account(PlanPricer& pricer, MeshPlan& plan);

}  // namespace tessera::planner
