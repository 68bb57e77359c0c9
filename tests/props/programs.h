// SPDX-License-Identifier: Apache-2.0
// Suites of random programs: seeds `first` and on, `count` of them on each of the meshes (8), (4, 2) and (2, 2, 2). A
// failure names the seed and shows the program.
#pragma once

#include <gtest/gtest.h>

#include "support/engine_programs.h"

namespace tessera::test {

inline void report(std::uint64_t seed, const ir::MeshAxes& mesh, const RandomProgram& p, const std::string& why) {
  ADD_FAILURE() << "seed " << seed << ", mesh of " << mesh.sizes.size() << " axes: " << why << "\n"
                << ir::to_string(*p.module.graph);
}

inline void check_programs(std::uint64_t first, int count, const RandomOptions& options) {
  for (const auto& mesh : test_meshes()) {
    for (int i = 0; i < count && !testing::Test::HasFailure(); ++i) {
      std::uint64_t seed = first + static_cast<std::uint64_t>(i);
      RandomProgram p = random_program(seed, mesh, options);
      std::string why = disagreement(p);
      if (!why.empty()) report(seed, mesh, p, why);
    }
  }
}

/// The same over two simulated processes.
inline void check_across_processes(std::uint64_t first, int count, const RandomOptions& options) {
  for (const auto& mesh : test_meshes()) {
    for (int i = 0; i < count && !testing::Test::HasFailure(); ++i) {
      std::uint64_t seed = first + static_cast<std::uint64_t>(i);
      RandomProgram p = random_program(seed, mesh, options);
      std::string why = disagreement_across(p, 2);
      if (!why.empty()) report(seed, mesh, p, why);
    }
  }
}

/// Programs and their gradients in deterministic mode, to the bit.
inline void check_bits(std::uint64_t first, int count, const RandomOptions& options) {
  for (const auto& mesh : test_meshes()) {
    for (int i = 0; i < count && !testing::Test::HasFailure(); ++i) {
      std::uint64_t seed = first + static_cast<std::uint64_t>(i);
      RandomProgram p = random_program(seed, mesh, options);
      std::string why = different_bits(p);
      if (!why.empty()) report(seed, mesh, p, why);
      RandomProgram g = options.smooth ? gradient_of(p) : RandomProgram{};
      if (!g.module.graph) continue;
      why = different_bits(g);
      if (!why.empty()) report(seed, mesh, g, why);
    }
  }
}

/// Gradients of programs; those of which an op has no derivative are left out, of which there must be few.
inline void check_gradients(std::uint64_t first, int count, const RandomOptions& options) {
  int checked = 0;
  for (const auto& mesh : test_meshes()) {
    for (int i = 0; i < count && !testing::Test::HasFailure(); ++i) {
      std::uint64_t seed = first + static_cast<std::uint64_t>(i);
      RandomProgram p = gradient_of(random_program(seed, mesh, options));
      if (!p.module.graph) continue;
      ++checked;
      std::string why = disagreement(p);
      if (!why.empty()) report(seed, mesh, p, why);
    }
  }
  EXPECT_GE(checked, count * 3 / 2);
}

}  // namespace tessera::test
