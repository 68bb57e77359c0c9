// SPDX-License-Identifier: Apache-2.0
// The recorded collectives, on the devices of all processes.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "support/collective_case.h"
#include "tessera/tessera.h"

namespace tessera::test {
namespace {

using nlohmann::json;
using Leaves = std::vector<Array>;

// What each process can read: the value of an array over processes.
Leaves readable(const Leaves& results) {
  Leaves out;
  for (const Array& r : results) {
    bool here = r.is_fully_addressable() || r.is_fully_replicated();
    out.push_back(Array(here ? r.host() : process_allgather(r, {.tiled = true})));
  }
  return out;
}

std::string forward(const json& c) {
  Mesh mesh = make_mesh(c.at("mesh_shape").get<Shape>(), c.at("mesh_axes").get<std::vector<std::string>>());
  auto f = shard_map([&c](const Leaves& x) { return case_body(c, x); }, mesh, SpecTree{spec_list(c.at("in_specs"))},
                     spec_list(c.at("out_specs")), {.check_vma = c.at("check_vma").get<bool>()});
  Leaves in;
  for (const Array& x : arrays(c.at("inputs"))) in.push_back(device_put(x.host(), NamedSharding(mesh, P())));
  return case_difference(readable(jit(f)(in)), c.at("expected"));
}

TEST(MpiCases, RecordedCollectives) {
  int ran = 0;
  for (const json& c : collective_cases("cases.jsonl")) {
    std::int64_t n = 1;
    for (auto s : c.at("mesh_shape").get<Shape>()) n *= s;
    if (n != std::ssize(devices()) || c.contains("nest")) continue;
    std::string wrong;
    try {
      wrong = forward(c);
    } catch (const UnimplementedError& e) {
      if (c.at("level") != "extended") wrong = std::string("not supported: ") + e.what();
    } catch (const std::exception& e) {
      wrong = std::string("threw ") + e.what();
    }
    EXPECT_EQ(wrong, "") << c.at("id");
    ++ran;
  }
  RecordProperty("cases", ran);
  if (std::ssize(devices()) == 8) {
    EXPECT_GT(ran, 80);
  }
}

}  // namespace
}  // namespace tessera::test
