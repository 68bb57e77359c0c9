// SPDX-License-Identifier: Apache-2.0
// Suites of programs in the manner of NumPy: seeds `first` and on, `count` of them, each on one device and every fourth
// on a mesh too. A failure names the seed and shows the program.
#pragma once

#include <gtest/gtest.h>

#include "support/engine_programs.h"
#include "support/series.h"

namespace tessera::test {

inline void check_numpy(std::uint64_t first, int count, const NumpyOptions& options = {}) {
  auto meshes = test_meshes();
  int failures = 0;
  for (int i = 0; i < count && failures < 5; i += case_stride(20)) {  // on each of the meshes
    std::uint64_t seed = first + static_cast<std::uint64_t>(i);
    NumpyProgram p = numpy_program(seed, options);
    std::string why = disagreement(p, seed, i % 4 == 0 ? &meshes[static_cast<std::size_t>(i / 4 % 3)] : nullptr);
    if (why.empty()) continue;
    ++failures;
    ADD_FAILURE() << "seed " << seed << ": " << why << "\n" << ir::to_string(*p.graph);
  }
}

}  // namespace tessera::test
