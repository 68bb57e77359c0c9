// SPDX-License-Identifier: Apache-2.0
// The benchmark's list of workloads, and what a workload prints.
#include <gtest/gtest.h>
#include <stdio.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>

#include "support/paths.h"

namespace tessera {
namespace {

std::string output(const std::string& arguments) {
  const char* program = std::getenv("TESSERA_CLI");
  EXPECT_NE(program, nullptr);
  FILE* pipe = popen((std::string(program ? program : "false") + " " + arguments).c_str(), "r");
  std::string text;
  char buffer[4096];
  for (std::size_t n; (n = fread(buffer, 1, sizeof buffer, pipe)) > 0;) text.append(buffer, n);
  EXPECT_EQ(pclose(pipe), 0) << text;
  return text;
}

TEST(Bench, EveryWorkloadHasATarget) {
  std::set<std::string> have;
  std::istringstream lines(output("bench --list"));
  for (std::string name; std::getline(lines, name);) have.insert(name);
  std::ifstream file(test::source_path("bench/targets.json"));
  std::set<std::string> targets;
  const auto table = nlohmann::json::parse(file);
  for (const auto& [name, ratio] : table.items()) {
    targets.insert(name.substr(0, name.find('@')));  // NAME@N runs with N devices
    EXPECT_GE(ratio.get<double>(), 1.0) << name;
  }
  EXPECT_EQ(have, targets);
}

TEST(Bench, PrintsTimeLimitAndCheckOfTheResult) {
  auto line = nlohmann::json::parse(output("bench --json --budget 0 --min-runs 1 psum_1024B"));
  EXPECT_EQ(line["workload"], "psum_1024B");
  EXPECT_GT(line["median"].get<double>(), 0.0);
  EXPECT_GT(line["limit"].get<double>(), 0.0);
  EXPECT_GT(line["peak_mb"].get<double>(), 0.0);
  // The sum over 8 blocks of 256 floats, on each device.
  EXPECT_EQ(line["check"]["count"], 8 * 256);
  EXPECT_GT(line["check"]["abs"].get<double>(), 0.0);
}

}  // namespace
}  // namespace tessera
