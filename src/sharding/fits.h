// SPDX-License-Identifier: Apache-2.0
// Placements that a caller gave, checked in the caller's words.
#pragma once

#include <string>
#include <string_view>

#include "tessera/sharding.h"

namespace tessera::sharding {

/// Throws `ValueError` for a rank and `IndivisibleError` for an extent that `sharding` does not fit. The message names
/// the function and the argument that the sharding came from, the dimension, its mesh axes, and what would fit.
void check_fits(std::string_view function, std::string_view argument, const Sharding& sharding, const Shape& shape);

/// A spec over a mesh. What the `NamedSharding` throws names the function and the argument that the spec came from.
NamedSharding named(std::string_view function, std::string_view argument, const AnyMesh& mesh,
                    const PartitionSpec& spec);

}  // namespace tessera::sharding
