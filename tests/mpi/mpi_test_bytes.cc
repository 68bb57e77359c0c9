// SPDX-License-Identifier: Apache-2.0
// What processes send, against the communication plan.
#include <gtest/gtest.h>

#include <cstdlib>

#include "runtime/engine.h"
#include "tessera/tessera.h"
#include "workloads/gpt.h"

namespace tessera::test {
namespace {

std::int64_t sent() { return runtime::runtime_of(Client::current()).collectives->bytes_sent(); }

// Of all processes together.
template <class F>
std::int64_t sent_by_all(const F& f) {
  f();  // compiles
  sync_global_devices("before");
  const std::int64_t before = sent();
  f();
  const HostArray mine = HostArray::from(std::vector<std::int64_t>{sent() - before});
  std::int64_t sum = 0;
  for (auto bytes : process_allgather(mine).span<std::int64_t>()) sum += bytes;
  return sum;
}

// Bytes of "f32[4,8]".
std::int64_t bytes_of(const std::string& type) {
  std::int64_t n = 4;
  const char* at = type.c_str() + type.find('[') + 1;
  while (*at != ']' && *at != '\0') {
    char* end = nullptr;
    n *= std::strtoll(at, &end, 10);
    at = *end == ',' ? end + 1 : end;
  }
  return n;
}

// What the plan's all-reduces over "x", whose neighbours are processes, send between them. The busiest device receives
// 2 (n - 1) / n of its shard; so little that everybody sends it to everybody goes to the n - 1 others.
std::int64_t planned(const CommPlan& plan) {
  constexpr std::int64_t kSmall = 16 << 10;
  const std::int64_t n = process_count();
  std::int64_t sum = 0;
  for (const CommStep& step : plan.steps()) {
    // Inside a process. Shifts are of the heads, which "y" splits; they are listed with all axes of their value.
    if (step.axes == std::vector<std::string>{"y"} || step.op == "halo_exchange") continue;
    EXPECT_EQ(step.op, "all_reduce") << step.value;
    EXPECT_EQ(step.value.substr(0, 3), "f32");
    const std::int64_t whole = bytes_of(step.value);
    const bool split = 4 * step.bytes_per_device * n < 3 * 2 * (n - 1) * whole;  // over the devices of a process
    const std::int64_t shard = split ? whole / 2 : whole;
    sum += shard <= kSmall ? n * (n - 1) * whole : 2 * (n - 1) * whole;
  }
  return sum;
}

TEST(MpiBytes, TheTrainingStepSendsWhatItsPlanSays) {
  if (local_devices().size() != 2 || process_count() < 2) return;
  Mesh mesh = make_mesh({process_count(), 2}, {"x", "y"});
  auto [state, tokens] = gpt::state(mesh);
  auto step = jit([](const gpt::State& s, const Array& t) { return gpt::step(s, t); });
  auto once = [&, &s = state, &t = tokens] { step(s, t).second.block_until_ready(); };
  EXPECT_EQ(sent_by_all(once), planned(step.comm_plan(state, tokens))) << to_string(step.comm_plan(state, tokens));
}

}  // namespace
}  // namespace tessera::test
