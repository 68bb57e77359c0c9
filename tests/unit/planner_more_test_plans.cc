// SPDX-License-Identifier: Apache-2.0
// Shardings that `automatic` finds beside tables of plans by hand: none is predicted to be faster, and values are those
// of one device.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "support/planned_programs.h"

namespace tessera {
namespace {

// Programs are tried one in so many: all where `make test-planner` asks for it.
std::size_t one_in(std::size_t some) { return std::getenv("TESSERA_ALL_PLANS") != nullptr ? 1 : some; }

TEST(Plans, RealProgramsAreNoSlowerThanByHand) {
  const auto programs = test::real_programs();
  for (std::size_t i = 0; i < programs.size(); i += one_in(3)) {
    std::string report;
    EXPECT_EQ(test::search_fault(programs[i], report), "") << programs[i].name;
    std::printf("%s\n", report.c_str());
  }
}

TEST(Plans, RandomProgramsAreNoSlowerThanByHand) {
  for (std::uint64_t seed = 0; seed < 20; seed += one_in(5)) {
    std::string report;
    EXPECT_EQ(test::search_fault(test::random_planned_program(seed), report), "") << seed;
    std::printf("%s\n", report.c_str());
  }
}

}  // namespace
}  // namespace tessera
