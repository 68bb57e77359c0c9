// SPDX-License-Identifier: Apache-2.0
// Random programs around dimensions that are several sections: products whose columns are cut, arrays that are joined
// or padded of sections and multiplied, in the forms in which attention and gates are written.
#pragma once

#include <cstdint>

#include "support/random_graphs.h"

namespace tessera::test {

/// The same program for the same seed; its derivative, which joins what the program cuts, is `gradient_of`'s.
RandomProgram section_program(std::uint64_t seed, const ir::MeshAxes& mesh);

}  // namespace tessera::test
