// SPDX-License-Identifier: Apache-2.0
// Suites of random programs: seeds `first` and on, `count` of them on each of the meshes (8), (4, 2) and (2, 2, 2). A
// failure names the seed and shows the program.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>

#include "support/engine_programs.h"
#include "support/series.h"

namespace tessera::test {

inline void report(std::uint64_t seed, const ir::MeshAxes& mesh, const RandomProgram& p, const std::string& why) {
  ADD_FAILURE() << "seed " << seed << ", mesh of " << mesh.sizes.size() << " axes: " << why << "\n"
                << ir::to_string(*p.module.graph);
}

/// use(seed, mesh) for each seed on each mesh, for one in four under sanitizers; returns how many that is.
inline int each_seed(std::uint64_t first, int count,
                     const std::function<void(std::uint64_t, const ir::MeshAxes&)>& use) {
  int used = 0;
  for (const auto& mesh : test_meshes()) {
    for (int i = 0; i < count && !testing::Test::HasFailure(); i += case_stride()) {
      use(first + static_cast<std::uint64_t>(i), mesh);
      ++used;
    }
  }
  return used;
}

inline void check_programs(std::uint64_t first, int count, const RandomOptions& options) {
  each_seed(first, count, [&](std::uint64_t seed, const ir::MeshAxes& mesh) {
    RandomProgram p = random_program(seed, mesh, options);
    std::string why = disagreement(p);
    if (!why.empty()) report(seed, mesh, p, why);
  });
}

/// The same over two simulated processes.
inline void check_across_processes(std::uint64_t first, int count, const RandomOptions& options) {
  each_seed(first, count, [&](std::uint64_t seed, const ir::MeshAxes& mesh) {
    RandomProgram p = random_program(seed, mesh, options);
    std::string why = disagreement_across(p, 2);
    if (!why.empty()) report(seed, mesh, p, why);
  });
}

/// Programs and their gradients in deterministic mode, to the bit.
inline void check_bits(std::uint64_t first, int count, const RandomOptions& options) {
  each_seed(first, count, [&](std::uint64_t seed, const ir::MeshAxes& mesh) {
    RandomProgram p = random_program(seed, mesh, options);
    std::string why = different_bits(p);
    if (!why.empty()) report(seed, mesh, p, why);
    RandomProgram g = options.smooth ? gradient_of(p) : RandomProgram{};
    if (!g.module.graph) return;
    why = different_bits(g);
    if (!why.empty()) report(seed, mesh, g, why);
  });
}

/// Gradients of programs; those of which an op has no derivative are left out, of which there must be few.
inline void check_gradients(std::uint64_t first, int count, const RandomOptions& options) {
  int checked = 0;
  int used = each_seed(first, count, [&](std::uint64_t seed, const ir::MeshAxes& mesh) {
    RandomProgram p = gradient_of(random_program(seed, mesh, options));
    if (!p.module.graph) return;
    ++checked;
    std::string why = disagreement(p);
    if (!why.empty()) report(seed, mesh, p, why);
  });
  EXPECT_GE(2 * checked, used);
}

}  // namespace tessera::test
