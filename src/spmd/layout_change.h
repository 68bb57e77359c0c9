// SPDX-License-Identifier: Apache-2.0
// From one layout of a value to another: which collectives, and what they cost.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "ir/layout.h"
#include "ir/type.h"
#include "ops/collective/transfer_bytes.h"
#include "ops/shared_attrs.h"
#include "spmd/factoring.h"

namespace tessera::spmd {

struct Step {
  ops::Reshard::Kind kind;
  ir::Layout layout;  ///< after the step
};

/// Steps, each of one kind, that together move the fewest bytes. `goal.partial` is what remains partial, a part of
/// `from.partial`. What a value varies over beyond its tiles follows it; `goal.vary` can only add to that. Empty when
/// the layouts agree.
std::vector<Step> plan(const ir::Type& type, const ir::Layout& from, const ir::Layout& goal, const ir::MeshAxes& mesh);

using ops::local_bytes;
using ops::received;
/// Sum over the steps of a plan.
std::int64_t cost(const ir::Type& type, const ir::Layout& from, const ir::Layout& goal, const ir::MeshAxes& mesh);

/// Costs of changes on one mesh that were asked for before: the layers of a program, and its trials under other
/// layouts, ask for the same ones again and again.
class ChangeCosts {
 public:
  std::int64_t of(const ir::Type& type, const ir::Layout& from, const ir::Layout& goal, const ir::MeshAxes& mesh);

 private:
  struct Change {
    Shape shape;
    std::int64_t element;  ///< bytes
    ir::Layout from, goal;
    std::int64_t bytes;
    bool is(const ir::Type& type, const ir::Layout& f, const ir::Layout& g) const;
  };
  std::unordered_multimap<std::size_t, Change> known_;  ///< by hash
};

/// Whether a value becomes partial over the axes of `made` where its tiles are: they are parts of the goal's tiles, cut
/// by these axes alone.
bool tiles_stay(const Shape& shape, const ir::Layout& have, const ir::Layout& goal, AxisMask made,
                const ir::MeshAxes& mesh);

/// Axes over which a step moves data.
Dims moving_axes(const ir::Layout& from, const ir::Layout& to);

}  // namespace tessera::spmd
