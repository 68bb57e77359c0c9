// SPDX-License-Identifier: Apache-2.0
// Steps that wait for other processes, taken apart so that this one computes meanwhile.
#pragma once

#include <vector>

#include "engines/cpu/step_program.h"

namespace tessera::cpu {

struct Overlapped {
  std::vector<StepPtr> steps;
  std::size_t exchanges = 0;  ///< how many were taken apart: the numbers of `Frame::under_way`
};

/// The same steps in an order that their values allow, with each step that exchanges as two, "begin …" and "end …". One
/// begins once its operands are there. Steps that need its results let a few later ones pass that do not, then it ends
/// and they follow. Some of them are under way at most, and one at a time begins early on inputs of the program, for
/// the memory's sake. Effects keep their order. All processes get the same order.
Overlapped overlapped(std::vector<StepPtr> steps, std::size_t num_values);

}  // namespace tessera::cpu
