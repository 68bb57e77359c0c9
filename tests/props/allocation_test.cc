// SPDX-License-Identifier: Apache-2.0
// A sample of what allocation_long_test.cc tries whole.
#include <filesystem>
#include <functional>

#include "base/strings.h"
#include "props/failing_allocations.h"

namespace tessera::test {
namespace {

TEST(FailingAllocations, LeaveEverythingUsable) {
  constexpr std::int64_t kStride = 211;
  AllocationSeries series;
  series.run(17, kStride);
  EXPECT_GT(series.tried(), 20);
}

// `step` with one in `stride` of its allocations failing in turn: an error, or what it gives without.
void fail_each(std::int64_t stride, const std::function<std::string()>& step) {
  const std::string expected = step();
  std::int64_t n = 0;
  for (bool reached = true; reached; n += stride) {
    alarm(60);
    SCOPED_TRACE(n);
    FailingAllocation::arm(n);
    try {
      const std::string got = step();
      FailingAllocation::disarm();
      EXPECT_EQ(got, expected);
    } catch (const std::bad_alloc&) {
      FailingAllocation::disarm();
    } catch (const Error&) {
      FailingAllocation::disarm();
    }
    reached = FailingAllocation::happened;
    ASSERT_EQ(step(), expected);
  }
  alarm(0);
  EXPECT_GT(n, 100);
}

TEST(FailingAllocations, OfFiles) {
  const std::string file = str(::testing::TempDir(), "files", getpid());
  HostArrays values;
  for (const char* name : {"w", "b", "scale"}) values[name] = HostArray::from(std::vector<float>{1, 2, 3});
  fail_each(1, [&] {
    save_safetensors(file, values);
    std::string out;
    for (const auto& [name, value] : load_safetensors(file)) out += name + to_string(value);
    return out;
  });
  std::filesystem::remove(file);
}

TEST(FailingAllocations, OfCheckpoints) {
  ClientScope scope(Client::cpu({.devices = 4}));
  const std::string folder = str(::testing::TempDir(), "checkpoints", getpid());
  NamedSharding rows(make_mesh({4}, {"x"}), P("x"));
  std::vector<Array> tree{device_put(HostArray::from(std::vector<float>{1, 2, 3, 4}), rows), ones({3})};
  std::int64_t last = 0;
  fail_each(7, [&] {
    const std::int64_t number = ++last;
    checkpoints::save(folder, number, tree).wait();
    auto back = checkpoints::restore(folder, number, tree);
    return to_string(back[0]) + to_string(back[1]);
  });
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace tessera::test
