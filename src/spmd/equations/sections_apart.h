// SPDX-License-Identifier: Apache-2.0
// Split dimensions that a program cuts into sections, or makes by joining some: q, k and v of one product. Shards of a
// section begin elsewhere than those of the whole, so that activations would travel. With the sections, or the shards,
// as a dimension of their own every device has its part of each section, and what travels is the weights that make
// them.
#pragma once

#include <optional>

#include "spmd/equations/divided_equations.h"

namespace tessera::spmd {

/// The program with such dimensions as two, as far as products, element-wise
/// equations and the like take them; nothing where there are none, or in
/// deterministic mode. `layouts` are propagate's. The same values.
std::optional<LaidGraph> with_sections_apart(const ir::Module& m, const std::vector<ir::Layout>& layouts);

}  // namespace tessera::spmd
