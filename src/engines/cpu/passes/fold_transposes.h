// SPDX-License-Identifier: Apache-2.0
// Transpositions beside matrix products cost nothing: the product reads and writes through strides.
#pragma once

#include "ir/graph.h"

namespace tessera::cpu {

/// The same program with transpositions taken into the products that read or make them, as far as dimensions stay in
/// the order that products give them.
ir::GraphPtr fold_transposes(const ir::GraphPtr& graph);

}  // namespace tessera::cpu
