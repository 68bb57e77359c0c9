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
  EXPECT_SAYS(ClusterModel::parse(with("\"switch\"", "\"mesh\"")), "\"torus\", \"switch\" or \"shared\"");
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
    std::string text = ClusterModel::preset(names[static_cast<std::size_t>(i) % names.size()]).to_json();
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
