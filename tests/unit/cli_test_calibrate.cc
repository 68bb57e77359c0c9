// SPDX-License-Identifier: Apache-2.0
// `tessera calibrate`: what it writes is a cluster, and what it cannot do is an error that names it.
#include <gtest/gtest.h>

#include <cmath>
#include <sstream>

#include "base/file.h"
#include "support/cli_runner.h"
#include "tessera/cluster_model.h"

namespace tessera {
namespace {

class Calibrate : public test::CliTest {};

// No time is expected of anything: what is measured must be a cluster, and every figure of the check a number.
TEST_F(Calibrate, WritesAClusterAndChecksIt) {
  test::CliOutcome o = run("calibrate --devices 2 --budget 0 --rounds 2 --memory 8388608 --out own.json");
  ASSERT_EQ(o.status, 0) << o.err;
  const ClusterModel c = ClusterModel::load(path("own.json"));
  EXPECT_EQ(c.num_devices(), 2);
  EXPECT_EQ(c.levels.at(0).kind, ClusterLevel::Kind::Memory);
  EXPECT_NE(c.source.find("2 virtual devices"), std::string::npos) << c.source;
  for (const auto& kind : ClusterDevice::known_operations()) EXPECT_TRUE(c.device.operations.contains(kind)) << kind;
  EXPECT_EQ(c.overlaps.size(), 0U);
  o = run("calibrate --devices 2 --budget 0 --cluster own.json --check --rounds 2 --program \"matmul 1024\"");
  ASSERT_EQ(o.status, 0) << o.err;
  std::istringstream lines(o.out);
  int rows = 0;
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("matmul 1024")) continue;
    ++rows;
    std::istringstream figures(line.substr(55));
    double predicted = 0, measured = 0;
    figures >> predicted >> measured;
    EXPECT_TRUE(std::isfinite(predicted) && predicted > 0) << line;
    EXPECT_TRUE(std::isfinite(measured) && measured > 0) << line;
  }
  EXPECT_EQ(rows, 5) << o.out;
  EXPECT_NE(o.out.find("order of plans"), std::string::npos) << o.out;
}

TEST_F(Calibrate, RefusesWhatItCannotDo) {
  expect_refused("calibrate --devices 0", {"--devices", "0"});
  expect_refused("calibrate --rounds 0", {"--rounds", "0"});
  expect_refused("calibrate --memory 1024", {"--memory", "1024"});
  expect_refused("calibrate --memory 9000000", {"--memory: 9000000", "power of two", "8388608"});
  expect_refused("calibrate --speed", {"--speed"});
  expect_refused("calibrate --out /nowhere/own.json", {"--out", "/nowhere/own.json"});
  expect_refused("calibrate --cluster missing.json --check", {"--cluster", "missing.json"});
  base::write_file("test", path("dgx.json"), ClusterModel::preset("h100-dgx").to_json());
  expect_refused("calibrate --cluster dgx.json --check --devices 3", {"--devices is 3", "1, 2, 4 or 8"});
  expect_refused("calibrate --cluster dgx.json --check --program tetris", {"--program", "tetris", "gpt step"});
  expect_refused("calibrate --cluster dgx.json", {"--cluster", "--check"});
  expect_refused("calibrate --devices 2 --program tetris", {"--program", "--check"});
}

}  // namespace
}  // namespace tessera
