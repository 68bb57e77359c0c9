// SPDX-License-Identifier: Apache-2.0
// Programs of every family are written, read and run again: the same values, and from then on the same text. With
// TESSERA_PROGRAMS_DIR set they are also left there, for tools/hlo/check_with_xla.py.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>

#include "base/strings.h"
#include "support/text_programs.h"
#include "tessera/stablehlo.h"
#include "tessera/tessera.h"

namespace tessera::test {
namespace {

std::string difference(const HostArray& got, const HostArray& want, double tolerance) {
  if (got.dtype() != want.dtype() || got.shape() != want.shape()) {
    return str(dtype_name(got.dtype()), got.shape(), " instead of ", dtype_name(want.dtype()), want.shape());
  }
  if (!is_inexact(want.dtype())) return identical(got, want) ? "" : "elements differ";
  HostArray g = got.astype(DType::C128), w = want.astype(DType::C128);
  for (std::size_t i = 0; i < static_cast<std::size_t>(w.size()); ++i) {
    auto x = g.span<complex128_t>()[i], y = w.span<complex128_t>()[i];
    if (x == y || (std::isnan(std::abs(x)) && std::isnan(std::abs(y)))) continue;
    if (!(std::abs(x - y) <= tolerance * (1 + std::abs(y)))) {
      return str("element ", i, " is ", x.real(), " ", x.imag(), "i instead of ", y.real(), " ", y.imag(), "i");
    }
  }
  return "";
}

void save(const std::string& folder, const TextProgram& p) {
  std::filesystem::create_directories(folder);
  std::ofstream(folder + "/program.mlir") << p.text;
  std::ofstream(folder + "/tolerance.txt") << p.tolerance << "\n";
  auto put = [&](const std::string& file, const char* prefix, const std::vector<HostArray>& arrays) {
    std::map<std::string, HostArray> all;
    for (std::size_t i = 0; i < arrays.size(); ++i) {
      all[str(prefix, i)] = arrays[i].dtype() == DType::BF16 ? arrays[i].astype(DType::F32) : arrays[i];
    }
    save_npz(folder + "/" + file, all);
  };
  put("inputs.npz", "arg", p.args);
  put("outputs.npz", "out", p.expected);
}

class Programs : public ::testing::Test {
 protected:
  // Counts programs, runs what was written, and keeps what is asked for.
  ProgramSink sink() {
    return [this](const TextProgram& p) {
      ++count_;
      if (const char* folder = std::getenv("TESSERA_PROGRAMS_DIR")) save(str(folder, "/", p.name), p);
      if (p.replicas) return;  // read as programs of one device
      try {
        check(p);
      } catch (const std::exception& e) {
        ADD_FAILURE() << p.name << ": " << e.what() << "\n" << p.text.substr(0, 4000);
      }
    };
  }
  static void check(const TextProgram& p) {
    StablehloProgram program = StablehloProgram::parse(p.text, p.name);
    auto got = program.run(p.args);
    ASSERT_EQ(got.size(), p.expected.size()) << p.name;
    for (std::size_t i = 0; i < got.size(); ++i) {
      ASSERT_EQ(difference(got[i], p.expected[i], p.tolerance), "") << p.name << " out" << i << "\n"
                                                                    << p.text.substr(0, 4000);
    }
    std::string again = program.as_text();
    // Maps are read as batches over devices; later readings fold constants of these.
    if (p.text.find("sdy.manual_computation") != std::string::npos || p.name.starts_with("map.")) {
      for (int i = 0; i < 3; ++i) again = StablehloProgram::parse(again, p.name).as_text();
    }
    ASSERT_EQ(StablehloProgram::parse(again, p.name).as_text(), again) << p.name;
  }

  Client client_ = Client::cpu({.devices = 8});
  ClientScope scope_{client_};
  int count_ = 0;
};

TEST_F(Programs, EveryOp) {
  auto missing = op_programs(sink());
  EXPECT_EQ(join(missing), "pure_callback");
  EXPECT_GT(count_, 200);
}
TEST_F(Programs, RandomOnesWithShardings) {
  random_programs(sink(), 30);
  EXPECT_GE(count_, 90);
}
TEST_F(Programs, MapsAndCollectives) {
  map_programs(sink());
  EXPECT_GT(count_, 300);
}
TEST_F(Programs, ControlFlowGradientsMapsAndTraining) {
  written_programs(sink());
  EXPECT_GT(count_, 100);
}

}  // namespace
}  // namespace tessera::test
