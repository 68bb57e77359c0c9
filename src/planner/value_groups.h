// SPDX-License-Identifier: Apache-2.0
// Values of a program that play the same role in repeated layers, and so share their sharding.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace tessera::planner {

/// Arguments, or values inside the program. Of the latter with the operation whose results they are.
struct ValueGroup {
  std::vector<std::size_t> arguments;  ///< numbers of the program's inputs; empty: values inside
  std::vector<ir::ValueId> values;
  ir::Type type;
  std::string op = {};
  Loc loc = {};  ///< of the first

  bool inside() const { return arguments.empty(); }
  std::int64_t bytes() const { return type.nbytes() * static_cast<std::int64_t>(values.size()); }
};

/// The first `count` inputs, by what is done with them, and with that.
std::vector<ValueGroup> argument_groups(const ir::Graph& g, std::size_t count);

/// Results of products, convolutions, gathers and changes of shape of at least `least` bytes, those of most bytes first
/// and no more than `most` groups. Values in bodies of loops are not looked at.
std::vector<ValueGroup> inner_groups(const ir::Graph& g, std::int64_t least, std::size_t most);

}  // namespace tessera::planner
