// SPDX-License-Identifier: Apache-2.0
// Random programs with random shardings, for tests of the partitioner and of engines.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "spmd/spmd.h"
#include "tessera/host_array.h"

namespace tessera::test {

struct RandomProgram {
  ir::Module module;  ///< its graph is the program
  std::vector<HostArray> args;
  std::vector<HostArray> expected;  ///< by the ops' references
  double tolerance = 0;             ///< for `difference`
};

struct RandomOptions {
  int equations = 8;  ///< about how many
  bool uneven = false;
  bool samples = true;  ///< draw from the samples of every op, not only from the usual ops
  bool smooth = false;  ///< no maxima and minima: their derivatives jump where operands are nearly equal
};

/// The same program for the same seed. Values are finite and of moderate size, and ops that are not continuous get only
/// operands that do not depend on the order of a sum.
RandomProgram random_program(std::uint64_t seed, const ir::MeshAxes& mesh, const RandomOptions& options = {});

/// A layout that a value of this shape may have: each dimension gets a random, possibly empty, list of axes.
ir::Layout random_layout(std::mt19937_64& rng, const Shape& shape, const ir::MeshAxes& mesh, bool uneven);
/// Elements of moderate size; floats are positive.
HostArray random_array(std::mt19937_64& rng, const ir::Type& type);

/// Meshes that tests use: (8), (4, 2), (2, 2, 2).
std::vector<ir::MeshAxes> test_meshes();

}  // namespace tessera::test
