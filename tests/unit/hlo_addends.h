// SPDX-License-Identifier: Apache-2.0
// Modules called with buffers of eight devices, as a caller has them that keeps a buffer for each.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/strings.h"
#include "tessera/device.h"
#include "tessera/error.h"
#include "tessera/stablehlo.h"
#include "tests/support/addends.h"

namespace tessera::test {

using Floats = std::vector<float>;

inline std::string module(const std::string& body, const std::string& mesh = R"(<["x"=4, "y"=2]>)") {
  return str(
      "module @jit_f attributes {mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32} {\n  sdy.mesh @mesh = ",
      mesh, "\n", body, "\n}\n");
}

inline HostArray counting(const Shape& shape) {
  Floats v;
  for (std::int64_t i = 0; i < size_of(shape); ++i) v.push_back(static_cast<float>((i * 7 + 3) % 11 - 5));
  return HostArray::from(v, shape);
}

// A program on eight devices, called with buffers of theirs.
struct Called {
  explicit Called(const std::string& text) : program(StablehloProgram::parse(text)) {
    for (const auto& port : program.inputs()) whole.push_back(counting(port.shape));
  }

  // Arguments by device; `whole` holds their values.
  std::vector<Array> arguments(std::int64_t seed = 1) {
    std::vector<Array> args;
    for (std::size_t i = 0; i < whole.size(); ++i) {
      args.push_back(from_device_buffers(whole[i], program.input_sharding(i), seed + static_cast<int>(i)));
    }
    return args;
  }
  Array result() {
    Array out = program(arguments())[0];
    EXPECT_TRUE(*out.sharding() == *program.output_sharding(0)) << out.sharding()->text();
    return out;
  }
  // Of the same program on whole arguments, run on the host's values.
  HostArray plain() { return program.run(whole)[0]; }
  std::int64_t collectives() {
    CommPlan plan = program.comm_plan(arguments());
    return static_cast<std::int64_t>(plan.steps().size());
  }

  Client client = Client::cpu({.devices = 8});
  ClientScope scope{client};
  StablehloProgram program;
  std::vector<HostArray> whole;
};

inline void expect_equal(const HostArray& got, const HostArray& want) {
  EXPECT_EQ(got.astype(float64).to_vector<double>(), want.astype(float64).to_vector<double>());
}

}  // namespace tessera::test
