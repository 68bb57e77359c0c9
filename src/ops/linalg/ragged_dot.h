// SPDX-License-Identifier: Apache-2.0
// Products in which one dimension of lhs consists of groups of consecutive positions.
#pragma once

#include "ops/ops.h"
#include "ops/shared_attrs.h"

namespace tessera::ops {

/// What `lax::ragged_dot_general` computes, written as masks and one `dot_general`: lhs, and rhs where the ragged
/// dimension is contracted, stand once a group, zero at the positions of others. Throws `ValueError` and `TypeError` as
/// that function does.
Value ragged_dot_general(Value lhs, Value rhs, Value group_sizes, const DotGeneral& dot, const Dims& lhs_ragged,
                         const Dims& rhs_group);

}  // namespace tessera::ops
