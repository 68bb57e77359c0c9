// SPDX-License-Identifier: Apache-2.0
// Stencils that are computed for the inner part of an array, from slices of it, and padded to the whole again: the
// inner part's shards begin elsewhere than those of the whole, so that its edges would travel there and back.
#pragma once

#include <optional>

#include "spmd/equations/divided_equations.h"

namespace tessera::spmd {

/// The program with such inner parts computed for all elements of the whole, from arrays that are moved by what their
/// slices began with, and picked where they are wanted; nothing where there are none. `layouts` are propagate's.
std::optional<LaidGraph> align_interiors(const ir::Module& m, const std::vector<ir::Layout>& layouts);

}  // namespace tessera::spmd
