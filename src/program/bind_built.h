// SPDX-License-Identifier: Apache-2.0
// What transformations of user functions share: the types of their leaves, and where they write what they make.
#pragma once

#include <functional>
#include <vector>

#include "program/trace.h"

namespace tessera::program {

/// `type_of` each.
ir::Types types_of(const std::vector<Array>& leaves, const char* function);

/// What a transformation makes of operands that it takes for values of these types: written into the current trace,
/// which spares a copy, or as the graph of `pass` that `bind_graph` gets.
using Build = std::function<ir::Values(ir::Builder& b, const ir::Values& in)>;
std::vector<Array> bind_built(const char* pass, const Build& build, const ir::Types& types,
                              const std::vector<Array>& args, const Loc& loc);

}  // namespace tessera::program
