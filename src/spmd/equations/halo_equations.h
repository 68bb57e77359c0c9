// SPDX-License-Identifier: Apache-2.0
// Equations that move elements along dimensions: what they need of neighbours when those dimensions are split.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "ops/collective/transfer_bytes.h"
#include "ops/shape/halo.h"
#include "spmd/factoring.h"

namespace tessera::spmd {

/// A dimension along which an operand's elements come to lie elsewhere in the result.
struct MovedDim {
  std::size_t operand;
  std::size_t dimension;  ///< of both
};

/// A slice, padding, reversal or concatenation as the op that takes shards from neighbours.
struct Moves {
  ops::Halo halo;
  std::vector<MovedDim> dims;
  std::vector<ir::ValueId> operands;  ///< those of the equation, in order
};
std::optional<Moves> moves_of(const ir::Eqn& e, const ir::Graph& g);

/// The same from the operands of slices in place of the slices, where what these cut off would not be seen; nothing
/// where no operand is such a slice. `maker` gives the equation that makes a value which nobody else reads, else null.
std::optional<Moves> through_slices(const Moves& m, const ir::Graph& g,
                                    const std::function<const ir::Eqn*(ir::ValueId)>& maker);

/// A slice of a padded array as one of the array itself, between elements of the padding; nothing where it is none.
std::optional<Moves> through_padding(const Moves& m, const ir::Graph& g, const ir::Eqn* maker);

using ops::halo_received;

}  // namespace tessera::spmd
