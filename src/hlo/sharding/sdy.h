// SPDX-License-Identifier: Apache-2.0
// Shardy's attributes.
#pragma once

#include "hlo/module.h"
#include "hlo/text/ast.h"
#include "ops/shared_attrs.h"

namespace tessera::hlo {

/// sdy.mesh @name = <["x"=4, "y"=2], device_ids=[…]>
ir::NamedMesh parse_mesh(const Source& source, const AstOp& op);
/// #sdy.sharding<@mesh, [{"x", "y":(1)2}, {?}p1], replicated={"z"}, unreduced={…}>; an inline mesh has the name "".
/// Whether mesh and axes are there is for `check_shardings` to say.
ir::AxisSharding parse_sharding(const Source& source, const AstAttr& a);
/// #sdy.sharding_per_value<[<…>, <…>]>, or a list of shardings.
std::vector<ir::AxisSharding> parse_shardings(const Source& source, const AstAttr& a);

/// The sharding of an operation that holds its operand to one; null for any other.
const AstAttr* sharding_of_constraint(const AstOp& op);
/// The most devices of a module that is read: a mesh of more is damage, or means to exhaust memory.
constexpr std::int64_t kMaxDevices = 1 << 16;
/// A sharding said over a mesh whose axes are split so that its sub-axes are axes.
ops::ShardingConstraint constraint_of(const ir::AxisSharding& s, const ir::NamedMesh& mesh);

}  // namespace tessera::hlo
