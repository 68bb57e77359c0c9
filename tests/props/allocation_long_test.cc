// SPDX-License-Identifier: Apache-2.0
// Every allocation of a training step fails once.
#include "props/failing_allocations.h"

namespace tessera::test {
namespace {

TEST(FailingAllocations, AllOfThem) {
  const char* stride = std::getenv("TESSERA_ALLOCATION_STRIDE");
  AllocationSeries series;
  series.run(0, stride != nullptr ? std::atoll(stride) : 1);
  EXPECT_GT(series.tried(), 100);
}

}  // namespace
}  // namespace tessera::test
