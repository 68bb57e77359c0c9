// SPDX-License-Identifier: Apache-2.0
// The recorded collectives, on the devices of all processes.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "support/collective_case.h"
#include "support/collective_programs.h"
#include "tessera/tessera.h"

namespace tessera::test {
namespace {

using nlohmann::json;
using Leaves = std::vector<Array>;

// Meshes of fewer devices than there are take them from as many processes as they can.
std::vector<Device> spread(std::int64_t count) {
  const auto all = devices();
  std::vector<Device> out;
  const std::int64_t step = std::ssize(all) / count;
  for (std::int64_t i = 0; i < count; ++i) out.push_back(all[static_cast<std::size_t>(i * step)]);
  return out;
}
bool has_local(const std::vector<Device>& list) {
  return std::any_of(list.begin(), list.end(), [](const Device& d) { return d.is_local(); });
}

CaseRun over_processes(const json& c) {
  const Mesh mesh = make_mesh(c.at("mesh_shape").get<Shape>(), c.at("mesh_axes").get<std::vector<std::string>>(),
                              spread(size_of(c.at("mesh_shape").get<Shape>())));
  const ShardingPtr everywhere = NamedSharding(mesh, P()).share();
  auto replicated = [everywhere](const Leaves& list) {
    Leaves out;
    for (const Array& x : list) out.push_back(device_put(x, everywhere));
    return out;
  };
  auto on_mesh = [everywhere](const Leaves& list) {
    Leaves out;
    for (const Array& x : list) out.push_back(device_put(x.host(), everywhere));
    return out;
  };
  return {.mesh = [mesh](const Shape&, const AxisNames&) { return mesh; },
          .place = on_mesh,
          .read = replicated,
          .compiled = true};
}

// Runs the cases with meshes of several devices; a process without a device of a case's mesh has no part in it.
int run_cases(const std::string& file, std::string (*wrong)(const json&, const CaseRun&)) {
  int ran = 0;
  for (const json& c : collective_cases(file)) {
    if (c.contains("nest")) continue;  // vmaps, which do not communicate
    const std::int64_t n = size_of(c.at("mesh_shape").get<Shape>());
    if (n < 2 || n > std::ssize(devices()) || !has_local(spread(n))) continue;
    std::string difference;
    try {
      difference = wrong(c, over_processes(c));
    } catch (const UnimplementedError& e) {
      if (c.at("level") != "extended") difference = std::string("not supported: ") + e.what();
    } catch (const std::exception& e) {
      difference = std::string("threw ") + e.what();
    }
    EXPECT_EQ(difference, "") << c.at("id");
    ++ran;
  }
  return ran;
}

TEST(MpiCases, RecordedCollectives) {
  const int ran = run_cases("cases.jsonl", wrong_values);
  EXPECT_GE(ran, std::ssize(devices()) == 8 ? 107 : 0);  // those over all devices
}

TEST(MpiCases, DerivativesOfRecordedCollectives) {
  const int ran = run_cases("grad_cases.jsonl", wrong_derivatives);
  EXPECT_GE(ran, std::ssize(devices()) == 8 ? 13 : 0);
}

}  // namespace
}  // namespace tessera::test
