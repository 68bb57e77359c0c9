// SPDX-License-Identifier: Apache-2.0
// Values of a graph by the ops' references, with what they would be if operations rounded otherwise.
#pragma once

#include <array>
#include <cstdint>
#include <random>
#include <vector>

#include "ir/graph.h"
#include "tessera/host_array.h"

namespace tessera::test {

struct Moved {
  HostArray value;
  std::array<HostArray, 3> moved;  ///< the result of everything that rounds changed by some units in the last place
  bool moves = false;              ///< else all of them are equal
};

/// The results of an equation; `values` has its operands. False where a result hangs on a last place: the equation's
/// results jump, and an operand moves.
bool evaluate_moved(const ir::Graph& g, const ir::Eqn& e, std::vector<Moved>& values, std::mt19937_64& rng);

/// By element, how far an engine's value may lie from the reference's.
std::vector<double> room_of(const Moved& m);

/// An element as a number; complex ones are not meant.
double number_at(const HostArray& a, std::int64_t i);
/// Both NaN, or the same number; zeros of either sign are the same.
bool same_number(double x, double y);

}  // namespace tessera::test
