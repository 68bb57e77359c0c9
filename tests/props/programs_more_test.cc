// SPDX-License-Identifier: Apache-2.0
// More than 2,000 random programs, each on three meshes. programs_test.cc has a few of each kind for sanitizers.
#include "props/programs.h"

namespace tessera {
namespace {

using test::check_across_processes;
using test::check_bits;
using test::check_gradients;
using test::check_programs;

TEST(MorePrograms, UsualOps) { check_programs(101, 500, {.equations = 8, .samples = false}); }
TEST(MorePrograms, EveryOp) { check_programs(10101, 500, {.equations = 8}); }
TEST(MorePrograms, Uneven) { check_programs(20101, 500, {.equations = 6, .uneven = true}); }
TEST(MorePrograms, UnevenUsualOps) { check_programs(30101, 300, {.equations = 6, .uneven = true, .samples = false}); }
TEST(MorePrograms, Large) { check_programs(40101, 50, {.equations = 40}); }
TEST(MorePrograms, Gradients) { check_gradients(50101, 150, {.equations = 8, .samples = false, .smooth = true}); }
TEST(MorePrograms, UnevenGradients) {
  check_gradients(60101, 150, {.equations = 6, .uneven = true, .samples = false, .smooth = true});
}
TEST(MorePrograms, Processes) { check_across_processes(70101, 100, {.equations = 8, .uneven = true}); }
TEST(MorePrograms, Bits) { check_bits(80101, 150, {.equations = 8}); }
TEST(MorePrograms, UnevenBits) {
  check_bits(90101, 150, {.equations = 8, .uneven = true, .samples = false, .smooth = true});
}

}  // namespace
}  // namespace tessera
