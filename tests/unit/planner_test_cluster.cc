// SPDX-License-Identifier: Apache-2.0
// Descriptions of clusters: presets, JSON, and JSON that is none.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>
#include <string>

#include "support/series.h"
#include "tessera/cluster_model.h"
#include "tessera/error.h"

namespace tessera {
namespace {

std::string message(const std::function<void()>& f) {
  try {
    f();
  } catch (const ValueError& e) {
    return e.what();
  }
  return "";
}
#define EXPECT_SAYS(statement, part) \
  EXPECT_NE(message([&] { statement; }).find(part), std::string::npos) << message([&] { statement; })

TEST(ClusterModel, PresetsAreWrittenAndReadAgain) {
  for (const auto& name : ClusterModel::presets()) {
    const ClusterModel c = ClusterModel::preset(name, 3);
    EXPECT_EQ(c.name, name);
    EXPECT_FALSE(c.source.empty());
    EXPECT_EQ(c.levels.back().size(), 3);
    EXPECT_EQ(ClusterModel::parse(c.to_json()), c);
  }
  EXPECT_EQ(ClusterModel::preset("tpu-v5e-256", 32).num_devices(), 8192);
  EXPECT_EQ(ClusterModel::preset("h100-dgx", 131072).num_devices(), ClusterModel::kMostDevices);
  EXPECT_SAYS(ClusterModel::preset("h100-dgx", 131073), "at most 1048576 devices");
  EXPECT_SAYS(ClusterModel::preset("h100-dgx", -1), "groups is -1");
  EXPECT_SAYS(ClusterModel::preset("cray-1"), "tpu-v5e-256");
}

TEST(ClusterModel, RatesOfDtypesThatAreNotListed) {
  ClusterDevice d;
  d.flops = {{DType::BF16, 100}, {DType::F32, 10}};
  d.efficiency = 0.5;
  EXPECT_EQ(d.rate(DType::BF16), 50);
  EXPECT_EQ(d.rate(DType::F16), 50) << "the narrowest that is as wide";
  EXPECT_EQ(d.rate(DType::C64), 5);
  EXPECT_EQ(d.rate(DType::F64), 5) << "none is as wide: the slowest";
  EXPECT_EQ(d.rate(DType::I8), 5);
}

ClusterModel measured() {
  ClusterModel c;
  c.name = "own";
  c.source = "measured";
  c.device = {"virtual device", {{DType::F32, 1e10}}, 1e9, 1e9, 1 << 30};
  c.device.caches = {{1 << 16, 4e9, 0.5}, {1 << 20, 2e9}};
  c.device.write_cost = 1.5;
  c.device.operations = {{"sort", 1e8}, {"exp", 1e9}};
  ClusterLevel memory{"memory", ClusterLevel::Kind::Memory, {8}, true, 1e-6, 4e10};
  memory.cores = 2;
  memory.spread = 1e-5;
  memory.stream_bytes = 8 << 20;
  c.levels = {memory, {"network", ClusterLevel::Kind::Switch, {2}, true, 1e-5, 1e9}};
  c.levels[1].direct = true;
  c.overlaps = {};
  return c;
}

TEST(ClusterModel, SharedMemoryCachesAndOperationsAreWrittenAndReadAgain) {
  const ClusterModel c = measured();
  c.check();
  EXPECT_EQ(c.num_devices(), 16);
  EXPECT_EQ(ClusterModel::parse(c.to_json()), c);
  EXPECT_EQ(c.device.bandwidth(1 << 16), 4e9);
  EXPECT_EQ(c.device.bandwidth((1 << 16) + 1), 2e9);
  EXPECT_EQ(c.device.bandwidth(1 << 21), 1e9);
  EXPECT_EQ(c.device.write_cost_of(1 << 16), 0.5);
  EXPECT_EQ(c.device.write_cost_of(1 << 20), 1);
  EXPECT_EQ(c.device.write_cost_of(1 << 21), 1.5);
  EXPECT_DOUBLE_EQ(c.levels[0].on_cores(1e-6), 2e-6) << "one core does all of it";
  EXPECT_DOUBLE_EQ(c.levels[0].on_cores(1e-4), 1.1e-4) << "both share it";
  EXPECT_DOUBLE_EQ(c.levels[1].on_cores(1e-4), 1e-4);
}

TEST(ClusterModel, WhatIsWrongWithSharedMemoryIsNamed) {
  auto expect = [](const std::function<void(ClusterModel&)>& change, const std::string& part) {
    ClusterModel c = measured();
    change(c);
    EXPECT_SAYS(c.check(), part);
    EXPECT_SAYS(ClusterModel::parse(c.to_json()), part);
  };
  expect([](auto& c) { std::swap(c.levels[0], c.levels[1]); }, "levels[1].kind is \"memory\"; expected shared memory");
  expect([](auto& c) { c.levels[0].cores = 0; }, "levels[0].cores is 0; expected 1 or more");
  expect([](auto& c) { c.levels[0].spread = -1; }, "levels[0].spread is -1");
  expect([](auto& c) { c.levels[0].stream_bytes = 0; }, "levels[0].stream_bytes is 0; expected 1 or more");
  expect([](auto& c) { c.device.caches[1].bytes = 8; }, "device.caches[1].bytes is 8; expected more than 65536");
  expect([](auto& c) { c.device.caches[0].bandwidth = 0; }, "device.caches[0].bandwidth is 0");
  expect([](auto& c) { c.device.caches[0].write_cost = 0; }, "device.caches[0].write_cost is 0");
  expect([](auto& c) { c.device.operations["sort"] = 0; }, "device.operations.sort is 0");
  expect([](auto& c) { c.device.operations["sorting"] = 1; }, "\"sorting\"; expected complex");
  ClusterModel c = measured();
  c.levels[1].cores = 2;
  EXPECT_SAYS(c.check(), "levels[1].cores is 2; expected 1");
  c.levels[1].cores = 1;
  c.levels[1].spread = 1;
  EXPECT_SAYS(c.check(), "levels[1].spread is 1; expected 0");
  c.levels[1].spread = 0;
  c.levels[0].direct = true;
  EXPECT_SAYS(c.check(), "levels[0].direct is true; expected false");
  std::string text = measured().to_json();
  text.replace(text.find("\"spread\""), 8, "\"sprawl\"");
  EXPECT_SAYS(ClusterModel::parse(text), "no field levels[0].sprawl");
}

TEST(ClusterModel, WhatIsWrongIsNamed) {
  const std::string good = ClusterModel::preset("h100-dgx", 2).to_json();
  auto with = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    const auto at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return text.replace(at, from.size(), to);
  };
  EXPECT_SAYS(ClusterModel::parse("{"), "no JSON");
  EXPECT_SAYS(ClusterModel::parse("[]"), "expected an object");
  EXPECT_SAYS(ClusterModel::parse(with("\"vector_flops\"", "\"vectorflops\"")), "device.vector_flops is missing");
  EXPECT_SAYS(ClusterModel::parse(with("\"launch\"", "\"lunch\"")), "no field device.lunch");
  EXPECT_SAYS(ClusterModel::parse(with("\"memory\"", "\"name\": \"a\", \"memory\"")), "twice");
  EXPECT_SAYS(ClusterModel::parse(with("\"switch\"", "\"mesh\"")), "\"torus\", \"switch\", \"shared\" or \"memory\"");
  EXPECT_SAYS(ClusterModel::parse(with("\"bfloat16\"", "\"bfloat17\"")), "device.flops.bfloat17");
  EXPECT_SAYS(ClusterModel::parse(with("\"efficiency\": 1.0", "\"efficiency\": 1.5")), "1.5");
  EXPECT_SAYS(ClusterModel::parse(with("\"all_reduce\"", "\"all_reuse\"")), "all_reuse");
  EXPECT_SAYS(ClusterModel::parse(with("\"latency\": 2e-06", "\"latency\": -1")), "levels[0].latency is -1");
  ClusterModel c = ClusterModel::preset("tpu-v5e-256");
  c.levels[0].sizes = {2, 2, 2, 2};
  EXPECT_SAYS(c.check(), "one to three extents");
  EXPECT_SAYS(ClusterModel::load("/nowhere/cluster.json"), "/nowhere/cluster.json");
}

// Whatever the bytes are, the answer is a cluster that `check` accepts or a `ValueError`.
TEST(ClusterModel, RandomChangesOfTheText) {
  std::mt19937 random(23);
  int read = 0;
  for (int i = 0; i < 20000; i += test::case_stride()) {
    const auto& names = ClusterModel::presets();
    const std::size_t which = static_cast<std::size_t>(i) % (names.size() + 1);
    std::string text = (which < names.size() ? ClusterModel::preset(names[which]) : measured()).to_json();
    for (int change = static_cast<int>(random() % 3); change >= 0; --change) {
      const std::size_t at = random() % text.size();
      const std::string other = "{}[]\",:-0123456789eE.tfn\\\xff";
      switch (random() % 3) {
        case 0:
          text[at] = other[random() % other.size()];
          break;
        case 1:
          text.erase(at, random() % 40);
          break;
        default:
          text.insert(at, text.substr(random() % text.size(), random() % 40));
      }
      if (text.empty()) text = "0";
    }
    try {
      const ClusterModel c = ClusterModel::parse(text);
      c.check();
      EXPECT_EQ(ClusterModel::parse(c.to_json()), c);
      ++read;
    } catch (const ValueError&) {
    }
  }
  EXPECT_GT(read, 100) << "some changes leave a cluster";
}

}  // namespace
}  // namespace tessera
