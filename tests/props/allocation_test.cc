// SPDX-License-Identifier: Apache-2.0
// A sample of what allocation_long_test.cc tries whole.
#include "props/failing_allocations.h"

namespace tessera::test {
namespace {

TEST(FailingAllocations, LeaveEverythingUsable) {
  constexpr std::int64_t kStride = 211;
  AllocationSeries series;
  series.run(17, kStride);
  EXPECT_GT(series.tried(), 20);
}

}  // namespace
}  // namespace tessera::test
