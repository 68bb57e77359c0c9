// SPDX-License-Identifier: Apache-2.0
// Random programs in the manner of NumPy: reductions with and without kept dimensions, broadcasts between their results
// and what they are made of, masks, constants of every rank, loops. They are what fusion makes blocks of.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "tessera/host_array.h"

namespace tessera::test {

struct NumpyProgram {
  ir::GraphPtr graph;
  std::vector<HostArray> args;
  std::vector<HostArray> expected;  ///< by the ops' references
  /// By output and element, how far another order of sums and other last bits may move it; empty where nothing may.
  std::vector<std::vector<double>> room;
};

struct NumpyOptions {
  int equations = 24;      ///< about how many
  int long_rows = 4;       ///< programs in a hundred whose rows are longer than a tile
  bool non_finite = true;  ///< infinities and NaN among the values of some programs
};

/// The same program for the same seed. How far elements may move is measured: by copies of the program's values in
/// which the result of each operation that rounds in a way of its own is changed by some units in the last place.
/// Operations whose results jump get only operands that do not move.
NumpyProgram numpy_program(std::uint64_t seed, const NumpyOptions& options = {});

/// What differs between the results and those expected; empty when nothing does.
std::string difference(const NumpyProgram& p, const std::vector<HostArray>& got);

}  // namespace tessera::test
