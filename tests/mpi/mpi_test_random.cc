// SPDX-License-Identifier: Apache-2.0
// Random programs under random shardings, and their gradients, over the devices of all processes: every process looks
// at the shards that it gets.
#include <gtest/gtest.h>

#include "support/engine_programs.h"
#include "tessera/tessera.h"

namespace tessera::test {
namespace {

void check_everywhere(std::uint64_t first, int count, const RandomOptions& options, bool gradients) {
  if (std::ssize(devices()) != 8) return;  // the meshes' size
  for (const auto& mesh : test_meshes()) {
    for (int i = 0; i < count; ++i) {
      const std::uint64_t seed = first + static_cast<std::uint64_t>(i);
      RandomProgram p = random_program(seed, mesh, options);
      if (gradients) {
        p = gradient_of(p);
        if (!p.module.graph) continue;
        p.expected = run_on_one(p.module.graph, p.args);
      }
      const std::string why = disagreement_here(p, Client::current());
      EXPECT_EQ(why, "") << "seed " << seed << ", mesh of " << mesh.sizes.size() << " axes\n"
                         << ir::to_string(*p.module.graph);
    }
  }
}

TEST(MpiRandom, EvenPrograms) { check_everywhere(1000, 60, {}, false); }
TEST(MpiRandom, UnevenPrograms) { check_everywhere(2000, 60, {.uneven = true}, false); }
TEST(MpiRandom, Gradients) { check_everywhere(3000, 40, {.uneven = true, .samples = false, .smooth = true}, true); }

}  // namespace
}  // namespace tessera::test
