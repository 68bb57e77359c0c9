// SPDX-License-Identifier: Apache-2.0
// Programs of every family are written, read and run again: the same values, and from then on the same text. With
// TESSERA_PROGRAMS_DIR set they are also left there, for tools/hlo/check_with_xla.py.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "base/strings.h"
#include "support/series.h"
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

class Programs : public ::testing::Test {
 protected:
  // Counts programs, runs what was written, and keeps what is asked for.
  ProgramSink sink() {
    return [this](const TextProgram& p) {
      ++count_;
      keep(p);
      if (count_ % case_stride() != 0) return;
      try {
        if (p.replicas) {
          check_replicas(p);
        } else {
          check(p);
        }
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
    ASSERT_EQ(StablehloProgram::parse(again, p.name).as_text(), again) << p.name;
  }

  // Every replica its own arguments and results.
  static void check_replicas(const TextProgram& p) {
    StablehloProgram program = StablehloProgram::parse(p.text, p.name);
    Client client = Client::current();
    auto all = client.devices();
    std::vector<Device> devices(all.begin(), all.begin() + program.num_devices());
    auto row = [](const HostArray& a, std::size_t r) {
      HostArray out(a.dtype(), Shape(a.shape().begin() + 1, a.shape().end()));
      auto bytes = static_cast<std::size_t>(out.size() * dtype_size(a.dtype()));
      std::memcpy(out.data(), static_cast<const char*>(a.data()) + r * bytes, bytes);
      return out;
    };
    std::vector<Array> args;
    for (const auto& a : p.args) {
      std::vector<Array> shard_buffers;
      for (std::size_t r = 0; r < devices.size(); ++r) shard_buffers.push_back(device_put(row(a, r), devices[r]));
      args.push_back(make_array_from_single_device_arrays(shard_buffers[0].shape(),
                                                          GspmdSharding::replicated(devices).share(), shard_buffers));
    }
    auto got = program(args);
    ASSERT_EQ(got.size(), p.expected.size()) << p.name;
    for (std::size_t i = 0; i < got.size(); ++i) {
      auto shards = got[i].addressable_shards();
      ASSERT_EQ(shards.size(), devices.size()) << p.name;
      for (std::size_t r = 0; r < shards.size(); ++r) {
        ASSERT_EQ(difference(shards[r].data().value().host(), row(p.expected[i], r), p.tolerance), "")
            << p.name << " out" << i << " of replica " << r << "\n"
            << p.text.substr(0, 4000);
      }
    }
    std::string again = program.as_text();
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
