// SPDX-License-Identifier: Apache-2.0
// Recorded programs: steps of operations on named values.
#pragma once

#include "explicit/ops.h"

namespace tessera::test {

/// The results of a program on these arguments.
Arrays run_program(const json& program, const Arrays& args);
/// The types of what the steps of a program give, one after the other.
std::vector<ArrayType> types_of_steps(const json& program, const Arrays& args);

}  // namespace tessera::test
