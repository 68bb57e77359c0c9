// SPDX-License-Identifier: Apache-2.0
// Sections of arrays beside matrix products cost nothing: q, k and v, which one product makes and others read, and
// their gradients, which products make and others read as one array.
#pragma once

#include "ir/graph.h"

namespace tessera::cpu {

/// The same program with products that read sections of arrays where these lie, in the place of slices of them, and
/// that write the sections of an array which else would be concatenated. For after `fold_transposes`.
ir::GraphPtr fold_sections(const ir::GraphPtr& graph);

}  // namespace tessera::cpu
