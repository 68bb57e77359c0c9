// SPDX-License-Identifier: Apache-2.0
// Partitioned = unpartitioned: random programs under random shardings through the engine, on meshes of 8 devices and on
// one device. These are the first seeds of each suite; programs_more_test.cc has the 2,000.
#include "props/programs.h"

namespace tessera {
namespace {

using test::check_across_processes;
using test::check_bits;
using test::check_gradients;
using test::check_programs;

TEST(Programs, UsualOps) { check_programs(1, 30, {.equations = 8, .samples = false}); }
TEST(Programs, EveryOp) { check_programs(10000, 30, {.equations = 8}); }
TEST(Programs, Uneven) { check_programs(20000, 30, {.equations = 6, .uneven = true}); }
TEST(Programs, UnevenUsualOps) { check_programs(30000, 30, {.equations = 6, .uneven = true, .samples = false}); }
TEST(Programs, Large) { check_programs(40000, 5, {.equations = 40}); }
TEST(Programs, Gradients) { check_gradients(50000, 20, {.equations = 8, .samples = false, .smooth = true}); }
TEST(Programs, UnevenGradients) {
  check_gradients(60000, 20, {.equations = 6, .uneven = true, .samples = false, .smooth = true});
}
TEST(Programs, Processes) { check_across_processes(70000, 10, {.equations = 8, .uneven = true}); }
TEST(Programs, Bits) { check_bits(80000, 10, {.equations = 8}); }
TEST(Programs, UnevenBits) {
  check_bits(90000, 10, {.equations = 8, .uneven = true, .samples = false, .smooth = true});
}

}  // namespace
}  // namespace tessera
