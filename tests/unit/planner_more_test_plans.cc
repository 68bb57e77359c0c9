// SPDX-License-Identifier: Apache-2.0
// Shardings that `automatic` finds beside tables of plans by hand: none is predicted to be faster, and values are those
// of one device.
#include <gtest/gtest.h>

#include <cstdio>
#include <string>

#include "support/planned_programs.h"

namespace tessera {
namespace {

TEST(Plans, RealProgramsAreNoSlowerThanByHand) {
  for (const auto& p : test::real_programs()) {
    std::string report;
    EXPECT_EQ(test::search_fault(p, report), "") << p.name;
    std::printf("%s\n", report.c_str());
  }
}

TEST(Plans, RandomProgramsAreNoSlowerThanByHand) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    std::string report;
    EXPECT_EQ(test::search_fault(test::random_planned_program(seed), report), "") << seed;
    std::printf("%s\n", report.c_str());
  }
}

}  // namespace
}  // namespace tessera
