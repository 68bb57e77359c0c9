// SPDX-License-Identifier: Apache-2.0
// Tens of thousands of random programs, small and large.
#include "props/programs.h"

namespace tessera {
namespace {

using test::check_across_processes;
using test::check_bits;
using test::check_gradients;
using test::check_programs;

TEST(ManyPrograms, UsualOps) { check_programs(1'000'000, 4000, {.equations = 8, .samples = false}); }
TEST(ManyPrograms, EveryOp) { check_programs(2'000'000, 4000, {.equations = 10}); }
TEST(ManyPrograms, Uneven) { check_programs(3'000'000, 4000, {.equations = 8, .uneven = true}); }
TEST(ManyPrograms, Large) { check_programs(4'000'000, 400, {.equations = 60}); }
TEST(ManyPrograms, LargeUneven) { check_programs(5'000'000, 400, {.equations = 60, .uneven = true}); }
TEST(ManyPrograms, Gradients) { check_gradients(6'000'000, 2000, {.equations = 12, .samples = false, .smooth = true}); }
TEST(ManyPrograms, UnevenGradients) {
  check_gradients(7'000'000, 2000, {.equations = 10, .uneven = true, .samples = false, .smooth = true});
}
TEST(ManyPrograms, Processes) { check_across_processes(8'000'000, 1000, {.equations = 10, .uneven = true}); }
TEST(ManyPrograms, Bits) { check_bits(9000000, 1000, {.equations = 8}); }
TEST(ManyPrograms, UnevenBits) {
  check_bits(10000000, 1000, {.equations = 8, .uneven = true, .samples = false, .smooth = true});
}

}  // namespace
}  // namespace tessera
