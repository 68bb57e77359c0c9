// SPDX-License-Identifier: Apache-2.0
// The engine's part of the verification mode.
#pragma once

#include "engines/cpu/passes/fuse.h"
#include "engines/cpu/step_program.h"

namespace tessera::cpu {

/// A fused step that also runs each equation of its group by itself, on the very values that the block computed for it,
/// and throws `VerificationError` where they differ. So no difference is older than the equation that is named.
StepPtr make_checked_step(const ir::Graph& g, const FusionGroup& group, StepPtr fused, Context& context);

/// True for equations whose results depend on the order of sums, or on how a kernel rounds.
bool rounds(const ir::Graph& g, const ir::Eqn& e);

/// Runs a step that `rounds` with operands and results changed by some units in the last place.
void run_shaken(const ir::Graph& g, const Step& step, Frame& frame);

}  // namespace tessera::cpu
