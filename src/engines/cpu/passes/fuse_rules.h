// SPDX-License-Identifier: Apache-2.0
// Which equations may join a group, and how they read their operands there.
#pragma once

#include <optional>

#include "engines/cpu/kernels/elementwise/fused.h"
#include "engines/cpu/passes/fuse.h"

namespace tessera::cpu {

/// What an equation would be in a group.
struct Fit {
  Role role = Role::Full;
  std::int64_t split = -1;  ///< the group's split if the equation joins; -1: as it is
};
/// Nothing when the equation cannot join. Values that the group does not produce count as read from memory.
std::optional<Fit> fit(const ir::Graph& g, const FusionGroup& group, const ir::Eqn& e);
/// True when the group has no values of rows yet and reads all its operands with another split as well.
bool splits_at(const ir::Graph& g, const FusionGroup& group, std::int64_t k);
/// A group with nothing in it in which the equation fits, if there can be one.
std::optional<FusionGroup> group_for(const ir::Graph& g, const ir::Eqn& e);

/// True for an equation of the group that it reads operand 0 through: padding that puts nothing between elements,
/// slices, reversals, shifts with the edges of other shards, and what turns or repeats lines.
bool reads_window(const ir::Graph& g, const FusionGroup& group, const ir::Eqn& e);
bool has_windows(const ir::Graph& g, const FusionGroup& group);
/// That window, of shards of such shapes.
kernels::Window window_of(const ir::Graph& g, const ir::Eqn& e, const Shape& local_space, const Shape& local_operand);

/// True for a value of the space's shape that is split as the space is.
bool covers_space(const ir::Graph& g, const FusionGroup& group, ir::ValueId v);

/// How operand `i` of an equation of the group is read when it comes from memory.
kernels::Access access(const ir::Graph& g, const FusionGroup& group, const ir::Eqn& e, std::size_t i);

std::optional<kernels::ReduceOp> reduce_op(const ir::OpDef& op);

}  // namespace tessera::cpu
