// SPDX-License-Identifier: Apache-2.0
// Varying types: over which mesh axes the instances of a value may differ.
//
// The sets are not part of types: they follow from those of a graph's inputs, equation by equation. A checked map's
// body gets explicit casts (pvary) wherever an invariant value meets a varying one; then every rule of differentiation
// is right as it stands, since the transpose of the cast sums what the instances contributed.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ops/transform/graph_rules.h"

namespace tessera::ops {

using NameSet = std::vector<std::string>;  ///< sorted
using NameSets = std::vector<NameSet>;

NameSet unite(const NameSet& a, const NameSet& b);
NameSet without(const NameSet& a, const NameSet& b);
bool contains(const NameSet& a, const std::string& name);

/// Sets of an equation's results from those of its operands.
NameSets varying_results(const ir::Eqn& e, const NameSets& in);
/// Sets of all values from those of the inputs.
NameSets varying(const Graph& g, const NameSets& inputs);

/// The graph with a cast on every inexact operand that varies less than the equation demands, sub-graphs included, and
/// on outputs that vary less than `outputs` asks (empty: as they come). Sets of its outputs go to `*found`. `sizes`:
/// those of all mesh axes that may be meant. Throws `ValueError` for a collective under a predicate that varies over
/// its axes (decision D11).
GraphPtr cast_varying(const Graph& g, const NameSets& inputs, const std::map<std::string, std::int64_t>& sizes,
                      const NameSets& outputs = {}, NameSets* found = nullptr);

}  // namespace tessera::ops
